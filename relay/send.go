package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// carry sends a claimed payment and follows it to its end, or until ctx ends. The place at the node is kept while the node is looking
// for a way: a payment that its receiver lets hang would keep it for hours, and a few receivers all places.
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

// send makes the one call that the claim allows, and tells whose fault it was if nothing came of it. tracked says that the node has the
// payment, or may have it, and has not told its end.
func (r *Relay) send(ctx context.Context, c *claim, advance Advance) (blame Blame, tracked bool) {
	left := c.attempt.SendUntil.Sub(r.now())
	if left <= 0 {
		return r.notSent(ctx, c, errTooLate), false // and no node was asked for anything
	}
	asking, done := context.WithTimeout(ctx, left) // a node that hangs must not keep the place for ever
	var request paidaction.PaymentRequest
	var before paidaction.PaymentUpdate
	var unfit, err error
	var elsewhere possession
	_ = r.together(
		func() error { request, unfit = r.prepare(asking, c); return nil },
		func() error { before, err = r.present(asking, c.node, hashOf(c.row)); return nil },
		func() error { elsewhere, _ = r.whoHas(asking, c.row, c.attempt.Node); return nil })
	done()
	switch {
	case err == nil && before.State != paidaction.PaymentFailed:
		// The node has it already, from a claim that is lost. Nothing is sent, so it does not matter what stands in the way of that.
		r.Metrics.already.Inc()
		return Nobody, true
	case elsewhere.name != "":
		return r.leave(ctx, c, elsewhere), false
	case unfit != nil:
		return r.notSent(ctx, c, unfit), false
	case err != nil && !errors.Is(err, paidaction.ErrPaymentNotFound):
		return r.notSent(ctx, c, err), false
	}
	if err == nil {
		if err := r.noteEarlier(ctx, c, before); err != nil {
			return r.notSent(ctx, c, err), false
		}
	}
	return r.pay(ctx, c, request, advance)
}

