package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// chore is what the service does by the clock. Chance decides which process does it.
type chore struct {
	name  string
	every time.Duration
	twice float64 // how often in two processes at once
	do    func(ctx context.Context, p *process) error
}

// The chores of the community. The model knows when they are due.
const (
	expiresBoosts    = "expires boosts"
	sweepsFiles      = "sweeps files"
	billsTerritories = "bills territories"
	paysRewards      = "pays rewards"
)

const foldPage = 50

// aDay is the time after which the first person wants invoices dropped. The clock is set ahead by as much when they are
// dropped here, because no seed lasts a day.
const aDay = 24 * time.Hour

func (w *world) chores() []chore {
	all := []chore{
		{name: "sweeps the overdue", every: 50 * time.Second, do: func(ctx context.Context, p *process) error { p.worker.SweepOverdue(ctx); return nil }},
		{name: "sweeps", every: 2 * time.Minute, do: func(ctx context.Context, p *process) error { p.worker.Sweep(ctx); return nil }},
		folds("balances", ledger.Fold),
		folds("items", community.FoldItems),
		{name: expiresBoosts, every: 4 * time.Minute, twice: 0.3, do: w.inTx(func(ctx context.Context, q *db.Queries, now time.Time) error {
			_, err := community.ExpireBoosts(ctx, q, now, foldPage)
			return err
		})},
		{name: sweepsFiles, every: 4 * time.Minute, twice: 0.3, do: w.inTx(func(ctx context.Context, q *db.Queries, now time.Time) error {
			_, err := community.SweepUploads(ctx, q, settings(), now, foldPage)
			return err
		})},
		{name: billsTerritories, every: 3 * time.Minute, twice: 0.3, do: func(ctx context.Context, p *process) error {
			return community.BillTerritories(ctx, p.engine, settings())
		}},
		{name: paysRewards, every: 3 * time.Minute, twice: 0.7, do: w.inTx(w.payRewards)},
		{name: "drops invoices", every: 5 * time.Minute, twice: 0.3, do: func(ctx context.Context, p *process) (err error) {
			for found := true; found && err == nil; {
				err = w.inTx(func(ctx context.Context, q *db.Queries, now time.Time) (err error) {
					found, err = community.DropInvoices(ctx, q, now.Add(aDay))
					return err
				})(ctx, p)
			}
			return err
		}},
	}
	for _, node := range w.nodes.Names() {
		all = append(all,
			chore{name: "compares " + node, every: 90 * time.Second, do: func(ctx context.Context, p *process) error { return p.relay.Audit(ctx, node, p.engine.Drive) }},
			chore{name: "asks for the probes of " + node, every: 4 * time.Minute, do: func(ctx context.Context, p *process) error { return p.relay.AskProbes(ctx, node) }},
			chore{name: "works for " + node, every: 90 * time.Second, do: func(ctx context.Context, p *process) error { relayAll(ctx, p, node); return nil }})
	}
	return append(all, folds("polls", community.FoldPolls))
}

// folds is a chore that folds sums.
func folds(what string, fold func(ctx context.Context, q *db.Queries, page int32) (int, error)) chore {
	return chore{name: "folds " + what, every: 4 * time.Minute, do: func(ctx context.Context, p *process) error {
		p.worker.Fold(ctx, worker.Fold{Name: what, Fold: func(ctx context.Context, q *db.Queries) (int, error) { return fold(ctx, q, foldPage) }})
		return nil
	}}
}

// inTx is a chore that is one transaction.
func (w *world) inTx(do func(ctx context.Context, q *db.Queries, now time.Time) error) func(context.Context, *process) error {
	return func(ctx context.Context, p *process) error {
		return db.InTransaction(ctx, w.database.pool, func(tx *db.Transaction) error { return do(ctx, db.New(tx), p.reads(p.now)()) })
	}
}

// payRewards notes whether others were in the middle of a transaction, or stood still with the time of one in their hand:
// what they commit later may still belong to the day that is paid.
func (w *world) payRewards(ctx context.Context, q *db.Queries, now time.Time) error {
	unsure := func() bool {
		return w.othersBusy(ctx) || slices.ContainsFunc(w.fibers, func(f *fiber) bool { return f.atClock })
	}
	before := unsure()
	days, err := community.PayRewards(ctx, q, now, settings())
	if err == nil && days > 0 {
		w.model.sure = !before && !unsure()
	}
	return err
}

