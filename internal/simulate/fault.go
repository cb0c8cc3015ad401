package simulate

import (
	"fmt"
	"time"
)

// Fault is something that goes wrong.
type Fault string

// The faults at a yield point.
const (
	died               Fault = "died" // the process is already dead; never chosen
	processDies        Fault = "process dies"
	stalls             Fault = "process stands still"
	lostBefore         Fault = "connection lost before the commit"
	lostAfter          Fault = "connection lost after the commit"
	lostInside         Fault = "connection lost in a transaction"
	arrivesLate        Fault = "commit arrives late"
	refusedSerialising Fault = "serialisation failure"
	databaseRestarts   Fault = "database restarts"
	callFails          Fault = "node call fails"
	answerIsLost       Fault = "node's answer is lost"
	arrivesLater       Fault = "node call arrives late"
	slow               Fault = "node is slow"
	saysUnknown        Fault = "node says unknown"
	saysExists         Fault = "node says it exists"
	streamEnds         Fault = "stream ends"
)

// The faults of the world around.
const (
	nodeAway        Fault = "node away"
	nodeBehind      Fault = "node behind the chain"
	clockJumps      Fault = "clock jumps"
	blockBurst      Fault = "burst of blocks"
	jobTwice        Fault = "job runs twice"
	eventDropped    Fault = "event dropped"
	eventRepeated   Fault = "event repeated"
	eventDelayed    Fault = "event delayed"
	paidAtExpiry    Fault = "paid as it expires"
	overpaid        Fault = "overpaid"
	paidInParts     Fault = "paid in parts"
	askedTwice      Fault = "asked twice at once"
	retriedTwice    Fault = "retried twice at once"
	processStops    Fault = "process is stopped"
	clockIsWrong    Fault = "clock of a process is wrong"
	nodesClock      Fault = "clock of a node is wrong"
	databaseForgets Fault = "database is restored"
	nodeForgets     Fault = "node has lost its data"
	callerLeaves    Fault = "caller goes away"
	receiverAdds    Fault = "receiver adds to what is held"
	paidByForce     Fault = "paid from a channel that is closed by force"
)

// Faults are all faults.
var Faults = []Fault{processDies, stalls, lostBefore, lostAfter, lostInside, arrivesLate, refusedSerialising, databaseRestarts,
	callFails, answerIsLost, arrivesLater, slow, saysUnknown, saysExists, streamEnds,
	nodeAway, nodeBehind, clockJumps, blockBurst, jobTwice, eventDropped, eventRepeated, eventDelayed,
	processStops, clockIsWrong, nodesClock, databaseForgets, nodeForgets, callerLeaves, receiverAdds, paidByForce,
	paidAtExpiry, overpaid, paidInParts, askedTwice, retriedTwice}

// place is where a fiber yields.
type place string

const (
	beforeBegin  place = "before begin"
	inside       place = "in a transaction"
	beforeCommit place = "before the commit"
	afterCommit  place = "after the commit"
	beforeCall   place = "before the call"
	afterCall    place = "after the call"
	following    place = "while following"
	atClock      place = "at the clock"
)

// possible are the faults at each place, with their weights.
var possible = map[place][]struct {
	fault  Fault
	weight int
}{
	beforeBegin:  {{processDies, 1}, {stalls, 2}},
	inside:       {{processDies, 2}, {lostInside, 3}, {stalls, 1}},
	beforeCommit: {{lostBefore, 4}, {lostAfter, 5}, {arrivesLate, 3}, {refusedSerialising, 3}, {processDies, 4}, {databaseRestarts, 1}, {stalls, 2}},
	afterCommit:  {{processDies, 4}, {stalls, 2}},
	beforeCall:   {{callFails, 5}, {arrivesLater, 3}, {processDies, 4}, {stalls, 4}, {slow, 4}, {saysUnknown, 3}, {saysExists, 2}},
	afterCall:    {{answerIsLost, 6}, {processDies, 4}, {stalls, 2}, {slow, 4}},
	following:    {{streamEnds, 5}, {processDies, 2}},
}

// rate is how likely faults are at each place, relative to the others.
var rate = map[place]float64{beforeBegin: 0.1, inside: 0.05, beforeCommit: 1, afterCommit: 0.4, beforeCall: 0.8, afterCall: 0.8, following: 1, atClock: 0.05}

// mostFaults is after how many faults nothing more goes wrong in a seed: where everything fails, nothing happens.
const mostFaults = 80

