package paidaction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// begin makes the row of an attempt, and does in the same transaction what its method does at once.
func (e *Engine) begin(ctx context.Context, a *attempt, m Method, p plan) (*PaidAction, error) {
	leave, err := e.place(ctx, a, m)
	if err != nil {
		return nil, err
	}
	defer leave()
	tx := &Tx{}
	var result json.RawMessage
	err = e.inTx(ctx, func(q *db.Queries, pg *db.Transaction) (err error) {
		if err := e.MayBegin(); err != nil {
			return err
		}
		tx = &Tx{DB: q, Payer: a.payer, Method: m, Now: e.now(), Payout: p.payout, source: m.source(a.payer), proof: a.proof}
		previous, err := e.lockBefore(ctx, q, a, m, p, tx.Now)
		if err != nil {
			return err
		}
		var hides func(context.Context) (bool, error)
		if m.hasInvoice() {
			if err := e.boundPending(ctx, q, a, p.forward, tx.Now); err != nil {
				return err
			}
			hides = pg.HidesDescriptions(a.payer)
		}
		numbers := pg.NextActions(1) // once the payer is locked: their actions are numbered in order
		if err := a.price(ctx, tx, p); err != nil {
			return err
		}
		tx.Forward = p.forward
		if err := p.hideMemo(ctx, hides); err != nil {
			return err
		}
		first := firstStep(tx.Method)
		ids, err := numbers(ctx)
		if err != nil {
			return fmt.Errorf("number the action: %w", err)
		}
		tx.Action = ids[0]
		if err := e.insert(ctx, a, tx, first); err != nil {
			return err
		}
		if a.previous != 0 {
			if err := e.handOver(ctx, tx, previous); err != nil {
				return err
			}
		}
		if result, err = e.enter(ctx, pg, a, tx, first, p); err != nil || a.authorize == nil || !a.mayBeLate(m) {
			return err
		}
		return a.authorize(ctx, q) // last: what it locks then waits for nothing that is locked here
	})
	return e.became(ctx, a, tx, result, e.supposed(err))
}

// lockBefore locks what an attempt depends on before anything is counted or priced: the failed one that it follows, which
// is returned, and what a withdrawal goes by.
func (e *Engine) lockBefore(ctx context.Context, q *db.Queries, a *attempt, m Method, p plan, now time.Time) (previous db.PaidAction, err error) {
	if a.previous != 0 {
		if previous, err = e.lockRetryable(ctx, q, a.previous, now); err != nil {
			return previous, err
		}
		if a.unasked && previous.AgainRefusedAt != nil { // since Again looked (Cancel, RefuseAgainOf)
			return previous, Errorf(CodeNotRetryable, "No further attempt is prepared.")
		}
	}
	if m == Outgoing {
		return previous, lockForPayout(ctx, q, *a.payer, p.payout)
	}
	return previous, nil
}

// place waits until an attempt may have a database connection; leave gives its place back. Those of one payer wait for
// each other's rows: for their balance or, of the anonymous behind one address, for the count of their open invoices
// (LockClient). They wait here and not inside their transactions: else the requests of one payer could hold all
// connections. What is paid by an invoice of somebody who is known has waited for its turn. Those who ask on behalf of a
// payer have as many places, and wait for each other alone.
func (e *Engine) place(ctx context.Context, a *attempt, m Method) (leave func(), err error) {
	switch {
	case a.payer == nil:
		return e.clients.Take(ctx, string(a.client), e.Hooks.Wait)
	case m.hasInvoice() && !a.onBehalf:
		return func() {}, nil
	}
	line := strconv.FormatInt(*a.payer, 10)
	if a.onBehalf {
		line += " on behalf"
	}
	return e.payers.Take(ctx, line, e.Hooks.Wait)
}

// price computes the cost of the attempt under the locks of its transaction, and refuses a price that the payer has not
// agreed to. What costs nothing needs no method.
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
		return Errorf(CodeInvalidAmount, "An invoice can be for at most %d sats.", MaxInvoice.Sats())
	}
	if asked == P2P && tx.Cost != p.quoted {
		return Errorf(CodePriceChanged, "The price has changed to %d sats. Try again.", tx.Cost.CeilSats()).costing(tx.Cost)
	}
	return nil
}

// supposed turns a failed statement of begin into the refusal that it stands for. begin assumes that the key is new and
// no limit is reached, and does not wait for an answer. If the assumption is wrong, the statement fails with a code of
// its own (migrations/0042_must_begin.up.sql), and the transaction fails at whatever it waits for next.
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
		return Errorf(CodeTooManyPending, "You have %d withdrawals under way. Wait until one of them is done.", e.Settings.MaxWithdrawals)
	}
	return err
}

func firstStep(m Method) Step {
	first, _ := FindStep(m.Flow(), Beginning, Requested)
	return first
}

