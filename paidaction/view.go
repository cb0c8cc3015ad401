package paidaction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// PaidAction is an action as its payer may see it.
type PaidAction struct {
	ID        int64
	Kind      string
	Flow      Flow
	Method    Method
	State     State
	Payer     *int64 // nil is the anonymous payer
	Cost      Msat
	Args      json.RawMessage
	Result    json.RawMessage // returned by Perform; nil while it has not run
	Failure   *Error          // why it failed, or is about to fail
	Deadline  *time.Time
	Attempt   int
	Genesis   int64 // the first attempt, which may be this one
	Successor *int64
	Invoice   *Invoice // nil for what was paid from a balance
	CreatedAt time.Time
	ChangedAt time.Time
	Secret    string // the anonymous payer's; empty for known ones

	settlePermitted *time.Time
	againRefused    bool   // no next attempt is prepared automatically
	proved          *int64 // the anonymous action whose secret the payer has shown
	client          []byte // hash of an anonymous payer's address, see ClientHash

	// What the step that Drive has just taken says of the next one; not stored.
	ended     bool // that step ended it, and nothing is left to do
	settleNow bool // that step permitted the settle: nothing need be looked up first
	current   bool // it holds all that the next step needs, so it need not be read again
}

// Invoice is what the payer pays.
type Invoice struct {
	Node      string
	Hash      Hash
	Bolt11    string // empty until the node has issued it
	Amount    Msat
	Received  Msat // what arrived; 0 until something did
	Hold      bool
	ExpiresAt time.Time

	preimage  Preimage
	memo      string
	cltvDelta uint32
}

// Get returns an action to its payer. Everybody else gets NOT_FOUND, so that nobody learns that it exists.
func (e *Engine) Get(ctx context.Context, c Caller, id int64) (*PaidAction, error) {
	pa, err := e.get(ctx, id)
	if errors.Is(err, ErrNoAction) {
		return nil, errNotYours()
	}
	if err != nil {
		return nil, forCaller(err)
	}
	if !e.owns(c, pa.Payer, pa.Genesis) {
		return nil, errNotYours()
	}
	return e.withSecret(pa), nil
}

func errNotYours() *Error { return Errorf(CodeNotFound, "You have no such action.") }

// List returns a page of the caller's own actions, newest first, those with ids below before. Anonymous callers have no
// list: each of their secrets is for one action.
func (e *Engine) List(ctx context.Context, c Caller, before int64, page int32) ([]*PaidAction, error) {
	if c.User == nil {
		return nil, Errorf(CodeUnauthenticated, "Sign in to see what you have paid for.")
	}
	rows, err := db.New(e.Pool).ActionsOfPayerInFull(ctx, db.ActionsOfPayerInFullParams{PayerID: *c.User, Before: before, Page: page})
	if err != nil {
		return nil, fmt.Errorf("read the actions of a payer: %w", err)
	}
	list := make([]*PaidAction, len(rows))
	for i, row := range rows {
		list[i] = view(db.GetActionRow(row))
	}
	return list, nil
}

// Own returns those of these actions that the user has paid for, in any order.
func (e *Engine) Own(ctx context.Context, user int64, ids []int64) ([]PaidAction, error) {
	rows, err := db.New(e.Pool).OwnActions(ctx, db.OwnActionsParams{Ids: ids, PayerID: &user})
	if err != nil {
		return nil, fmt.Errorf("read actions of a payer: %w", err)
	}
	list := make([]PaidAction, len(rows))
	for i, row := range rows {
		list[i] = *view(db.GetActionRow(row))
	}
	return list, nil
}

// view makes a PaidAction of an action's row and its invoice's.
func view(row db.GetActionRow) *PaidAction {
	a := row.PaidAction
	pa := &PaidAction{
		ID: a.ID, Kind: a.Kind, Flow: Flow(a.Flow), Method: Method(a.Method), State: State(a.State), Payer: a.PayerID,
		Cost: Msat(a.CostMsat), Args: a.Args, Result: a.Result, Deadline: a.Deadline, Attempt: int(a.Attempt), Genesis: a.ID,
		Successor: a.SuccessorID, CreatedAt: a.CreatedAt, ChangedAt: a.ChangedAt, settlePermitted: a.SettlePermittedAt, proved: a.ProvedID,
		againRefused: a.AgainRefusedAt != nil, client: a.ClientHash,
	}
	if a.GenesisID != nil {
		pa.Genesis = *a.GenesisID
	}
	// An action that was cancelled but paid all the same has no failure to show.
	if a.FailureCode != nil && pa.State != Paid {
		pa.Failure = &Error{Code: Code(*a.FailureCode), Message: *a.FailureMessage}
	}
	if row.Node != nil {
		pa.Invoice = &Invoice{Node: *row.Node, Amount: Msat(*row.AmountMsat), Hold: *row.Hold, ExpiresAt: *row.ExpiresAt,
			memo: *row.Memo, cltvDelta: uint32(*row.CltvDelta)}
		copy(pa.Invoice.Hash[:], row.PaymentHash)
		copy(pa.Invoice.preimage[:], row.Preimage)
		if row.Bolt11 != nil {
			pa.Invoice.Bolt11 = *row.Bolt11
		}
		if row.ReceivedMsat != nil {
			pa.Invoice.Received = Msat(*row.ReceivedMsat)
		}
	}
	return pa
}
