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

// Advance brings an action on: Engine.Drive. It is passed to Run because the engine is made with the relay.
type Advance func(ctx context.Context, action int64) (paidaction.Progress, error)

// claimers is how many workers claim payments for one node at a time. A claim makes several database queries in a row,
// so a single claimer would limit how many payments a node gets.
const claimers = 4

// Run sends and tracks until ctx ends, with a few workers for each node that sends, and auditors for each node, since
// one that sends no more may have payments and probes under way. It returns when all that it began is over. Payments under way go
// on at their nodes, and the next process tracks them.
func (r *Relay) Run(ctx context.Context, advance Advance) error {
	if r.Leases == nil && len(r.wakes) > 0 {
		return errors.New("relay: leases on nodes are needed to send")
	}
	group, ctx := errgroup.WithContext(ctx)
	for node := range r.wakes {
		for range claimers {
			group.Go(func() error { return r.work(ctx, node, advance) })
		}
	}
	for _, node := range r.Nodes.Ours() {
		group.Go(func() error { return r.audit(ctx, node, advance) })
		group.Go(func() error { return r.askProbes(ctx, node) })
	}
	group.Go(func() error { return r.measure(ctx) })
	return group.Wait()
}

// work gives one node payments, as many concurrently as there are places at it.
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

// await waits until there may be something to send; fresh says that there certainly is. more is false when ctx has
// ended.
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

// Step is one turn of a node's worker, for callers that schedule turns one by one: it claims the next payment, sends it
// and follows it to its end, or until ctx ends. It returns false if there was none to claim.
func (r *Relay) Step(ctx context.Context, node string, advance Advance) (bool, error) {
	claimed, err := r.take(ctx, node, false)
	if err != nil || claimed == nil {
		return false, err
	}
	r.carry(ctx, claimed, advance)
	return true, nil
}

// wait returns true after the time, and false when ctx has ended.
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

// claim is a payment that this process has promised to send once, with the place at the node that it is sent from.
type claim struct {
	row     db.RelayPayment
	attempt db.RelayAttempt
	node    paidaction.SendingNode
	lease   Lease
	// pinned: an earlier claim on this node may have sent the payment without a record. The payment cannot be given up
	// before its invoice has expired.
	pinned bool
	// Of a forward: what was agreed on with its payer, and the keys that our nodes are known by.
	cost      paidaction.Msat
	outerCLTV uint32
	issuer    string // the node that issued the payer's invoice
	ours      []string

	released sync.Once
	done     bool // the action has ended, and nothing is left to do for it

	noted  atomic.Bool // it is noted, or being noted, that the node has it
	noting []func()    // wait for those notes
}

// release gives the place at the node back, once.
func (r *Relay) release(ctx context.Context, c *claim, blame Blame) {
	c.released.Do(func() {
		c.lease.Release(context.WithoutCancel(ctx), blame)
		r.lookAgain()
	})
}

