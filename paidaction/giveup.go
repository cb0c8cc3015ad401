package paidaction

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// ErrNotGivenUp says that an action cannot be given up: its node can still tell what became of it, or cannot be asked
// at the moment, or it could still be paid, or its payment has been taken, or may have been.
var ErrNotGivenUp = errors.New("only what a node that has lost its data will never tell can be given up, once nothing can be paid any more")

// GiveUp ends an action as FAILED whose node has lost its data and so will never say what became of its invoice, or of
// the payment to its receiver. Without that it would count among its payer's open invoices, or withdrawals, for ever.
// reason is what its payer is told. Only an operator can decide this: that a node does not know something proves
// nothing (spec 01 §1.6).
//
// No payment that was held is lost by it: it has not been taken, so it goes back. But what was paid just before the
// node lost its data is known to others alone: the payer of a plain invoice, who then has the preimage that is stored
// here; and the receiver of a payment of ours, who has the only copy of theirs (Learn).
//
// ErrNotGivenUp where it cannot be given up; ErrNoAction is wrapped where there is no such action; TRY_AGAIN while the
// database is in doubt.
func (e *Engine) GiveUp(ctx context.Context, id int64, reason string) error {
	doubt, err := LatestDoubt(ctx, db.New(e.Pool))
	if err != nil {
		return err
	}
	pa, err := e.get(ctx, id)
	if err != nil {
		return err
	}
	step, ok := FindStep(pa.Flow, pa.State, GivenUp)
	switch {
	case strings.TrimSpace(reason) == "":
		return fmt.Errorf("%w, and with a reason", ErrNotGivenUp)
	case pa.State == Forwarding && e.Relay != nil:
		return e.giveUpForwarding(ctx, id, reason)
	case !ok:
		return fmt.Errorf("%w: action %d is %s", ErrNotGivenUp, id, pa.State)
	case e.now().Before(pa.Invoice.ExpiresAt): // should the data come back, it could be paid after all
		return fmt.Errorf("%w: the invoice of action %d can be paid until %s", ErrNotGivenUp, id, pa.Invoice.ExpiresAt.Format(time.RFC3339))
	}
	if err := e.ConfirmClock(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotGivenUp, err)
	}
	if err := e.incomingUnknown(ctx, pa); err != nil {
		return fmt.Errorf("%w: %w", ErrNotGivenUp, err)
	}
	switch sent, err := e.sentOn(ctx, pa, step); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotGivenUp, err)
	case sent:
		return fmt.Errorf("%w: a node pays the receiver of action %d", ErrNotGivenUp, id)
	}
	moved, err := e.move(ctx, id, step, finding{fact: GivenUp, failure: Errorf(CodeInternal, "%s", reason), doubt: doubt})
	if err == nil && !moved {
		err = fmt.Errorf("%w: action %d has moved on", ErrNotGivenUp, id)
	}
	return err
}

// giveUpForwarding gives up an outgoing payment. What follows for the action follows as from any that has failed.
func (e *Engine) giveUpForwarding(ctx context.Context, id int64, reason string) error {
	if err := e.Relay.GiveUp(ctx, id, reason); err != nil {
		return fmt.Errorf("%w: action %d is %s: %w", ErrNotGivenUp, id, Forwarding, err)
	}
	for {
		progress, err := e.Advance(ctx, id)
		if err != nil {
			e.Log.WarnContext(ctx, "what follows from the failure is left to the workers", "action", id, "error", err)
		}
		if progress != Moved {
			return nil
		}
	}
}
