package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// aim is what a seed is after: a step of the machine and a fault that are to coincide. Some pairs seldom coincide by
// chance alone. Every second seed has an aim; the seeds take the pairs in turn.
type aim struct {
	step  paidaction.Step
	fault Fault
}

var aims = func() (all []aim) {
	for _, s := range paidaction.Machine {
		for _, f := range Faults {
			if !byOperator(s) && sought(s, f) {
				all = append(all, aim{s, f})
			}
		}
	}
	// Neighbours are alike. Shuffled, a few hundred seeds in a row aim at something of everything.
	rand.New(rand.NewPCG(1, 9)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}()

// takeAim bends half of the acts so that the step becomes possible.
func (p *plan) takeAim() {
	if p.seed%2 == 0 {
		return
	}
	r := rand.New(rand.NewPCG(p.seed, 8))
	p.aim = &aims[p.seed/2%uint64(len(aims))]
	p.trouble = max(p.trouble, 0.01)
	for i := range p.people[1:] {
		switch {
		case p.aim.step.Flow == paidaction.FlowWrapped:
			p.people[i+1].wallets = 2
		case p.aim.fallsBack() && p.aim.fault == saysUnknown:
			p.people[i+1] = person{wallets: 1} // the payment to it fails, and the job that has looked it up prepares another attempt
		case p.aim.fallsBack():
			p.people[i+1] = person{wallets: 2}
		case p.aim.step.Flow == paidaction.FlowOutgoing, p.aim.step.When == paidaction.PaidInside:
			p.people[i+1].sats = 50_000_000
		}
	}
	for _, a := range p.acts {
		if r.IntN(2) == 0 {
			a.bend(p.aim, r, len(p.people))
			if p.aim.step.When == paidaction.PerformRefused { // refused because others like it came first
				a.who, a.at = 1, p.acts[0].at+time.Duration(r.Int64N(int64(80*time.Millisecond)))
			}
		}
	}
}

// byBlocks reports whether a step is caused by blocks that arrive in a burst.
func (a *aim) byBlocks() bool {
	return a.step.When == paidaction.TooFewBlocks || a.step.When == paidaction.IncomingLost ||
		a.step.When == paidaction.InvoiceIsGone && (a.step.From == paidaction.Held || a.step.From == paidaction.FailedForward)
}

// fallsBack reports whether the fault can come before the step only if a receiver's wallet is tried first, because
// nothing else calls a node then.
func (a *aim) fallsBack() bool {
	return a.step.Flow == paidaction.FlowOptimistic && (a.step.From == paidaction.Beginning || a.step.When == paidaction.RetryRequested) &&
		slices.Contains([]Fault{callFails, answerIsLost, slow, saysUnknown}, a.fault)
}

// suits reports whether actions of a kind can reach the step and the fault at all.
func (a *aim) suits(k *kind) bool {
	switch {
	case a.fallsBack():
		return slices.Contains(k.methods, paidaction.P2P)
	case a.step.When == paidaction.PerformRefused && a.step.Flow == paidaction.FlowPessimistic:
		// Only what was possible when the invoice was made, and is no more: the name is taken, the period paid for, or
		// the price has changed.
		return slices.Contains([]string{community.KindItemCreate, community.KindTerritoryCreate, community.KindTerritoryBilling, community.KindTerritoryUnarchive}, k.name)
	}
	return true
}

// heldOff is the call that must fail for a while, or the step would hardly be taken: the call would cause another step.
func (a *aim) heldOff() string {
	switch s := a.step; {
	case s.When == paidaction.NeverIssued:
		return "OpenInvoice"
	case s.From == paidaction.Canceling && s.When == paidaction.InvoiceIsPaid:
		return "CancelInvoice"
	case s.When == paidaction.IncomingLost:
		return "SettleInvoice"
	case s.From == paidaction.FailedForward && s.When == paidaction.InvoiceIsGone:
		return "LookupInvoice"
	}
	return ""
}

// bend changes an act so that it heads for a step.
func (a *act) bend(to *aim, r *rand.Rand, people int) {
	var ways []*act
	for _, k := range kinds {
		for _, m := range k.methods {
			if m.Flow() == to.step.Flow && to.suits(k) {
				ways = append(ways, &act{kind: k, method: m})
			}
		}
	}
	way := ways[r.IntN(len(ways))]
	a.kind, a.method = way.kind, way.method
	if to.fallsBack() && to.step.From == paidaction.Beginning {
		a.method = "" // the action's own order
	}
	if a.who == 0 && !a.kind.anonymous {
		a.who = 1
	}
	if a.kind.first {
		a.who = 1
	}
	soon := time.Millisecond + time.Duration(r.Int64N(int64(3*time.Second)))
	a.cancels, a.pays.never, a.pays.after, a.pays.atExpiry, a.pays.soon = 0, false, soon, false, false
	s := to.step
	switch s.When {
	case paidaction.DeadlinePassed, paidaction.RetryRequested, paidaction.NeverIssued:
		a.pays.never, a.retries = true, 2
	case paidaction.CancelRequested:
		a.pays.never, a.cancels = true, soon
	case paidaction.TooFewBlocks:
		a.pays.soon = s.From == paidaction.PendingHeld || r.IntN(2) == 0
	case paidaction.PaidInside:
		// Some invoices are paid only by others who withdraw to them.
		a.pays.never = true
		if r.IntN(2) == 0 {
			for _, k := range kinds {
				if slices.Contains(k.methods, paidaction.Outgoing) {
					a.kind, a.method, a.draw, a.who = k, paidaction.Outgoing, a.draw&^(3<<16)|1<<16, 1+r.IntN(people-1)
				}
			}
		}
	case paidaction.InvoiceIsGone:
		a.pays.never = s.From == paidaction.Pending || s.From == paidaction.PendingHeld || s.From == paidaction.Canceling
	}
	if s.From == paidaction.Canceling && s.When != paidaction.PaidInside && to.fault != paidAtExpiry && (s.When == paidaction.NeverIssued || r.IntN(2) == 0) {
		a.cancels = soon
		if s.When == paidaction.InvoiceIsPaid {
			a.pays.after = max(0, soon+time.Duration(r.Int64N(int64(40*time.Millisecond)))-20*time.Millisecond)
		}
	}
	switch to.fault {
	case paidAtExpiry:
		a.pays.never, a.pays.atExpiry = false, true
		if s.From == paidaction.Canceling {
			a.cancels = -time.Duration(r.Int64N(int64(2 * time.Second))) // a payment is then on its way
		}
	case overpaid:
		a.pays.never, a.pays.over = false, 1+r.Int64N(9_000)
	case paidInParts:
		a.pays.never, a.pays.parts = false, 2
	case askedTwice:
		a.twice = true
	case retriedTwice:
		a.together = true
	}
}

// approaching reports whether an action's next step may be the one that the seed is after.
func (w *world) approaching(action int64) bool {
	aim := w.plan.aim
	return aim != nil && action != 0 && w.states[action] == aim.step.From && w.flowOf(action) == aim.step.Flow
}

// aimedFault is the fault that the seed is after, if this is the step's place.
func (w *world) aimedFault(f *fiber, at place, what string) Fault {
	aim := w.plan.aim
	if aim == nil {
		return ""
	}
	if call := aim.heldOff(); call != "" && at == beforeCall && what == call && w.chance.happens(0.85, f.name+" held off", f.seen) {
		return callFails
	}
	if aim.step.From == paidaction.Held && aim.step.When == paidaction.TooFewBlocks && at == beforeCall && what == "SettleInvoice" && w.chance.happens(0.4, f.name+" settles late", f.seen) {
		return arrivesLater // the call must not be cancelled any more, however many blocks come before it
	}
	if !makesSense(aim.fault, what) || !canBeAt(aim.fault, at) {
		return ""
	}
	likely := 0.0
	switch {
	case f.tx != nil && slices.ContainsFunc(f.tx.steps, w.isAimed):
		likely = 0.5
	case w.approaching(f.action), aim.step.From == paidaction.Beginning && f.action == 0 && f.label != "":
		likely = 0.25
		if at == beforeCommit || at == inside && aim.fault != lostInside { // they are frequent enough without help
			likely = 0.05
		}
	}
	if !w.chance.happens(likely, f.name+" aim", f.seen) {
		return ""
	}
	return aim.fault
}

func canBeAt(fault Fault, at place) bool {
	for _, p := range possible[at] {
		if p.fault == fault {
			return true
		}
	}
	return false
}

func (w *world) isAimed(s taken) bool {
	aim := w.plan.aim.step
	if s.from != aim.From && (s.from != "" || aim.From != paidaction.Beginning) || s.to != aim.To || s.fact != aim.When {
		return false
	}
	return s.action == 0 && s.flow == aim.Flow || s.action != 0 && w.flowOf(s.action) == aim.Flow
}

// comesNear strikes the world with the fault that the seed is after, once an action has come to where the step may
// follow.
func (w *world) comesNear(action int64) {
	if !w.approaching(action) {
		return
	}
	s := stroke{id: 1000 + int(action), fault: w.plan.aim.fault}
	if !slices.Contains([]Fault{nodeAway, nodeBehind, clockJumps, blockBurst, processDies, databaseRestarts}, s.fault) {
		return
	}
	key := fmt.Sprintf("aim at action %d", action)
	if !w.chance.happens(0.5, key, 0) {
		return
	}
	s.node, s.who = w.chance.below(theNodes, key, 1), w.chance.below(processes, key, 2)
	s.takes, s.size = w.chance.between(time.Second, time.Minute, key, 3), uint32(1+w.chance.below(4, key, 4))
	soon := w.chance.between(0, 20*time.Second, key, 5)
	if w.chance.happens(0.7, key, 6) {
		soon /= 400
	}
	w.queue.add(w.tick+soon, func() { w.strike(s) })
}

// more is the probability p of a fault, raised where the seed is after this fault of this action.
func (w *world) more(p float64, action int64, fault Fault) float64 {
	if w.plan.aim != nil && w.plan.aim.fault == fault && w.approaching(action) {
		return 0.5
	}
	return p
}
