package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Advance brings an action on: Engine.Drive. It is handed to Run since the engine is made of the relay.
type Advance func(ctx context.Context, action int64) (paidaction.Progress, error)

// claimers are how many claim payments for a node at the same time. A claim is a few waits for the database, one after the other, and one claimer so a bound
// of its own.
const claimers = 4

// Run sends and tracks until ctx ends: a few workers for each node, and an auditor. It returns when all that it has begun is over;
// payments that are under way go on at their nodes, and whoever comes next tracks them.
func (r *Relay) Run(ctx context.Context, advance Advance) error {
	if r.Leases == nil {
		return errors.New("relay: leases on nodes are needed to send")
	}
	group, ctx := errgroup.WithContext(ctx)
	for node := range r.wakes {
		for range claimers {
			group.Go(func() error { return r.work(ctx, node, advance) })
		}
		group.Go(func() error { return r.audit(ctx, node, advance) })
	}
	group.Go(func() error { return r.measure(ctx) })
	return group.Wait()
}

// work gives one node payments, as many side by side as there are places at it.
func (r *Relay) work(ctx context.Context, node string, advance Advance) error {
	var under sync.WaitGroup
	defer under.Wait()
	for fresh := false; ; {
		claimed, err := r.take(ctx, node, fresh)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNoNode) {
			r.Log.WarnContext(ctx, "no payment could be taken", "node", node, "error", err)
		}
		if claimed != nil {
			fresh = false
			under.Go(func() { r.carry(ctx, claimed, advance) })
			continue
		}
		var more bool
		if fresh, more = r.await(ctx, node); !more {
			return nil
		}
	}
}

// await waits until there may be something to send; fresh says that there is. more is false when ctx is over.
func (r *Relay) await(ctx context.Context, node string) (fresh, more bool) {
	timer := time.NewTimer(r.Settings.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, false
	case <-r.fresh[node]:
		return true, true
	case <-r.wakes[node]:
	case <-timer.C:
	}
	return false, true
}

// Step is one turn of a node's worker, for whoever schedules turns one by one: the next payment is claimed, sent and followed to its
// end, or until ctx ends. It returns false where there was none to claim.
func (r *Relay) Step(ctx context.Context, node string, advance Advance) (bool, error) {
	claimed, err := r.take(ctx, node, false)
	if err != nil || claimed == nil {
		return false, err
	}
	r.carry(ctx, claimed, advance)
	return true, nil
}

// wait returns false when ctx is over, else after the time.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// claim is a payment that this process has promised to send once, and the place at the node it does it from.
type claim struct {
	row     db.RelayPayment
	attempt db.RelayAttempt
	node    paidaction.SendingNode
	lease   Lease
	// pinned: an earlier claim on this node may have been sent and forgotten. The payment cannot be given up before its invoice
	// has expired.
	pinned bool

	released sync.Once
	done     bool // the action has ended, and nothing is left to be done for it

	noted  atomic.Bool // that the node has it; also while that is being noted
	noting []func()    // wait for it
}

// release gives the place at the node back, once.
func (r *Relay) release(ctx context.Context, c *claim, blame Blame) {
	c.released.Do(func() {
		c.lease.Release(context.WithoutCancel(ctx), blame)
		r.lookAgain()
	})
}

// take claims the next payment for a node, if there is one that it can pay. A lease is taken only if there is: they cost more than a
// look. Where one is fresh nobody looks.
func (r *Relay) take(ctx context.Context, name string, fresh bool) (*claim, error) {
	// Each claimer looks for another one: whoever lost the race for the same would have taken a lease for nothing. One that is missed so, for it was passed
	// over on account of a claim that has just been committed, is the next that the claim's own worker finds.
	others := r.claiming[name].Add(1) - 1
	defer r.claiming[name].Add(-1)
	most := r.most(name)
	var next paidaction.Msat
	if !fresh {
		var err error
		if next, err = r.next(ctx, name, most, others); err != nil || next == 0 {
			return nil, err
		}
	}
	node, err := r.Nodes.Sender(name)
	if err != nil {
		return nil, err
	}
	sendable, key, err := r.askForClaim(ctx, node, name)
	if err != nil {
		return nil, err
	}
	if sendable = min(sendable, most); next > sendable {
		if next, err = r.next(ctx, name, sendable, others); err != nil || next == 0 {
			return nil, err
		}
	}
	lease, err := r.Leases.Lease(ctx, name)
	if err != nil {
		return nil, err
	}
	c := &claim{node: node, lease: lease, attempt: db.RelayAttempt{Node: name, NodeKey: key, Fence: lease.Fence()}}
	if err = r.claim(ctx, c, sendable); err != nil {
		lease.Release(ctx, Unused)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil // others were faster
		}
		return nil, err
	}
	return c, nil
}

