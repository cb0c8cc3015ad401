package paidaction

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// Request asks for an action.
type Request struct {
	Kind string
	Args any // the action's arguments, or their JSON
	Terms
	// Key makes the request repeatable: the same key and arguments give the same action. At most 255 bytes; an anonymous
	// payer's must carry 128 random bits, and so have at least 22 characters (spec 01 §1.8.8).
	Key    string
	Caller Caller
}

// Terms are what a payer agrees to.
type Terms struct {
	Method Method // forces one method; empty means the action's own order
	// MaxCost is the most that the action may cost: above it, it is refused with PRICE_CHANGED. nil: whatever it costs now. Others can raise a price
	// between the look at it and the request, and from a balance it is paid at once.
	MaxCost *Msat
}

// Refusals of the walk itself, which no payer meets: answer looks up what the key was used for, and walk goes on with the next method.
var (
	errKeyUsed = errors.New("the idempotency key was used before")
	errNotOpen = errors.New("this method is not open to this payer")
)

// minAnonymous is the least length of an anonymous payer's key: 128 random bits in base64.
const minAnonymous = 22

// Pay performs an action, or begins to: it walks the action's payment methods and takes the first that works. From a
// balance the action is PAID when Pay returns; else it waits for the payment of the invoice that comes with it.
//
// Errors: INVALID_INPUT, INVALID_AMOUNT and the action's own refusals; UNAUTHENTICATED, METHOD_UNAVAILABLE,
// INSUFFICIENT_FUNDS, PRICE_CHANGED, TOO_MANY_PENDING, IDEMPOTENCY_CONFLICT, LIGHTNING_UNAVAILABLE, TRY_AGAIN. After any of them nothing is
// charged.
func (e *Engine) Pay(ctx context.Context, r Request) (*PaidAction, error) {
	turn := e.queue(r.Caller.User) // before anything that takes time
	defer turn.Leave()
	def, ok := e.actions[r.Kind]
	if !ok {
		return nil, Errorf(CodeInvalidInput, "There is no such action.")
	}
	if r.Caller.User == nil && !def.Spec().Anonable {
		return nil, Errorf(CodeUnauthenticated, "Sign in to do this.")
	}
	a := &attempt{def: def, payer: r.Caller.User, most: r.MaxCost, number: 1, turn: turn, proof: e.proofBy(r.Caller)}
	if a.payer == nil {
		a.client = e.ClientHash(r.Caller.Client)
	}
	var err error
	if a.args, err = normalize(def, r.Args); err != nil {
		return nil, err
	}
	if err := a.repeatable(r.Key, r.Method, a.args); err != nil {
		return nil, err
	}
	return e.answer(ctx, a, r.Method)
}

// repeatable gives an attempt the key under which it may be asked for again, with what was asked for; an empty one is none.
func (a *attempt) repeatable(key string, method Method, asked []byte) error {
	switch {
	case key == "":
		return nil
	case len(key) > 255:
		return Errorf(CodeInvalidInput, "An idempotency key has at most 255 bytes.")
	case !utf8.ValidString(key) || strings.ContainsRune(key, 0):
		return Errorf(CodeInvalidInput, "The idempotency key holds a character that cannot be stored.")
	case a.payer == nil && len(key) < minAnonymous:
		return Errorf(CodeInvalidInput, "Without signing in, an idempotency key needs at least %d random characters.", minAnonymous)
	}
	a.key, a.argsHash = &key, hashArgs(a.def.Spec().Kind, method, asked)
	return nil
}

// answer walks, and says what became of it.
func (e *Engine) answer(ctx context.Context, a *attempt, method Method) (*PaidAction, error) {
	pa, err := e.walk(ctx, a, method)
	if err != nil && a.key != nil {
		// Whatever stood in the way: if the key was used before, the answer is what was done then.
		id, found, lookupErr := e.winner(ctx, a)
		if lookupErr != nil && !errors.Is(err, errUnknownCommit) {
			return nil, forCaller(lookupErr)
		}
		if found {
			pa, err = e.begun(ctx, &PaidAction{ID: id})
		}
	}
	return pa, forCaller(err)
}