// jostle folds sums just while somebody acts, since both touch the same rows.
func (w *world) jostle(a *act) {
	if a.draw>>52%4 > 0 {
		return
	}
	for i, c := range w.chores() {
		if !strings.HasPrefix(c.name, "folds") {
			continue
		}
		key := fmt.Sprintf("%s as act %d begins", c.name, a.id)
		w.queue.add(w.tick+w.chance.between(0, 30*time.Millisecond, key, i), func() { w.chore(c, key, w.alive(key, 0)) })
	}
}

// othersBusy reports whether a fiber of another chore is in the middle of a transaction.
func (w *world) othersBusy(ctx context.Context) bool {
	me := fiberOf(ctx)
	return len(w.late) > 0 || slices.ContainsFunc(w.fibers, func(f *fiber) bool {
		return f != me && f.tx != nil && strings.TrimSuffix(f.name, " again") != strings.TrimSuffix(me.name, " again")
	})
}

// relayAll has a node take the payments that it can, a few one after the other.
func relayAll(ctx context.Context, p *process, node string) {
	for range 4 {
		if more, err := p.relay.Step(ctx, node, p.engine.Drive); err != nil || !more {
			return
		}
	}
}

// chore has a process do a chore. A chore may fail, and is then done the next time, but not once nothing goes wrong any
// more.
func (w *world) chore(c chore, name string, p *process) {
	if p == nil {
		return
	}
	calm, began := w.calm, p.now()
	w.spawn(p, name, "", 0, time.Minute, func(ctx context.Context) {
		alone := !w.othersBusy(ctx) // rows that others hold are left for another time
		err := c.do(ctx, p)
		if _, refused := paidaction.AsRefusal(err); err != nil && !refused && c.twice > 0 && calm && !fiberOf(ctx).dead() && !fiberOf(ctx).over {
			w.violate("chore", "%s: %v", name, err)
		}
		if err == nil && alone && !w.othersBusy(ctx) && !fiberOf(ctx).dead() && began.After(w.model.done[c.name]) {
			w.model.done[c.name] = began
		}
	})
}

// keepDoing does a chore again and again.
func (w *world) keepDoing(c chore, n int) {
	every := c.every
	if w.calm {
		every *= time.Duration(min(2+n/40, 8))
	}
	w.queue.add(w.tick+w.chance.between(every/2, every*3/2, c.name, n), func() {
		if w.chance.happens(c.twice, c.name+" twice", n) {
			w.queue.add(w.tick+w.chance.between(0, 2*time.Millisecond, c.name+" again", n), func() {
				w.chore(c, fmt.Sprintf("%s %d again", c.name, n), w.alive(c.name+" other process", n))
			})
		}
		w.chore(c, fmt.Sprintf("%s %d", c.name, n), w.alive(c.name+" process", n))
		w.keepDoing(c, n+1)
	})
}

// relaySoon wakes the nodes' workers, because there is something to send.
func (w *world) relaySoon(f *fiber) {
	for i, node := range w.nodes.Names() {
		w.woken++
		n := w.woken
		key := fmt.Sprintf("%s wakes %s", f.name, node)
		for again, after := range []time.Duration{0, 2500 * time.Millisecond} {
			w.queue.add(w.tick+after+w.chance.between(time.Millisecond, 200*time.Millisecond, key, n+again+i), func() {
				w.work(node, fmt.Sprintf("worker %d.%d of %s", n, again, node), f.label, w.alive(key, n+again))
			})
		}
	}
}

// work has a process work for a node.
func (w *world) work(node, name, label string, p *process) {
	if p != nil {
		w.spawn(p, name, label, 0, 0, func(ctx context.Context) { relayAll(ctx, p, node) })
	}
}