// chooseFault decides whether something goes wrong at a yield point, and what.
func (w *world) chooseFault(f *fiber, at place, what string) Fault {
	_, doubted := w.doubted()
	if w.calm || w.faults >= mostFaults || w.forgot() && !doubted && what == "TrackPayment" { // every node answers once a restore is accepted
		return ""
	}
	chosen := w.aimedFault(f, at, what)
	if f.lingers && at == afterCall && what == "TrackPayment" && w.chance.happens(0.3, f.name+" lingers", f.seen) {
		chosen = stalls
	}
	if chosen == "" && w.chance.happens(w.plan.trouble*rate[at], f.name+" fault", f.seen) {
		chosen = w.anyFault(f, at)
	}
	if chosen == "" || !makesSense(chosen, what) {
		return ""
	}
	key := fmt.Sprintf("%s %d", f.name, f.seen)
	if w.without[key] {
		return ""
	}
	w.met = append(w.met, key)
	return chosen
}

// anyFault is a fault that is possible at a place, drawn by weight.
func (w *world) anyFault(f *fiber, at place) Fault {
	total := 0
	for _, p := range possible[at] {
		total += p.weight
	}
	drawn := w.chance.below(total, f.name+" which fault", f.seen)
	for _, p := range possible[at] {
		if drawn -= p.weight; drawn < 0 {
			return p.fault
		}
	}
	return ""
}

// makesSense reports whether the fault fits the call: a node can deny only what it can be asked for.
func makesSense(fault Fault, what string) bool {
	switch fault {
	case saysUnknown:
		return what == "LookupInvoice" || what == "TrackPayment" || what == "CancelInvoice"
	case arrivesLater:
		return what == "OpenInvoice" || what == "Pay" || what == "CancelInvoice" || what == "SettleInvoice"
	case saysExists:
		return what == "OpenInvoice" || what == "Pay"
	}
	return true
}

// delay is how long a fiber stays at a yield point.
func (w *world) delay(f *fiber, at place, what string, fault Fault) time.Duration {
	c, n := w.chance, f.seen
	switch {
	case fault == stalls:
		return w.stall(f, f.name, n)
	case fault == slow:
		return c.between(time.Second, 25*time.Second, f.name+" slow", n)
	case at == beforeCall && what == "TrackPayment" && len(w.away) > 0:
		return 2 * time.Second // a process that follows a payment asks an unreachable node again and again
	case at == beforeCall || at == afterCall:
		return c.between(time.Millisecond, 20*time.Millisecond, f.name+" call", n)
	case at == inside:
		// In some seeds transactions take longer, so that they collide.
		if c.happens(0.3, "crowd", 0) && c.happens(0.5, f.name+" inside", n) {
			return c.between(0, 6*time.Millisecond, f.name+" wait", n)
		}
		if c.happens(0.1, f.name+" inside", n) {
			return c.between(0, 2*time.Millisecond, f.name+" wait", n)
		}
		return 20 * time.Microsecond
	}
	return c.between(100*time.Microsecond, 3*time.Millisecond, f.name+" commit", n)
}

// stall is how long a process stands still. One that has a claim, or looks after one, often does so until the claim is
// over, or the invoice has expired.
func (w *world) stall(f *fiber, name string, n int) time.Duration {
	if w.plan.outlasts && (f.claimed || f.lingers) && w.chance.happens(0.5, name+" for as long as matters", n) {
		return w.chance.between(90*time.Second, 12*time.Minute, name+" stall", n)
	}
	if w.chance.happens(0.3, name+" long stall", n) {
		return w.chance.between(5*time.Minute, 2*time.Hour, name+" stall", n)
	}
	return w.chance.between(time.Second, 3*time.Minute, name+" stall", n)
}

// meet applies a fault's effect on others than the fiber itself, writes it to the story, and counts it.
func (w *world) meet(f *fiber, at place, what string, fault Fault) {
	if fault == "" {
		return
	}
	w.faults++
	w.tell(f, "%s %s: %s", at, what, fault)
	f.faults = append(f.faults, fault)
	if f.tx != nil {
		for _, s := range f.tx.steps {
			w.cover(s, fault)
		}
	}
	switch fault {
	case processDies:
		w.queue.add(w.tick, func() { w.kill(f.process) })
	case databaseRestarts:
		w.queue.add(w.tick, w.restartDatabase)
	}
}