func normalize(def Definition, args any) (json.RawMessage, error) {
	raw, err := encode(args)
	if err != nil {
		return nil, err
	}
	return def.normalize(raw)
}

func encode(args any) (json.RawMessage, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, Errorf(CodeInvalidInput, "The arguments cannot be read.").Because(err)
	}
	return raw, nil
}

func hashArgs(kind string, method Method, args json.RawMessage) []byte {
	sum := sha256.New()
	for _, part := range [][]byte{[]byte(kind), []byte(method), args} {
		fmt.Fprintf(sum, "%d:", len(part))
		sum.Write(part)
	}
	return sum.Sum(nil)
}

// winner finds the action that this key made. Another set of arguments under the same key is refused.
func (e *Engine) winner(ctx context.Context, a *attempt) (id int64, found bool, err error) {
	q := db.New(e.Pool)
	var hash []byte
	if a.payer != nil {
		row, rowErr := q.ActionByKey(ctx, db.ActionByKeyParams{PayerID: a.payer, IdempotencyKey: a.key})
		id, hash, err = row.ID, row.ArgsHash, rowErr
	} else {
		row, rowErr := q.ActionByAnonymousKey(ctx, a.key)
		id, hash, err = row.ID, row.ArgsHash, rowErr
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("look up the idempotency key: %w", err)
	case !bytes.Equal(hash, a.argsHash):
		return 0, false, Errorf(CodeIdempotencyConflict, "This idempotency key was used before for something else. Use a new key.")
	}
	return id, true, nil
}

// attempt is one try to get an action paid: the first, or a retry.
type attempt struct {
	def      Definition
	args     json.RawMessage
	payer    *int64
	most     *Msat  // that it may cost; nil: whatever it costs
	client   []byte // hash of an anonymous payer's address; bounds their open invoices
	key      *string
	argsHash []byte
	number   int16
	previous int64  // the failed attempt, 0 in the first
	genesis  *int64 // the first attempt, nil in itself
	turn     Turn
	proof    proof
}

// agreed refuses a price above what the payer agreed to.
func (a *attempt) agreed(cost Msat) error {
	if a.most != nil && cost > *a.most {
		return Errorf(CodePriceChanged, "The price is %d sats now, more than you agreed to. Look at it again.", cost.CeilSats()).costing(cost)
	}
	return nil
}

// walk tries the methods in order until one works.
func (e *Engine) walk(ctx context.Context, a *attempt, forced Method) (*PaidAction, error) {
	methods := a.def.Spec().Methods
	if forced != "" {
		if forced != ZeroCost && !slices.Contains(methods, forced) {
			return nil, Errorf(CodeMethodUnavailable, "This cannot be paid that way.")
		}
		methods = []Method{forced}
	}
	if forced == "" && a.payer != nil {
		// P2P is for those who cannot pay from a balance, or will not and say so.
		methods = balanceFirst(methods)
	}
	insufficient := false
	for _, m := range methods {
		pa, err := e.try(ctx, a, m)
		switch {
		case err == nil:
			if a.previous != 0 {
				e.changed(a.previous)
			}
			if pa.State.Terminal() {
				return e.withSecret(pa), nil // nobody can wait for what has ended before it had a name
			}
			e.changed(pa.ID)
			return e.begun(ctx, pa)
		case errors.Is(err, ledger.ErrInsufficient):
			insufficient = true
		case errors.Is(err, errNotOpen):
		default:
			return nil, err
		}
	}
	if insufficient {
		return nil, Errorf(CodeInsufficientFunds, "Your balance does not cover this. Add to it, or pay by invoice.")
	}
	return nil, Errorf(CodeMethodUnavailable, "There is no way for you to pay for this. Sign in, or choose another method.")
}

// begun is an attempt that has been committed, with its invoice. What was just written need not be read; anything else is. If it cannot be read
// back, nobody may be told that nothing was changed: from a balance it is paid.
func (e *Engine) begun(ctx context.Context, pa *PaidAction) (_ *PaidAction, err error) {
	ctx = About(ctx, pa.ID)
	if pa.Invoice == nil {
		pa, err = e.get(ctx, pa.ID)
	}
	if err == nil {
		pa, err = e.issue(ctx, pa)
	}
	if _, refused := AsRefusal(err); err != nil && !refused {
		err = fmt.Errorf("%w: %w", errUnknownCommit, err)
	}
	return pa, err
}

