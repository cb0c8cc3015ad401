package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// carry sends a claimed payment and follows it to its end, or until ctx ends. It keeps the place at the node only while
// the node looks for a route: otherwise a receiver could let a payment hang and keep the place for hours, and a few
// receivers all places.
func (r *Relay) carry(ctx context.Context, c *claim, advance Advance) {
	ctx, done := r.Trace(paidaction.About(ctx, c.row.ActionID), c.row.ActionID)
	defer done()
	defer r.heard.Delete(c.row.ActionID)
	blame, tracked := r.send(ctx, c, advance)
	r.release(ctx, c, blame)
	if tracked {
		r.track(ctx, c, advance)
	}
	if !c.done {
		r.bringOn(ctx, c.row.ActionID, advance)
	}
	c.awaitNotes()
}

// bringOn takes the steps of an action that are possible now. It returns true where the action has ended.
func (r *Relay) bringOn(ctx context.Context, action int64, advance Advance) bool {
	for ctx.Err() == nil {
		progress, err := advance(ctx, action)
		if err != nil {
			r.Log.WarnContext(ctx, "an action with an outgoing payment could not be advanced", "action", action, "error", err)
		}
		if progress != paidaction.Moved {
			return progress == paidaction.Done && err == nil
		}
	}
	return false
}

// left is how long the send of a claim may still begin. A clock that was set back since the claim leaves no more than any
// claim has.
func (r *Relay) left(c *claim) time.Duration {
	return min(c.attempt.SendUntil.Sub(r.now()), r.Settings.SendWindow)
}

// send makes the one call that the claim allows, and returns who was at fault if it failed. tracked says that the node
// has the payment, or may have it, and has not yet reported its end.
func (r *Relay) send(ctx context.Context, c *claim, advance Advance) (blame Blame, tracked bool) {
	left := r.left(c)
	if left <= 0 {
		return r.notSent(ctx, c, errTooLate), false // no node was asked for anything
	}
	asking, done := context.WithTimeout(ctx, left) // a hanging node must not keep the place for ever
	var request paidaction.PaymentRequest
	var before paidaction.PaymentUpdate
	var unfit, err, silent error
	var elsewhere possession
	_ = r.together(
		func() error { request, unfit = r.prepare(asking, c); return nil },
		func() error { before, err = r.present(asking, c.node, hashOf(c.row)); return nil },
		func() error { elsewhere, silent = r.whoHas(asking, c.row, c.attempt.Node); return nil })
	done()
	switch {
	case err == nil && before.State != paidaction.PaymentFailed:
		// The node has it already, from a claim that was lost. Nothing is sent, so it does not matter what would
		// prevent that.
		r.Metrics.already.Inc()
		return Nobody, true
	case elsewhere.name != "":
		return r.leave(ctx, c, elsewhere), false
	case err != nil && !errors.Is(err, paidaction.ErrPaymentNotFound):
		// It may have it. So nothing is given up, even if a rule says that nothing may be sent.
		return r.notSent(ctx, c, err), false
	case silent != nil:
		return r.notSent(ctx, c, silent), false
	case unfit != nil:
		return r.notSent(ctx, c, unfit), false
	}
	if err == nil {
		if err := r.noteEarlier(ctx, c, before); err != nil {
			return r.notSent(ctx, c, err), false
		}
	}
	return r.pay(ctx, c, request, advance)
}

