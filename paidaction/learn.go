package paidaction

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// ErrNotLearned says that a preimage changes nothing: it is not that of the action's outgoing payment, or no node may
// have made that payment, or its node can still tell what became of it.
var ErrNotLearned = errors.New("only the preimage of a payment that a node was given, and can tell nothing about, is taken from an operator")

// Learn goes on with an outgoing payment whose node has lost its data by the preimage that its receiver has shown:
// whoever gives a preimage away counts as paid (BOLT 4). A node that is only silent may yet say that the payment has
// failed: the receiver has had the preimage from the beginning. If the payer's payment of a forward is still held, it
// is taken. The action moves to FORWARDED; what the payment has cost is written off (WriteOff).
//
// ErrNotLearned where it changes nothing; ErrNoAction is wrapped where there is no such action.
func (e *Engine) Learn(ctx context.Context, id int64, p Preimage) error {
	pa, err := e.get(ctx, id)
	if err != nil {
		return err
	}
	step, ok := FindStep(pa.Flow, pa.State, OutgoingPaid)
	if !ok || e.Relay == nil {
		return fmt.Errorf("%w: action %d is %s", ErrNotLearned, id, pa.State)
	}
	row, err := db.New(e.Pool).GetRelay(ctx, id)
	if err != nil {
		return fmt.Errorf("read the outgoing payment of action %d: %w", id, err)
	}
	switch h := p.Hash(); {
	case Hash(row.PaymentHash) != h:
		return fmt.Errorf("%w: its hash is %s, and that of the payment of action %d is %s", ErrNotLearned, h, id, Hash(row.PaymentHash))
	case Stage(row.Stage) == StageFailed:
		return fmt.Errorf("%w: the payment of action %d was given up", ErrNotLearned, id)
	case row.InsideID != nil || row.Node == nil:
		return fmt.Errorf("%w: no node was given the payment of action %d", ErrNotLearned, id)
	}
	// A node that knows the payment may yet say that it has failed, whatever its receiver shows.
	switch _, err := e.Relay.Proceed(ctx, id); {
	case err == nil:
		return fmt.Errorf("%w: node %s knows the payment of action %d, or may still be given it: it goes on by itself", ErrNotLearned, *row.Node, id)
	case !errors.Is(err, ErrLost):
		return fmt.Errorf("%w: node %s may still tell what became of the payment of action %d: %w", ErrNotLearned, *row.Node, id, err)
	}
	if err := e.claimAgain(ctx, row); err != nil {
		return err
	}
	moved, err := e.move(ctx, id, step, finding{fact: OutgoingPaid, outcome: Outcome{Preimage: &p}})
	if err == nil && !moved {
		err = fmt.Errorf("%w: action %d has moved on", ErrNotLearned, id)
	}
	return err
}

// claimAgain has the node that a payment waits for alone have the claim that its preimage ends. It sends nothing.
func (e *Engine) claimAgain(ctx context.Context, row db.RelayPayment) error {
	if Stage(row.Stage) != StageIncoming {
		return nil
	}
	q := db.New(e.Pool)
	claims, err := q.Attempts(ctx, row.ID)
	if err != nil {
		return fmt.Errorf("read the claims: %w", err)
	}
	for _, c := range slices.Backward(claims) {
		if c.Node != *row.Node {
			continue
		}
		n, err := q.LeaveRelay(ctx, db.LeaveRelayParams{ID: row.ID, FromStage: row.Stage, Node: c.Node, NodeKey: c.NodeKey, At: e.now()})
		if err != nil {
			return fmt.Errorf("leave the payment to node %s: %w", c.Node, err)
		}
		if n == 0 {
			return fmt.Errorf("%w: the payment of action %d has moved on", ErrNotLearned, row.ActionID)
		}
		return nil
	}
	return fmt.Errorf("%w: no node was given the payment of action %d", ErrNotLearned, row.ActionID)
}