func balanceFirst(methods []Method) []Method {
	var balance, others []Method
	for _, m := range methods {
		if m.Flow() == FlowBalance {
			balance = append(balance, m)
		} else {
			others = append(others, m)
		}
	}
	return append(balance, others...)
}

// try begins an attempt with one method. It returns ledger.ErrInsufficient or errNotOpen where another method may work, errKeyUsed
// where the key was used before.
func (e *Engine) try(ctx context.Context, a *attempt, m Method) (*PaidAction, error) {
	if !open(m, a.payer) {
		return nil, errNotOpen
	}
	if a.groupable(m) {
		return e.together(ctx, a, m)
	}
	p, err := e.plan(ctx, a, m)
	if err != nil {
		return nil, err
	}
	if m.hasInvoice() {
		// From here to the node's answer requests of one payer follow each other. Those from a balance are ordered by its row.
		// Only what can be repeated under its key may go on without order, and no retry (spec 04 §4.1).
		if err := a.turn.Wait(ctx, a.key != nil && a.previous == 0); err != nil {
			return nil, err
		}
	}
	return e.begin(ctx, a, m, p)
}

// open says whether a method can be tried for this payer at all. Whether the balance suffices is found by the debit.
func open(m Method, payer *int64) bool {
	switch m {
	case FeeCredit, RewardSats, Optimistic, Outgoing:
		return payer != nil
	default:
		return true
	}
}

// source is the account that a method takes the money from.
func source(m Method, payer *int64) ledger.Account {
	switch m {
	case FeeCredit:
		return ledger.UserCredits(*payer)
	case RewardSats, Outgoing:
		return ledger.UserSats(*payer)
	default:
		return ledger.Lightning
	}
}

// begin makes the row of an attempt, and does in the same transaction what its method does at once.
func (e *Engine) begin(ctx context.Context, a *attempt, m Method, p plan) (*PaidAction, error) {
	tx := &Tx{}
	var result json.RawMessage
	err := e.inTx(ctx, func(q *db.Queries, pg *db.Transaction) (err error) {
		tx = &Tx{DB: q, Previous: a.previous, Payer: a.payer, Method: m, Now: e.now(), Payout: p.payout, source: source(m, a.payer),
			proof: a.proof}
		var previous db.PaidAction
		if a.previous != 0 {
			if previous, err = e.lockRetryable(ctx, q, a.previous, tx.Now); err != nil {
				return err
			}
		}
		if m.hasInvoice() {
			if err := e.boundPending(ctx, q, a, p.forward); err != nil {
				return err
			}
		}
		numbers := pg.NextActions(1) // after the payer is locked: the actions of one are numbered in their order
		if err := a.price(ctx, tx, p); err != nil {
			return err
		}
		tx.Forward = p.forward
		first := firstStep(tx.Method)
		ids, err := numbers(ctx)
		if err != nil {
			return fmt.Errorf("number the action: %w", err)
		}
		tx.Action = ids[0]
		if err := e.insert(ctx, q, a, tx, first); err != nil {
			return err
		}
		if a.previous != 0 {
			if err := e.handOver(ctx, q, previous, tx.Action, tx.Now); err != nil {
				return err
			}
		}
		result, err = e.enter(ctx, q, pg, a, tx, first, p.node, previous)
		return err
	})
	return e.became(ctx, a, tx, result, e.supposed(err))
}