// pay gives the payment to the node. The call ends with the claim, also for a process that is stopped here and goes on an hour later. The
// payment does not end with the call: it is tracked.
func (r *Relay) pay(ctx context.Context, c *claim, request paidaction.PaymentRequest, advance Advance) (blame Blame, tracked bool) {
	left := c.attempt.SendUntil.Sub(r.now())
	if left <= 0 {
		return r.notSent(ctx, c, errTooLate), false
	}
	limited, cancel := context.WithTimeout(ctx, left)
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

// noteEarlier notes which payment of the same hash has failed at the node already. Should the node be restored from a backup that
// is older than this claim, it shows that one again, and its failure says nothing about this claim's payment.
func (r *Relay) noteEarlier(ctx context.Context, c *claim, before paidaction.PaymentUpdate) error {
	c.attempt.Earlier = new(before.Created)
	n, err := db.New(r.Pool).NoteEarlier(ctx, db.NoteEarlierParams{ID: c.attempt.ID, Earlier: c.attempt.Earlier})
	if err != nil {
		return fmt.Errorf("%w: note the earlier payment: %w", errElsewhere, err)
	}
	if n == 0 {
		return errTooLate
	}
	return nil
}

// isEarlier says whether the node speaks of a payment that had failed before the claim's send.
func isEarlier(attempt db.RelayAttempt, u paidaction.PaymentUpdate) bool {
	return attempt.Earlier != nil && u.Created == *attempt.Earlier
}

// follow brings the action on as soon as a part is settled, though others may hang.
func (r *Relay) follow(ctx context.Context, c *claim, advance Advance, last *paidaction.PaymentUpdate) func(paidaction.PaymentUpdate) error {
	known := false
	return func(u paidaction.PaymentUpdate) error {
		*last = u
		if !isEarlier(c.attempt, u) {
			r.see(ctx, c)
		}
		if u.Preimage != nil && !isEarlier(c.attempt, u) {
			r.heard.Store(c.row.ActionID, u)
		}
		if u.Preimage != nil && !known {
			known = true
			r.release(ctx, c, Nobody) // it was found, and what follows is no work of this node
			r.Metrics.succeeded.WithLabelValues(c.attempt.Node).Inc()
			r.Metrics.took.Observe(r.now().Sub(c.row.CreatedAt).Seconds())
			c.done = r.bringOn(ctx, c.row.ActionID, advance)
		}
		return nil
	}
}

// see notes that the node has the payment, at the node's first word of it: should the node be wiped in the next moment, nobody else could tell. Only a failure
// waits until that is noted (finished): once the claim has ended, the note would come to a payment that somebody else may send.
func (r *Relay) see(ctx context.Context, c *claim) {
	if c.noted.Swap(true) {
		return
	}
	c.noting = append(c.noting, r.Beside(func() {
		if err := db.New(r.Pool).SeeAttempt(ctx, c.attempt.ID); err != nil {
			r.Log.WarnContext(ctx, "that a node has a payment could not be noted", "action", c.row.ActionID, "error", err)
			c.noted.Store(false) // with the next word, then
		}
	}))
}

// awaitNotes waits until nothing is being noted any more.
func (c *claim) awaitNotes() {
	for _, wait := range c.noting {
		wait()
	}
}

// track follows a payment that the node has. Where the node does not know it, or cannot be asked, the auditor finds out.
func (r *Relay) track(ctx context.Context, c *claim, advance Advance) {
	last := paidaction.PaymentUpdate{}
	follow := r.follow(ctx, c, advance, &last)
	for {
		err := c.node.TrackPayment(ctx, hashOf(c.row), follow)
		if err == nil || errors.Is(err, paidaction.ErrPaymentNotFound) {
			return // not ended here: whether this claim's call went out is not known, and it may still
		}
		if !wait(ctx, r.Settings.Pause) {
			return
		}
	}
}

// finished ends the claim whose own call brought the payment's end. The call can be made no second time, so a failure counts at once.
func (r *Relay) finished(ctx context.Context, c *claim, last paidaction.PaymentUpdate) Blame {
	if last.State == paidaction.PaymentFailed && last.Preimage == nil {
		c.awaitNotes()
		if last.Failure == paidaction.ReasonInsufficientBalance {
			r.lacked(ctx, c) // before another one of its kind is claimed
		}
		if _, err := r.ended(ctx, c.row, c.attempt, endedFailed, string(last.Failure)); err != nil {
			r.Log.WarnContext(ctx, "the end of a payment could not be stored", "action", c.row.ActionID, "error", err)
		}
	}
	return blameOf(last)
}

// blameOf blames the node only for what no payer and no receiver can bring about. An invoice that nobody can reach, or a withdrawal
// that may cost nothing, or one of more than nodes can send, fails at every node, and whoever sent one after the other would let all nodes
// rest for good. The payment itself is not given to the same node again anyhow.
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

// notSent ends a claim under which nothing was sent, by the one who knows it. A refusal of the payment itself ends it for good; for
// anything else it is tried again after a pause, during which others go first. The pause doubles with every claim: a few hundred that
// come back every other second, since the node that holds their payers' payments is away, would leave no claim to anybody else. The node
// is to blame for nothing that is ours: that the process stops, or stood still.
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
		_, err = r.ended(ctx, c.row, c.attempt, endedNotSent, rule)
	} else {
		err = r.sendAgain(ctx, c.row, c.attempt, only, cause.Error(), r.Settings.Pause<<min(c.row.Attempts-1, 4))
	}
	r.Log.WarnContext(ctx, "a payment was not sent", "action", c.row.ActionID, "node", c.attempt.Node, "error", errors.Join(cause, err))
	switch {
	case refused:
		return ThePayment
	case stopping, errors.Is(cause, errElsewhere), errors.Is(cause, errTooLate), errors.Is(cause, errBehind): // for a moment, at each block
		return Nobody
	}
	return TheNode
}