// pay gives the payment to the node. The call ends with the claim, even for a process that is stopped here and goes on
// an hour later. The payment does not end with the call: it is tracked.
func (r *Relay) pay(ctx context.Context, c *claim, request paidaction.PaymentRequest, advance Advance) (blame Blame, tracked bool) {
	if ctx.Err() != nil { // the process is told to end, and nothing has been sent: others may send it soon
		return r.notSent(ctx, c, context.Cause(ctx)), false
	}
	began := r.Monotonic() // before the clock is looked at: whoever is stopped after that has less time left, not more
	left := r.left(c)
	if left <= 0 {
		return r.notSent(ctx, c, errTooLate), false
	}
	limited, cancel := context.WithDeadline(ctx, began.Add(left))
	r.Metrics.sent.WithLabelValues(c.attempt.Node).Inc()
	last := paidaction.PaymentUpdate{}
	err := c.node.Pay(limited, request, r.follow(ctx, c, advance, &last))
	cancel()
	if err == nil {
		return r.finished(ctx, c, last), false
	}
	if errors.Is(err, paidaction.ErrPaymentTooLate) { // the node itself says so: its clock is ahead of ours
		return r.notSent(ctx, c, err), false
	}
	if !errors.Is(err, paidaction.ErrPaymentExists) && ctx.Err() == nil {
		r.Log.InfoContext(ctx, "the call of a payment ended before the payment did: it is tracked", "action", c.row.ActionID, "error", err)
	}
	return Nobody, true
}

// noteEarlier notes which payment with the same hash has failed at the node already. A node restored from a backup
// older than this claim shows that payment again, and its failure says nothing about this claim's payment.
func (r *Relay) noteEarlier(ctx context.Context, c *claim, before paidaction.PaymentUpdate) error {
	earlier := new(before.Created)
	n, err := db.New(r.Pool).NoteEarlier(ctx, db.NoteEarlierParams{ID: c.attempt.ID, Earlier: earlier})
	if err != nil {
		return fmt.Errorf("%w: note the earlier payment: %w", errElsewhere, err)
	}
	if n == 0 {
		return errTooLate
	}
	c.attempt.Earlier = earlier
	return nil
}

// follow brings the action on as soon as a part is settled, even if others hang.
func (r *Relay) follow(ctx context.Context, c *claim, advance Advance, last *paidaction.PaymentUpdate) func(paidaction.PaymentUpdate) error {
	known := false
	return func(u paidaction.PaymentUpdate) error {
		*last = u
		if !u.IsEarlier(c.attempt.Earlier) {
			r.see(ctx, c, u)
		}
		if u.Preimage != nil && !u.IsEarlier(c.attempt.Earlier) {
			r.heard.Store(c.row.ActionID, madeBy(c.attempt.Node, c.row, outcomeOf(u)))
		}
		if u.Preimage != nil && !known {
			known = true
			r.release(ctx, c, Nobody) // the route was found; what follows is no work for this node
			c.done = r.bringOn(ctx, c.row.ActionID, advance)
			if c.row.PayerID != nil {
				r.lookAgain() // it counts among the withdrawals that hold a place until this is committed
			}
		}
		return nil
	}
}

// see notes that the node has the payment at the first update: if the node is wiped a moment later, nothing else could
// tell. Only a failure waits until this is noted (finished): once the claim has ended, the note would be about a
// payment that another node may be sending.
func (r *Relay) see(ctx context.Context, c *claim, shown paidaction.PaymentUpdate) {
	if c.noted.Swap(true) {
		return
	}
	c.noting = append(c.noting, r.Beside(func() {
		if err := r.noteShown(ctx, c.node, c.row, c.attempt, shown); err != nil {
			r.Log.WarnContext(ctx, "that a node has a payment could not be noted", "action", c.row.ActionID, "error", err)
			c.noted.Store(false) // then with the next update
		}
	}))
}

// noteShown notes that the node of a claim has shown the payment. A process that was stopped after its claim may hear
// of the payment sent under a later claim. Noted at the earlier one, which ended because the node did not know the
// payment, it would look as if the node had lost data, and no failure could end the payment. So the node is asked
// again, and if it still shows this payment, the later claim's worker notes it.
func (r *Relay) noteShown(ctx context.Context, node paidaction.SendingNode, row db.RelayPayment, attempt db.RelayAttempt, shown paidaction.PaymentUpdate) error {
	noted, err := db.New(r.Pool).SeeAttempt(ctx, attempt.ID)
	if err != nil || noted > 0 {
		return err
	}
	now, err := r.present(ctx, node, hashOf(row))
	switch {
	case err == nil && now.Created == shown.Created:
		return nil
	case err != nil && !errors.Is(err, paidaction.ErrPaymentNotFound):
		return err
	}
	return db.New(r.Pool).SeeAttemptLate(ctx, attempt.ID)
}