// became returns the action of an attempt as it was written, once its transaction is over. If the outcome of the commit
// is unknown but the row shows that it happened, the action comes without its invoice; withInvoice then reads that.
func (e *Engine) became(ctx context.Context, a *attempt, tx *Tx, result json.RawMessage, err error) (*PaidAction, error) {
	if errors.Is(err, errUnknownCommit) && tx.Action != 0 {
		// The commit may have happened: the row says so if it exists. A missing row proves nothing, since the server
		// may still be committing. After a crash the server may also give the same id to somebody else's action.
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
	for _, other := range tx.others {
		e.announce(ctx, other.action, other.step, finding{})
	}
	pa := &PaidAction{ID: tx.Action, Kind: a.def.Spec().Kind, Flow: first.Flow, Method: tx.Method, State: first.To, Payer: a.payer, Cost: tx.Cost,
		Args: a.args, Result: result, Attempt: int(a.number), Genesis: tx.Action, CreatedAt: tx.Now, ChangedAt: tx.Now, proved: tx.proof.proved,
		Invoice: tx.invoice}
	if tx.invoice != nil {
		pa.Deadline, pa.client = &tx.invoice.ExpiresAt, a.client
	}
	if a.genesis != nil {
		pa.Genesis = *a.genesis
	}
	return pa, nil
}

// insert makes the row in its first state, with its history.
func (e *Engine) insert(ctx context.Context, a *attempt, tx *Tx, first Step) error {
	row := db.InsertActionParams{
		ID: tx.Action, Kind: a.def.Spec().Kind, Flow: string(first.Flow), Method: string(tx.Method), State: string(first.To),
		Attempt: a.number, PayerID: a.payer, CostMsat: int64(tx.Cost), At: tx.Now, GenesisID: a.genesis,
		Args: a.args, IdempotencyKey: a.key, ArgsHash: a.argsHash, Fact: string(first.When), ProvedID: tx.proof.proved,
	}
	if !first.To.Terminal() {
		row.Deadline, row.ClientHash = new(tx.Now.Add(e.Settings.InvoiceExpiry)), a.client
	}
	if tx.Forward != nil {
		row.Deadline, row.InnerWalletID = &tx.Forward.Until, &tx.Forward.Wallet
	}
	if a.key != nil {
		// InsertAction would wait for a transaction that is changing an earlier action with this key. That
		// transaction's step may in turn wait for a row that the price has locked, such as the payer's, an item's or an
		// upload's: a deadlock. An action that takes such a step was committed before, so it is visible here, and
		// nobody has to wait.
		if err := tx.DB.RefuseUsedKey(ctx, db.RefuseUsedKeyParams{PayerID: a.payer, IdempotencyKey: *a.key}); err != nil {
			return fmt.Errorf("look for the key: %w", err)
		}
	}
	if err := tx.DB.InsertAction(ctx, row); err != nil {
		return fmt.Errorf("insert the action: %w", err)
	}
	return nil
}

// enter does what the first step of a flow does in its transaction. It returns the result of Perform, if that was
// called.
func (e *Engine) enter(ctx context.Context, pg pgx.Tx, a *attempt, tx *Tx, first Step, p plan) (result json.RawMessage, err error) {
	// An anonymous payer's wrapped action is performed only once the payment is held: nobody could see it as pending.
	if first.Effect != Nothing && (first.Flow != FlowWrapped || a.payer != nil) {
		if result, err = perform(ctx, a.def, tx, a.genesis, a.args); err != nil {
			return nil, err
		}
	}
	switch first.Effect {
	case PerformAndPay:
		return result, e.book(ctx, pg, a.def, tx, a.args, result, tx.Cost)
	case DebitAndClaim:
		return result, e.debitAndClaim(ctx, pg, tx)
	}
	return result, e.request(ctx, pg, a, tx, p)
}

// request stores the invoice of an attempt, and the jobs for the cases that no node issues it or that nobody pays it.
func (e *Engine) request(ctx context.Context, pg pgx.Tx, a *attempt, tx *Tx, p plan) error {
	inv, err := e.newInvoice(ctx, a, tx, p)
	if err != nil {
		return err
	}
	if err := tx.DB.InsertInvoice(ctx, inv); err != nil {
		return fmt.Errorf("insert the invoice: %w", err)
	}
	tx.invoice = &Invoice{Node: inv.Node, Hash: Hash(inv.PaymentHash), Amount: Msat(inv.AmountMsat), Hold: inv.Hold, ExpiresAt: inv.ExpiresAt,
		memo: inv.Memo, cltvDelta: uint32(inv.CltvDelta)}
	copy(tx.invoice.preimage[:], inv.Preimage) // a wrapped invoice has none: its receiver knows it
	if tx.Forward != nil {
		if err := storeInner(ctx, tx.DB, tx.Action, tx.Forward); err != nil {
			return err
		}
	}
	return e.Jobs.Insert(ctx, pg,
		Job{Kind: JobAdvance, Action: tx.Action, At: tx.Now.Add(e.Settings.IssueTimeout)},
		Job{Kind: JobAdvance, Action: tx.Action, At: inv.ExpiresAt})
}

// forwardHangsAfter is how long a payment to a receiver's wallet is under way before it is taken for one that hangs.
// Others are through before the next payer has paid.
const forwardHangsAfter = 5 * time.Second

// boundPending refuses more open invoices than a payer may have, in all and around those of one receiver's wallet: a
// third of its places, rounded up, is for one payer, so that others find one. The lock makes the payer's count true: a
// payer waits only for their own requests, anonymous payers for those from the same address (spec 05.12).
//
// Where claimForwards would send the payment back by what hangs at the receiver, another method may do.
func (e *Engine) boundPending(ctx context.Context, q *db.Queries, a *attempt, f *Forward, now time.Time) (err error) {
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
	if f == nil {
		return nil
	}
	most := e.Settings.MaxWalletPending
	err = q.BoundWallet(ctx, db.BoundWalletParams{WalletID: f.Wallet, Most: most, PayerID: a.payer, ClientHash: a.client, Share: most/3 + min(most%3, 1)})
	if err != nil {
		return fmt.Errorf("bound the open invoices of a wallet: %w", err)
	}
	err = q.BoundReceiver(ctx, db.BoundReceiverParams{ReceiverID: f.Receiver, At: now, BegunBy: now.Add(-forwardHangsAfter), Most: e.Settings.MaxForwards,
		MostMsat: int64(e.Settings.MaxForwarded-f.Amount-f.Budget) + 1})
	if err != nil {
		return fmt.Errorf("bound what hangs at a receiver: %w", err)
	}
	return nil
}