// price computes what the attempt costs, under the locks of its transaction, and refuses what its payer has not agreed to. What costs nothing
// needs no method.
func (a *attempt) price(ctx context.Context, tx *Tx, p plan) (err error) {
	asked := tx.Method
	if tx.Cost, err = a.def.cost(ctx, tx, a.args); err != nil {
		return err
	}
	if err := a.agreed(tx.Cost); err != nil {
		return err
	}
	if tx.Cost == 0 {
		tx.Method, tx.source = ZeroCost, ledger.Lightning
	} else if asked == ZeroCost {
		return errNotOpen
	}
	if tx.Method.hasInvoice() && tx.Cost > MaxInvoice {
		return Errorf(CodeInvalidAmount, "No invoice can be over more than %d sats.", MaxInvoice.Sats())
	}
	if asked == P2P && tx.Cost != p.quoted {
		return Errorf(CodePriceChanged, "The price has changed to %d sats. Try again.", tx.Cost.CeilSats()).costing(tx.Cost)
	}
	return nil
}

// supposed tells what begin supposes, and does not wait to hear: the statements that would say so fail by themselves, with codes of their own
// (migrations/0042_must_begin.up.sql), and the transaction with them, at whatever is waited for next.
func (e *Engine) supposed(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "HF005":
		return errKeyUsed
	case "HF006":
		return Errorf(CodeTooManyPending, "You have %d unpaid invoices. Pay or cancel some first.", e.Settings.MaxPending)
	case "HF007":
		return errNotOpen
	case "HF008":
		return Errorf(CodeTooManyPending, "You have %d withdrawals under way. Wait until one of them has ended.", e.Settings.MaxWithdrawals)
	}
	return err
}

func firstStep(m Method) Step {
	first, _ := FindStep(m.Flow(), Beginning, Requested)
	return first
}