// take claims the next payment that a node can pay, if there is one. It looks for one before it takes a lease, which
// costs more; fresh says that there certainly is one, so that it need not look.
func (r *Relay) take(ctx context.Context, name string, fresh bool) (got *claim, err error) {
	// Pass over as many payments as other workers are claiming, and look at the next: of two that race for the same
	// payment, the slower would take a lease for nothing. If such a claim is committed meanwhile, the payment wrongly
	// passed over is found by that claim's worker, which looks again. If those others claim nothing, since they looked
	// before the payment could be claimed, the last of them wakes somebody to look once more.
	claiming := r.claiming[name]
	others := claiming.now.Add(1) - 1
	defer func() {
		if others > 0 && got == nil {
			claiming.passed.Store(true)
		}
		if claiming.now.Add(-1) == 0 && claiming.passed.Swap(false) {
			signal(r.wakes[name])
		}
	}()
	most := r.most(name)
	var next paidaction.Msat
	if !fresh {
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

// claimingNow is who of this process looks for a payment to a node, or claims one.
type claimingNow struct {
	now    atomic.Int32
	passed atomic.Bool // somebody passed over what the others may leave
}

// askForClaim asks a node for what a claim needs: what the node can send, and its key.
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

// next is the cost of the next payment that the node could take, behind those that others are claiming; 0 if there is
// none.
func (r *Relay) next(ctx context.Context, node string, sendable paidaction.Msat, others int32) (paidaction.Msat, error) {
	var msat int64
	err := db.Alone(ctx, r.Pool, func(q *db.Queries) (err error) {
		now := r.now()
		msat, err = q.NextClaimable(ctx, db.NextClaimableParams{Node: &node, Sendable: int64(sendable), At: now, Others: others,
			Withdrawals: r.shares[node].most, Since: r.since(now), Latest: r.Settings.Latest(now)})
		return err
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("look for payments to send: %w", err)
	}
	return paidaction.Msat(msat), nil
}

// claim claims the next payment whose kind may have a place now (share). pgx.ErrNoRows where nothing is left to claim.
func (r *Relay) claim(ctx context.Context, c *claim, sendable paidaction.Msat) error {
	s := r.shares[c.attempt.Node]
	if s.most == unbounded {
		return r.claimOf(ctx, c, sendable, kinds{order: &s.all, forwards: true, withdrawals: unbounded})
	}
	if !s.claiming.TryLock() {
		if err := r.claimOf(ctx, c, sendable, kinds{order: &s.all, forwards: true}); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		// Free again after a statement or two. Whoever holds it may have looked before our payment came.
		if r.Wait != nil {
			r.Wait(ctx, s.taken)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.claiming.Lock()
	}
	defer s.claiming.Unlock()
	if s.begin(r.Monotonic()) {
		if err := r.claimOf(ctx, c, sendable, kinds{order: &s.withdrawals, withdrawals: s.most}); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	return r.claimOf(ctx, c, sendable, kinds{order: &s.all, forwards: true, withdrawals: s.most})
}

// since is the moment after which those payments were claimed that can still hold a place.
func (r *Relay) since(now time.Time) time.Time { return now.Add(-r.Settings.SendWindow) }

// claimOf commits the promise to send, before anything is sent. It is not abandoned half-way when ctx ends: nobody
// would know whether there is a claim, so nobody could send the payment before its time is over, and then only the same
// node.
func (r *Relay) claimOf(ctx context.Context, c *claim, sendable paidaction.Msat, of kinds) error {
	a := &c.attempt
	a.ClaimedAt = r.now()
	a.SendUntil = a.ClaimedAt.Add(r.Settings.SendWindow)
	byAge := of.order.byAge()
	var claimed db.ClaimRelayRow
	err := db.Alone(ctx, r.Pool, func(q *db.Queries) (err error) {
		claimed, err = q.ClaimRelay(context.WithoutCancel(ctx), db.ClaimRelayParams{Node: &a.Node, NodeKey: a.NodeKey, Fence: a.Fence, Sendable: int64(min(sendable, r.most(a.Node))),
			ClaimedAt: a.ClaimedAt, SendUntil: a.SendUntil, Forwards: of.forwards, Withdrawals: of.withdrawals, Since: r.since(a.ClaimedAt),
			Latest: r.Settings.Latest(a.ClaimedAt), ByAge: byAge, WaitingSince: a.ClaimedAt.Add(-waitsLong),
			Names: r.Nodes.Ours()})
		return err
	})
	if err != nil {
		return fmt.Errorf("claim a payment: %w", err)
	}
	of.order.claimed(byAge)
	a.ID, a.PaymentID = claimed.AttemptID, claimed.RelayPayment.ID
	c.row, c.pinned = claimed.RelayPayment, claimed.Pinned
	c.cost, c.outerCLTV, c.issuer, c.ours = paidaction.Msat(claimed.CostMsat), uint32(claimed.CltvDelta), claimed.Issuer, claimed.Keys
	return nil
}

// audit compares what is in work at a node with what the node says: at the start, for what another process left behind,
// and from time to time, for what nobody is told of.
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

// Audit looks once at every unfinished payment of a node.
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

// measured is the most payments of a stage that the gauges count.
const measured = 10_000

// measure keeps the gauges up to date.
func (r *Relay) measure(ctx context.Context) error {
	for {
		rows, err := db.New(r.Pool).RelayStages(ctx, measured)
		if err == nil {
			r.Metrics.show(rows, r.now())
		} else if ctx.Err() == nil {
			r.Log.WarnContext(ctx, "the outgoing payments could not be counted", "error", err)
		}
		r.showCrowds(ctx)
		if !wait(ctx, r.Settings.Audit) {
			return nil
		}
	}
}