// awaitNotes waits until all notes are stored.
func (c *claim) awaitNotes() {
	for _, wait := range c.noting {
		wait()
	}
}

// track follows a payment that the node has. If the node does not know it, or cannot be asked, the auditor finds out.
func (r *Relay) track(ctx context.Context, c *claim, advance Advance) {
	last := paidaction.PaymentUpdate{}
	follow := r.follow(ctx, c, advance, &last)
	for {
		err := c.node.TrackPayment(ctx, hashOf(c.row), follow)
		if err == nil || errors.Is(err, paidaction.ErrPaymentNotFound) {
			return // not ended here: this claim's call may have gone out, or may still do so
		}
		if !wait(ctx, r.Settings.Pause) {
			return
		}
	}
}

// finished ends a claim whose own call reported the end of the payment. The call cannot be made again, so a failure
// counts at once.
func (r *Relay) finished(ctx context.Context, c *claim, last paidaction.PaymentUpdate) Blame {
	if last.State == paidaction.PaymentFailed && last.Preimage == nil {
		c.awaitNotes()
		if last.Failure == paidaction.ReasonInsufficientBalance {
			r.lacked(ctx, c) // before another such payment is claimed
		}
		end := ending{c.attempt, endedFailed, string(last.Failure)}
		if _, err := r.ended(ctx, c.row, end, nodesReason(c.row, end.reason)); err != nil {
			r.Log.WarnContext(ctx, "the end of a payment could not be stored", "action", c.row.ActionID, "error", err)
		}
	}
	return blameOf(last)
}

// blameOf blames the node only for failures that no payer or receiver can cause. An unreachable invoice, a withdrawal
// with no fee, or one of more than nodes can send fails at every node: by sending one after the other, somebody could
// keep all nodes resting for good. The same payment does not go to the same node again anyhow.
func blameOf(last paidaction.PaymentUpdate) Blame {
	if last.State != paidaction.PaymentFailed {
		return Nobody
	}
	switch last.Failure {
	case paidaction.ReasonIncorrectDetails, paidaction.ReasonNoRoute, paidaction.ReasonTimeout, paidaction.ReasonError, paidaction.ReasonInsufficientBalance:
		return ThePayment
	default:
		return TheNode
	}
}

var errTooLate = errors.New("the claim ended before the payment was sent")

// notSent ends a claim of ours under which nothing was sent. A refusal of the payment itself ends the payment for good;
// anything else is retried after a pause, during which others go first. The pause doubles with every claim. Otherwise a
// few hundred payments that return every two seconds, because the node that holds their payers' payments is away, would
// leave no claim to others. The node is not blamed for what is ours: a process that stops or stood still.
func (r *Relay) notSent(ctx context.Context, c *claim, cause error) Blame {
	stopping := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx)
	only := (*string)(nil)
	if c.pinned {
		only = &c.attempt.Node
	}
	rule, refused := ruleOf(cause)
	var err error
	if refused && !c.pinned {
		outcome := endedNotSent
		if errors.Is(cause, errCrowded) && r.roomElsewhere(ctx, c) {
			outcome = endedFailed // so it goes to another node, and not to this one
		}
		_, err = r.ended(ctx, c.row, ending{c.attempt, outcome, rule}, reasonOf(rule))
	} else {
		err = r.sendAgain(ctx, c.row, c.attempt, only, cause.Error(), r.Settings.Pause<<min(c.row.Attempts-1, mostDoubled))
	}
	r.Log.WarnContext(ctx, "a payment was not sent", "action", c.row.ActionID, "node", c.attempt.Node, "error", errors.Join(cause, err))
	switch {
	case refused:
		return ThePayment
	case stopping, errors.Is(cause, errElsewhere), errors.Is(cause, errSilent), errors.Is(cause, errTooLate), errors.Is(cause, errBehind): // passes soon; happens at each block
		return Nobody
	case errors.Is(cause, paidaction.ErrLost): // one payment that waits for somebody would have the node rest again and again
		return Nobody
	}
	return TheNode
}
