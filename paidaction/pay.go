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

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// Request asks for an action.
type Request struct {
	Kind string
	Args any // the action's arguments, or their JSON
	Terms
	// Key makes the request repeatable: the same key and arguments give the same action. It has at most 255 bytes. An
	// anonymous payer's key must carry 128 random bits, so it has at least 22 characters (spec 01 §1.8.8).
	Key    string
	Caller Caller
	// OnBehalf says that somebody else asks, and not the caller, who pays. Whoever asks waits in a line of their own: the
	// caller's requests must not wait for them, since only they decide how often they ask.
	OnBehalf bool
}

// Terms are what a payer agrees to.
type Terms struct {
	Method Method // forces one method; empty means the action's own order
	// MaxCost is the most that the action may cost; a higher price is refused with PRICE_CHANGED. nil accepts any
	// price. Others can raise the price after the payer has looked at it, and a balance is charged at once.
	MaxCost *Msat
}

// Signals inside the engine that no payer sees. errKeyUsed ends an attempt; answer looks up, after any error, what the key
// was used for. On errNotOpen walk goes on with the next method.
var (
	errKeyUsed = errors.New("the idempotency key was used before")
	errNotOpen = errors.New("this method is not open to this payer")
)

// minAnonymous is the minimum length of an anonymous payer's key: 128 random bits in base64.
const minAnonymous = 22

// Pay performs an action, or begins to: it tries the action's payment methods in order and takes the first that works.
// Paid from a balance, the action is PAID when Pay returns; otherwise it waits for the payment of its invoice.
//
// Errors: INVALID_INPUT, INVALID_AMOUNT and the action's own refusals; UNAUTHENTICATED, METHOD_UNAVAILABLE,
// INSUFFICIENT_FUNDS, PRICE_CHANGED, TOO_MANY_PENDING, IDEMPOTENCY_CONFLICT, LIGHTNING_UNAVAILABLE, TRY_AGAIN. After
// any of these nothing is charged; after LIGHTNING_UNAVAILABLE the action may have been begun. UNKNOWN_OUTCOME where the
// answer to the commit did not come: it may have been done and charged, and the same key tells.
func (e *Engine) Pay(ctx context.Context, r Request) (*PaidAction, error) {
	turn := e.queueOf(r) // before anything that takes time
	defer turn.Leave()
	def, err := e.askedFor(r)
	if err != nil {
		return nil, err
	}
	a := &attempt{def: def, payer: r.Caller.User, maxCost: r.MaxCost, authorize: r.Caller.May, number: 1, turn: turn, proof: e.proofBy(r.Caller), onBehalf: r.OnBehalf}
	if a.payer == nil {
		a.client = e.ClientHash(r.Caller.Client)
	}
	if a.args, a.refused, err = normalize(def, r.Args); err != nil {
		return nil, err
	}
	if err := a.repeatable(r.Key, r.Method, a.args); err != nil {
		return nil, err
	}
	return e.answer(ctx, a, r.Method)
}

// askedFor is the action that a request is for, if its caller may ask for it.
func (e *Engine) askedFor(r Request) (Definition, error) {
	def, ok := e.actions[r.Kind]
	if !ok {
		return nil, Errorf(CodeInvalidInput, "There is no such action.")
	}
	if r.Caller.User == nil && !def.Spec().Anonable {
		return nil, Errorf(CodeUnauthenticated, "Sign in to do this.")
	}
	return def, nil
}

// repeatable gives an attempt the key under which the request may be repeated, and the hash of what was asked. An empty
// key is none.
func (a *attempt) repeatable(key string, method Method, asked []byte) error {
	switch {
	case key == "":
		return nil
	case len(key) > 255:
		return Errorf(CodeInvalidInput, "An idempotency key can have at most 255 bytes.")
	case !utf8.ValidString(key) || strings.ContainsRune(key, 0):
		return Errorf(CodeInvalidInput, "The idempotency key contains a character that cannot be stored.")
	case a.payer == nil && len(key) < minAnonymous:
		return Errorf(CodeInvalidInput, "Without signing in, an idempotency key needs at least %d random characters.", minAnonymous)
	}
	a.key, a.argsHash = &key, hashArgs(a.def.Spec().Kind, method, asked)
	return nil
}

// answerTimeout is for what was done under a key, once the time of the request is over.
const answerTimeout = 2 * time.Second

// answer walks the methods, and returns what the payer is told.
func (e *Engine) answer(ctx context.Context, a *attempt, method Method) (*PaidAction, error) {
	defer func() {
		if a.done != nil {
			a.done()
		}
	}()
	pa, err := e.walk(ctx, a, method)
	if err != nil && a.key != nil {
		// Whatever went wrong: if the key was used before, the answer is what was done then. That is also so where the
		// time of the request is over, for instance because its turn did not come.
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
			defer cancel()
		}
		id, found, lookupErr := e.winner(ctx, a)
		if lookupErr != nil && !errors.Is(err, errUnknownCommit) {
			return nil, forCaller(lookupErr)
		}
		if found {
			pa, err = e.withInvoice(ctx, &PaidAction{ID: id})
		}
	}
	return pa, forCaller(err)
}

