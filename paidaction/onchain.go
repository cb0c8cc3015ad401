package paidaction

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

var (
	// errOnChain says that a node counts a payment of which only the chain will show whether it arrives (Awaits).
	errOnChain = errors.New("it came from a channel that was closed by force, and only the chain shows whether it arrives")

	// ErrNotOnChain says that an action does not wait for the chain, so that nobody has to say what that has shown.
	ErrNotOnChain = errors.New("only where a plain invoice was paid from a channel that was closed by force, does an action wait for what the chain shows")
)

// chainEvery is how far the deadline of an action is put off that waits for the chain. Only an operator ends that, perhaps
// weeks later.
const chainEvery = time.Hour

// awaitChain puts off the deadline of an action that waits for the chain, and stores a job at it. Otherwise the action
// would count as stuck, and each sweep would ask its node. Where the deadline is far off, there is such a job; where it is
// near, the action may have been cancelled, and its only job may be the one that ends with this.
func (e *Engine) awaitChain(ctx context.Context, pa *PaidAction, why error) (Progress, error) {
	now := e.now()
	near := now.Add(chainEvery / 2)
	if pa.Deadline.After(near) {
		return Waiting, nil
	}
	if err := e.ConfirmClock(ctx); err != nil {
		return Owing, err
	}
	var put int64
	err := e.inTx(ctx, func(q *db.Queries, pg *db.Transaction) (err error) {
		next := now.Add(chainEvery)
		if put, err = q.AwaitChain(ctx, db.AwaitChainParams{ID: pa.ID, Near: near, Deadline: next}); err != nil || put == 0 {
			return err
		}
		return e.Jobs.Insert(ctx, pg, Job{Kind: JobAdvance, Action: pa.ID, At: next})
	})
	if err != nil {
		return Owing, fmt.Errorf("put off the deadline of action %d: %w", pa.ID, err)
	}
	if put > 0 {
		e.Log.WarnContext(ctx, "an action waits until an operator says what the chain has shown", "action", pa.ID, "state", pa.State, "why", why)
		e.changed(pa.ID)
	}
	return Waiting, nil
}

// Arrived counts a payment that only the chain could show to arrive, and an operator has seen there that as much of it
// as the action costs has. The action is PAID, and what was paid above that is nobody's.
//
// ErrNotOnChain where none is waited for; ErrNoAction is wrapped where there is no such action.
func (e *Engine) Arrived(ctx context.Context, id int64) error {
	return e.afterChain(ctx, id, InvoiceIsPaid, nil)
}

// NeverArrived ends an action as FAILED whose payment only the chain could show to arrive, and an operator has seen
// there that its payer took it back. reason is what the payer is told.
//
// ErrNotOnChain where none is waited for, or without a reason; ErrNoAction is wrapped where there is no such action;
// TRY_AGAIN while the database is in doubt.
func (e *Engine) NeverArrived(ctx context.Context, id int64, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return fmt.Errorf("%w, and with a reason", ErrNotOnChain)
	}
	return e.afterChain(ctx, id, GivenUp, Errorf(CodeInternal, "%s", reason))
}

// afterChain takes the step of an operator who has looked at the chain.
func (e *Engine) afterChain(ctx context.Context, id int64, fact Fact, failure *Error) error {
	doubt, err := LatestDoubt(ctx, db.New(e.Pool))
	if err != nil {
		return err
	}
	pa, err := e.get(ctx, id)
	if err != nil {
		return err
	}
	step, ok := FindStep(pa.Flow, pa.State, fact)
	if !ok || pa.Flow != FlowOptimistic {
		return fmt.Errorf("%w: action %d is %s", ErrNotOnChain, id, pa.State)
	}
	node, err := e.Nodes.Node(pa.Invoice.Node)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotOnChain, err)
	}
	inv, err := node.LookupInvoice(ctx, pa.Invoice.Hash)
	switch {
	case err != nil:
		return fmt.Errorf("%w: node %s: %w", ErrNotOnChain, pa.Invoice.Node, err)
	case !inv.Awaits(pa.Cost):
		return fmt.Errorf("%w: the invoice of action %d is %s at node %s, %d of %d msat from such a channel",
			ErrNotOnChain, id, inv.State, pa.Invoice.Node, inv.OnChain, inv.Received)
	}
	// No more than the price counts as received of it: of several parts some may have arrived, and the operator was asked
	// for the price.
	moved, err := e.move(ctx, id, step, finding{fact: fact, received: inv.paid(pa.Cost), failure: failure, doubt: doubt})
	if err == nil && !moved {
		err = fmt.Errorf("%w: action %d has moved on", ErrNotOnChain, id)
	}
	return err
}