// strike applies a stroke to the world.
func (w *world) strike(s stroke) {
	key := fmt.Sprintf("stroke %d", s.id)
	if w.calm || w.without[key] || w.forgot() && s.fault == nodeAway {
		return
	}
	w.met = append(w.met, key)
	w.faults++
	node := w.nodes[s.node]
	back := func(what string, do func()) {
		w.queue.add(w.tick+s.takes, func() { w.tell(nil, "%s %s", node.Name(), what); do() })
	}
	switch s.fault {
	case nodeAway:
		w.tell(nil, "%s is away", node.Name())
		w.touchAll(nodeAway)
		node.SetAway(true)
		w.away[node.Name()] = true
		back("is back", func() { w.comeBack(s.node) })
	case nodeBehind:
		w.tell(nil, "%s falls behind the chain", node.Name())
		w.touchAll(nodeBehind)
		node.SetSynced(false)
		back("is with the chain again", func() { node.SetSynced(true); w.look() })
	case clockJumps:
		w.touchAll(clockJumps)
		w.jump(s.takes * 3)
	case blockBurst:
		w.touchAll(blockBurst)
		w.mine(s.size)
	case processDies:
		w.kill(w.processes[s.who])
	case processStops:
		w.stop(w.processes[s.who])
	case clockIsWrong:
		w.setClock(s.who, s.off)
		w.queue.add(w.tick+s.takes, func() { w.setClock(s.who, 0) })
	case nodesClock:
		w.tell(nil, "%s: its clock is wrong by %s", node.Name(), s.off)
		w.touchAll(nodesClock)
		node.SetAhead(s.off)
		back("has the right time again", func() { node.SetAhead(0) })
	case databaseRestarts:
		w.restartDatabase()
	case databaseForgets:
		w.backUp()
		w.queue.add(w.tick+s.takes/4, w.forget)
	case nodeForgets:
		backup := node.Backup()
		w.queue.add(w.tick+s.takes/4, func() { w.lose(s, backup) })
	}
}

func (w *world) comeBack(n int) {
	node := w.nodes[n]
	node.SetAway(false)
	delete(w.away, node.Name())
	for _, p := range w.processes {
		for _, l := range p.listeners {
			if l.node == node && !p.dead {
				w.connect(l, false)
			}
		}
	}
}

// jump sets all clocks forward.
func (w *world) jump(d time.Duration) {
	d = d.Truncate(time.Second)
	w.tell(nil, "the clocks jump by %s", d)
	w.jumped += d
	for _, id := range slices.Sorted(maps.Keys(w.jobs)) {
		w.schedule(w.jobs[id], w.jobs[id].at)
	}
	w.network.Tick()
	w.look()
}

// hurry mines a burst of blocks just when a held payment has to go on. The burst ends shortly before its safety height,
// or shortly after it, or so late that the node gives the payment back.
func (w *world) hurry(what string, h paidaction.Hash) {
	key, likely := "blocks hurry "+what, w.plan.trouble*0.8
	if w.plan.aim != nil && w.plan.aim.byBlocks() {
		likely = 0.1
		if w.approaching(w.actionOf(h)) {
			likely = 0.8
		}
	}
	if w.calm || w.faults >= mostFaults || w.without[key] || !w.chance.happens(likely, key, 0) {
		return
	}
	expiry := w.expiryOf(h)
	left := int64(expiry) - safetyMargin - int64(w.network.Height()) + int64(w.chance.below(30, key, 1)) - 2
	if expiry == 0 || left <= 0 {
		return
	}
	w.met = append(w.met, key)
	w.faults++
	soon := w.chance.between(0, 3*time.Second, key, 2)
	if w.chance.happens(0.6, key, 3) {
		soon /= 60
	}
	if w.chance.happens(0.3, key, 4) {
		soon /= 20 // before anybody who is told of it has looked
	}
	w.queue.add(w.tick+soon, func() {
		w.touchAll(blockBurst)
		w.mine(uint32(left))
	})
}

// safetyMargin is how many blocks before its HTLC expires a payment is no longer relied on (spec 01 §1.5).
const safetyMargin = 30

// expiryOf is the lowest height at which an HTLC of a payment expires; 0: none is held.
func (w *world) expiryOf(h paidaction.Hash) uint32 {
	for _, n := range w.nodes {
		if inv, ok := n.Inspect(h); ok && inv.State == paidaction.InvoiceAccepted {
			return inv.NodeInvoice().ExpiryHeight
		}
	}
	return 0
}