// askForClaim asks a node for what a claim on it is made of: what it can send, and its key.
func (r *Relay) askForClaim(ctx context.Context, node paidaction.SendingNode, name string) (sendable paidaction.Msat, key string, err error) {
	err = r.together(func() (err error) {
		if sendable, err = node.Sendable(ctx); err != nil {
			return fmt.Errorf("ask node %s what it can send: %w", name, err)
		}
		return nil
	}, func() (err error) {
		if key, err = node.PublicKey(ctx); err != nil {
			return fmt.Errorf("ask node %s for its key: %w", name, err)
		}
		return nil
	})
	return sendable, key, err
}

// next is what the next payment that the node could take may cost, behind those that others are claiming; 0 where there is none.
func (r *Relay) next(ctx context.Context, node string, sendable paidaction.Msat, others int32) (paidaction.Msat, error) {
	var msat int64
	err := db.Alone(ctx, r.Pool, func(q *db.Queries) (err error) {
		msat, err = q.NextClaimable(ctx, db.NextClaimableParams{Node: &node, Sendable: int64(sendable), At: new(r.now()), Others: others})
		return err
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("look for payments to send: %w", err)
	}
	return paidaction.Msat(msat), nil
}

// claim commits the promise to send, before anything is sent. pgx.ErrNoRows where nothing is left to claim.
func (r *Relay) claim(ctx context.Context, c *claim, sendable paidaction.Msat) error {
	a := &c.attempt
	a.ClaimedAt = r.now()
	a.SendUntil = a.ClaimedAt.Add(r.Settings.SendWindow)
	var claimed db.ClaimRelayRow
	err := db.Alone(ctx, r.Pool, func(q *db.Queries) (err error) {
		claimed, err = q.ClaimRelay(ctx, db.ClaimRelayParams{Node: &a.Node, NodeKey: a.NodeKey, Fence: a.Fence, Sendable: int64(min(sendable, r.most(a.Node))),
			ClaimedAt: a.ClaimedAt, SendUntil: a.SendUntil})
		return err
	})
	if err != nil {
		return fmt.Errorf("claim a payment: %w", err)
	}
	a.ID, a.PaymentID = claimed.AttemptID, claimed.RelayPayment.ID
	c.row, c.pinned = claimed.RelayPayment, claimed.Pinned
	return nil
}

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

// see notes at its first word that the node has the payment: should it be wiped in the next moment, nobody else could tell. What the node says next does not
// wait for that, but for a failure: with its claim ended, the note would come to a payment that somebody else may send.
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

// audit compares what is in work at a node with what the node says: at the start, for what another process left behind, and from
// time to time, for what nobody is told of.
func (r *Relay) audit(ctx context.Context, node string, advance Advance) error {
	for {
		if err := r.Audit(ctx, node, advance); err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "the outgoing payments of a node could not be compared", "node", node, "error", err)
		}
		if !wait(ctx, r.Settings.Audit) {
			return nil
		}
	}
}

const auditPage = 200

// Audit looks at every payment of a node that is not at its end, once.
func (r *Relay) Audit(ctx context.Context, node string, advance Advance) error {
	for after := int64(0); ctx.Err() == nil; {
		page, err := db.New(r.Pool).RelayOfNode(ctx, db.RelayOfNodeParams{Node: &node, After: after, Page: auditPage})
		if err != nil {
			return fmt.Errorf("read what is in work: %w", err)
		}
		for _, row := range page {
			r.bringOn(ctx, row.ActionID, advance)
			after = row.ID
		}
		if len(page) < auditPage {
			return nil
		}
	}
	return nil
}

// measure keeps the gauges.
func (r *Relay) measure(ctx context.Context) error {
	for {
		rows, err := db.New(r.Pool).RelayStages(ctx)
		if err == nil {
			r.Metrics.show(rows, func(row db.RelayStagesRow) float64 { return r.now().Sub(row.Oldest).Seconds() })
		}
		if !wait(ctx, r.Settings.Audit) {
			return nil
		}
	}
}
