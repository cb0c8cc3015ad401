package paidaction

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNotGivenUp says that an action cannot be given up: its node can still tell what became of its invoice, or cannot be
// asked at the moment, or the invoice could still be paid, or its payment has gone too far.
var ErrNotGivenUp = errors.New("only an action that waits for its payer, or for its payment to go back, can be given up, once its invoice has expired and its node has lost its data")

// GiveUp ends an action as FAILED whose node has lost its data and so will never say what became of the invoice. Without
// that it would count among its payer's open invoices for ever. reason is what its payer is told. Only an operator can
// decide this: that a node does not know something proves nothing (spec 01 §1.6).
//
// No payment that was held is lost by it: the preimage is revealed only after these states, so the payment goes back. A
// plain invoice may have been paid before the node lost its data, and nobody but the payer can tell: they have the
// preimage that is stored here.
//
// ErrNotGivenUp where it cannot be given up; ErrNoAction is wrapped where there is no such action; TRY_AGAIN while the
// database is in doubt.
func (e *Engine) GiveUp(ctx context.Context, id int64, reason string) error {
	pa, err := e.get(ctx, id)
	if err != nil {
		return err
	}
	step, ok := FindStep(pa.Flow, pa.State, GivenUp)
	switch {
	case !ok:
		return fmt.Errorf("%w: action %d is %s", ErrNotGivenUp, id, pa.State)
	case strings.TrimSpace(reason) == "":
		return fmt.Errorf("%w, and with a reason", ErrNotGivenUp)
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
	moved, err := e.move(ctx, id, step, finding{fact: GivenUp, failure: Errorf(CodeInternal, "%s", reason)})
	if err == nil && !moved {
		err = fmt.Errorf("%w: action %d has moved on", ErrNotGivenUp, id)
	}
	return err
}