func normalize(def Definition, args any) (stored json.RawMessage, refused, err error) {
	raw, err := encode(args)
	if err != nil {
		return nil, nil, err
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

// winner finds the action that was made with this key. Other arguments under the same key are refused.
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
		return 0, false, Errorf(CodeIdempotencyConflict, "This idempotency key was already used for something else. Use a new key.")
	}
	return id, true, nil
}

// attempt is one try to get an action paid: the first, or a retry.
type attempt struct {
	def       Definition
	args      json.RawMessage
	refused   error // what the action has against the arguments; they may have been good when the key was first used
	payer     *int64
	maxCost   *Msat                                    // the most it may cost; nil: any price
	authorize func(context.Context, *db.Queries) error // Caller.May
	client    []byte                                   // hash of an anonymous payer's address; bounds their open invoices
	key       *string
	argsHash  []byte
	number    int16
	previous  int64  // the failed attempt, 0 in the first
	genesis   *int64 // the first attempt, nil in itself
	turn      Turn
	proof     proof
	chosen    bool   // the payer chose the method, of this attempt or of the one that it follows automatically
	indirect  bool   // no receiver's wallet is asked
	unasked   bool   // it follows a failed one automatically (Again)
	onBehalf  bool   // somebody else asks than its payer (Request.OnBehalf)
	done      func() // lets the next request under the key ask strangers; nil: this one has not asked
}

// mayBeLate reports whether what a method begins is among that for which Caller.May is asked. What may be free sets
// something that stays: whoever has taken the right to it away looks through that.
func (a *attempt) mayBeLate(m Method) bool {
	return m == Outgoing || m == P2P && !a.chosen && a.def.Spec().Again || a.def.Spec().Free
}

// agreed refuses a price above what the payer agreed to.
func (a *attempt) agreed(cost Msat) error {
	if a.maxCost != nil && cost > *a.maxCost {
		return Errorf(CodePriceChanged, "The price is now %d sats, more than you agreed to. Check it and try again.", cost.CeilSats()).costing(cost)
	}
	return nil
}

// walk tries the methods in order until one works.
func (e *Engine) walk(ctx context.Context, a *attempt, forced Method) (*PaidAction, error) {
	if a.refused != nil {
		return nil, a.refused
	}
	spec := a.def.Spec()
	methods := spec.Methods
	switch {
	case forced != "":
		if !slices.Contains(methods, forced) && (forced != ZeroCost || !spec.Free) {
			return nil, Errorf(CodeMethodUnavailable, "This cannot be paid that way.")
		}
		methods, a.chosen = []Method{forced}, true
	case a.chosen: // prepared automatically: take nothing from a balance that its owner did not name
		_, methods = byBalance(methods)
	case a.payer != nil:
		// P2P is for those who cannot pay from a balance, or who say that they do not want to.
		balance, others := byBalance(methods)
		methods = append(balance, others...)
	}
	insufficient := false
	for _, m := range methods {
		pa, err := e.try(ctx, a, m)
		switch {
		case err == nil:
			if pa.State.Terminal() {
				return e.withSecret(pa), nil // nobody can be waiting for an action that ended before it had an id
			}
			e.changed(pa.ID)
			return e.withInvoice(ctx, pa)
		case errors.Is(err, ledger.ErrInsufficient):
			insufficient = true
		case errors.Is(err, errNotOpen):
		default:
			return nil, err
		}
	}
	if insufficient && slices.Contains(methods, Outgoing) {
		return nil, Errorf(CodeInsufficientFunds, "Your sats do not cover this and the most that routing may cost.")
	}
	if insufficient {
		return nil, Errorf(CodeInsufficientFunds, "Your balance does not cover this. Add to it, or pay by invoice.")
	}
	if forced == P2P {
		return nil, Errorf(CodeMethodUnavailable, "No wallet of the receiver's gives an invoice for this now. Choose another method, or try again later.")
	}
	return nil, Errorf(CodeMethodUnavailable, "There is no way for you to pay for this. Sign in, or choose another method.")
}

// withInvoice completes a committed attempt with its invoice. It reads the action only if it was not just written. If that
// fails, nobody may be told that nothing was changed: a balance may have been charged.
func (e *Engine) withInvoice(ctx context.Context, pa *PaidAction) (_ *PaidAction, err error) {
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

// byBalance separates the methods that pay from a balance from the others, and keeps their order.
func byBalance(methods []Method) (balance, others []Method) {
	for _, m := range methods {
		if m.Flow() == FlowBalance {
			balance = append(balance, m)
		} else {
			others = append(others, m)
		}
	}
	return balance, others
}

// try begins an attempt with one method. It returns ledger.ErrInsufficient or errNotOpen where another method may work,
// and errKeyUsed where the key was used before.
func (e *Engine) try(ctx context.Context, a *attempt, m Method) (*PaidAction, error) {
	if !m.open(a.payer) {
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
		// From here until the node answers, requests of one payer run in order. Payments from a balance are ordered by
		// its row. Without order only requests that can be repeated under their key may go on, and no retry (spec 04
		// §4.1).
		if err := a.turn.Wait(ctx, a.key != nil && a.previous == 0); err != nil {
			return nil, err
		}
	}
	return e.begin(ctx, a, m, p)
}