// became is an attempt that was begun, as it was written; where that is not sure, without its invoice.
func (e *Engine) became(ctx context.Context, a *attempt, tx *Tx, result json.RawMessage, err error) (*PaidAction, error) {
	if errors.Is(err, errUnknownCommit) && tx.Action != 0 {
		// The commit may have happened; its row says so. That there is no row yet says nothing: the server may still be at it.
		// And after a crash the server may give the same id to another's action.
		if got, lookupErr := e.get(context.WithoutCancel(ctx), tx.Action); lookupErr == nil && got.CreatedAt.Equal(tx.Now) &&
			e.owns(Caller{User: a.payer, Secret: e.SecretOf(got.Genesis)}, got.Payer, got.Genesis) && got.Kind == a.def.Spec().Kind {
			err, tx.invoice = nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	first := firstStep(tx.Method)
	e.moved(first)
	pa := &PaidAction{ID: tx.Action, Kind: a.def.Spec().Kind, Flow: first.Flow, Method: tx.Method, State: first.To, Payer: a.payer, Cost: tx.Cost,
		Args: a.args, Result: result, Attempt: int(a.number), Genesis: tx.Action, CreatedAt: tx.Now, ChangedAt: tx.Now, proved: tx.proof.proved,
		Invoice: tx.invoice}
	if tx.invoice != nil {
		pa.Deadline = &tx.invoice.ExpiresAt
	}
	if a.genesis != nil {
		pa.Genesis = *a.genesis
	}
	return pa, nil
}

// insert makes the row in its first state, with its history.
func (e *Engine) insert(ctx context.Context, q *db.Queries, a *attempt, tx *Tx, first Step) error {
	row := db.InsertActionParams{
		ID: tx.Action, Kind: a.def.Spec().Kind, Flow: string(first.Flow), Method: string(tx.Method), State: string(first.To),
		Attempt: a.number, PayerID: a.payer, CostMsat: int64(tx.Cost), At: tx.Now, GenesisID: a.genesis,
		Args: a.args, IdempotencyKey: a.key, ArgsHash: a.argsHash, Fact: string(first.When), ProvedID: tx.proof.proved,
	}
	if !first.To.Terminal() {
		row.Deadline = new(tx.Now.Add(e.Settings.InvoiceExpiry))
	}
	if tx.Forward != nil {
		row.Deadline, row.InnerWalletID = new(tx.Now.Add(tx.Forward.Expiry)), &tx.Forward.Wallet
	}
	if err := q.InsertAction(ctx, row); err != nil {
		return fmt.Errorf("insert the action: %w", err)
	}
	return nil
}

// enter does what the first step of a flow does in its transaction. It returns what performing made, if that was done.
func (e *Engine) enter(ctx context.Context, q *db.Queries, pg pgx.Tx, a *attempt, tx *Tx, first Step, node string, previous db.PaidAction) (result json.RawMessage, err error) {
	// An anonymous payer's wrapped action is performed only once it is held: nobody could see it as pending.
	if first.Effect != Nothing && (first.Flow != FlowWrapped || a.payer != nil) {
		// What was performed as pending is kept and pointed to the new attempt; anything else is performed afresh.
		if a.previous != 0 && previous.Result != nil && Flow(previous.Flow) != FlowPessimistic {
			result, err = a.def.retry(ctx, tx, a.args, previous.Result)
		} else {
			result, err = a.def.perform(ctx, tx, a.args)
		}
		if err != nil {
			return nil, err
		}
		if err := q.SetResult(ctx, db.SetResultParams{ID: tx.Action, Result: result}); err != nil {
			return nil, fmt.Errorf("store the result: %w", err)
		}
	}
	switch first.Effect {
	case PerformAndPay:
		return result, e.book(ctx, q, pg, a.def, tx, a.args, result, tx.Cost)
	case DebitAndClaim:
		return result, e.debitAndClaim(ctx, q, pg, tx)
	}
	return result, e.request(ctx, q, pg, a, tx, node)
}

// request stores the invoice of an attempt, and the jobs for the cases that no node ever issues it, and that nobody pays.
func (e *Engine) request(ctx context.Context, q *db.Queries, pg pgx.Tx, a *attempt, tx *Tx, node string) error {
	inv, err := e.newInvoice(ctx, q, a, tx, node)
	if err != nil {
		return err
	}
	if err := q.InsertInvoice(ctx, inv); err != nil {
		return fmt.Errorf("insert the invoice: %w", err)
	}
	tx.invoice = &Invoice{Node: inv.Node, Hash: Hash(inv.PaymentHash), Amount: Msat(inv.AmountMsat), Hold: inv.Hold, ExpiresAt: inv.ExpiresAt,
		memo: inv.Memo, cltvDelta: uint32(inv.CltvDelta)}
	copy(tx.invoice.preimage[:], inv.Preimage) // none of a wrapped one: its receiver has it
	if tx.Forward != nil {
		if err := storeInner(ctx, q, tx.Action, tx.Forward); err != nil {
			return err
		}
	}
	return e.Jobs.Insert(ctx, pg,
		Job{Kind: JobAdvance, Action: tx.Action, At: tx.Now.Add(e.Settings.IssueTimeout)},
		Job{Kind: JobAdvance, Action: tx.Action, At: inv.ExpiresAt})
}

// boundPending refuses more open invoices than a payer may have. The lock makes the count true: payers wait for
// themselves alone, the anonymous for those behind the same address (spec 05.12).
func (e *Engine) boundPending(ctx context.Context, q *db.Queries, a *attempt, f *Forward) (err error) {
	if f != nil {
		if err := q.BoundWallet(ctx, db.BoundWalletParams{WalletID: f.Wallet, Most: e.Settings.MaxWalletPending}); err != nil {
			return fmt.Errorf("bound the open invoices of a wallet: %w", err)
		}
	}
	if a.payer != nil {
		if err := q.LockPayer(ctx, *a.payer); err != nil {
			return fmt.Errorf("lock the payer: %w", err)
		}
		err = q.BoundPayer(ctx, db.BoundPayerParams{PayerID: a.payer, Most: e.Settings.MaxPending})
	} else {
		if err := q.LockClient(ctx, a.client); err != nil {
			return fmt.Errorf("lock the client: %w", err)
		}
		err = q.BoundClient(ctx, db.BoundClientParams{ClientHash: a.client, Most: e.Settings.MaxPending})
	}
	if err != nil {
		return fmt.Errorf("bound the open invoices: %w", err)
	}
	return nil
}

// deadlineAfter is until when a state that we have to leave ourselves should be left.
func (e *Engine) deadlineAfter(s State, now time.Time) *time.Time {
	switch {
	case s == Forwarding:
		return new(now.Add(e.Settings.InvoiceExpiry))
	case s.OwesCall():
		return new(now.Add(e.Settings.CallTimeout))
	}
	return nil
}
