package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What happens less often than that a process dies or a node is away.

// relays is the clock by which a process sends payments. It may be wrong by hours: then what is done by the clock waits
// (ConfirmClock), but payments leave, and are looked after.
func (p *process) relays() time.Time { return p.now().Add(p.world.wrong[p.number]) }

// confirmClock compares that clock with the others', as a process does with PostgreSQL's.
func (p *process) confirmClock(context.Context) error {
	if off := p.world.wrong[p.number]; off.Abs() > time.Minute {
		return fmt.Errorf("the clock is wrong by %s", off)
	}
	return nil
}

// setClock has the clock by which a process sends payments, and those that take its place, be wrong by so much.
func (w *world) setClock(number int, off time.Duration) {
	w.wrong[number] = off.Truncate(time.Second)
	w.tell(nil, "%s: its clock is wrong by %s", w.processes[number], off)
	w.touchAll(clockIsWrong)
}

// stop tells a process to end: all that it does is called off, and what it does about that goes on for a while. It gets
// nothing new to do.
func (w *world) stop(p *process) {
	if p.dead || p.stopping {
		return
	}
	p.stopping = true
	w.tell(nil, "%s is told to end", p)
	w.touchAll(processStops)
	for _, f := range slices.Clone(w.fibers) {
		if f.process == p {
			w.timeIsUp(f)
		}
	}
	w.queue.add(w.tick+w.chance.between(time.Millisecond, 15*time.Second, p.String()+" ends", 0), func() { w.kill(p) })
}

// patienceOf is how long the caller of a request waits. Some go away at once.
func (w *world) patienceOf(name string) time.Duration {
	key := name + " leaves"
	if w.calm || w.plan.trouble == 0 || w.without[key] || !w.chance.happens(w.plan.trouble/2, key, 0) {
		return requestLimit
	}
	w.met = append(w.met, key)
	w.faults++
	return w.chance.between(0, 100*time.Millisecond, key, 1)
}

// receiverPays is a receiver who pays for the action themselves, now and then. They know the preimage, so they can add to
// what is held, and what they add may run out sooner.
func (w *world) receiverPays(r *request, pa *paidaction.PaidAction, node *simnode.Node) bool {
	h, key := pa.Invoice.Hash, r.label+" is paid by its receiver"
	preimage, ok := w.wallets.preimage(h)
	if !ok || w.calm || w.without[key] || !w.chance.happens(w.plan.trouble, key, pa.Attempt) {
		return false
	}
	w.met = append(w.met, key)
	w.faults++
	w.touch(pa.ID, receiverAdds)
	inv, _ := node.Inspect(h)
	for i := range 1 + w.chance.below(3, key, 1) {
		more := uint32(w.chance.below(200, key, 10+i))
		w.queue.add(w.tick+time.Duration(i)*w.chance.between(0, 2*time.Second, key, 20+i), func() {
			if now, ok := node.Inspect(h); !ok || now.State == paidaction.InvoiceSettled {
				return // it would be nobody's
			}
			err := node.Keysend(preimage, pa.Invoice.Amount, node.Height()+inv.Request.CLTVDelta+more)
			w.tell(nil, "%s: the receiver pays for action %d: %s", r.label, pa.ID, said(err))
			w.look()
		})
	}
	return true
}

// paysByForce is a payer whose channel is closed by force while they pay a plain invoice, now and then. The node counts
// what it finds there, and it counts for us once an operator has seen it on the chain. Where the database or a node
// forgets, nobody could say any more which of the two came first.
func (w *world) paysByForce(r *request, pa *paidaction.PaidAction, node *simnode.Node) bool {
	key, msat := r.label+" pays by force", pa.Invoice.Amount
	if pa.Flow != paidaction.FlowOptimistic || w.calm || w.plan.loses() || w.without[key] || !w.chance.happens(w.plan.trouble, key, pa.Attempt) {
		return false
	}
	_, err := node.AddPartByForce(pa.Invoice.Hash, msat, msat)
	w.tell(nil, "%s: the payer's channel is closed by force with %d msat for action %d: %s", r.label, msat, pa.ID, said(err))
	if err != nil {
		return false
	}
	w.met = append(w.met, key)
	w.faults++
	w.touch(pa.ID, paidByForce)
	w.awaited[pa.ID] = true
	w.queue.add(w.tick+w.chance.between(0, 20*time.Minute, key, 1), func() { w.seesOnChain(r, pa.ID, 1) })
	w.look()
	return true
}

// seesOnChain is an operator who has seen a payment on the chain. They say so until it counts, but not again while they
// wait for an answer: a process that stands still with the action's row would have them use up all connections.
func (w *world) seesOnChain(r *request, id int64, tries int) {
	w.awaited[id] = false
	if w.states[id].Terminal() {
		return
	}
	const paid = "was paid after all"
	if !slices.ContainsFunc(w.fibers, func(f *fiber) bool { return strings.HasPrefix(f.name, r.label+" "+paid) }) {
		what := fmt.Sprint(paid, " ", tries)
		w.request(r, what, func(ctx context.Context, p *process) {
			fiberOf(ctx).action = id
			w.tell(nil, "%s %s: %s", r.label, what, said(p.engine.Arrived(ctx, id)))
		})
	}
	w.queue.add(w.tick+time.Minute, func() { w.seesOnChain(r, id, tries+1) })
}
