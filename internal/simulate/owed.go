package simulate

import (
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/simulate/simdb"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// These laws are checked at every step, not only in the end: by then sweeps and luck could have repaired what was wrong
// in between.

// lookAfter checks the seventh invariant at every commit: an action that has not ended has a job, and where we owe a
// call, there is a job that makes it soon.
func (w *world) lookAfter(tx *written) {
	for _, s := range tx.steps {
		action := s.action
		for _, j := range tx.jobs {
			if _, known := w.states[j.action]; action == 0 && !known {
				action = j.action
			}
		}
		if action == 0 && !s.to.Terminal() {
			w.violate("no job", "a new action is %s, and no job was stored with it", s.to)
			continue
		}
		w.states[action] = s.to
		if s.to == paidaction.Paid && w.awaited[action] {
			w.violate("paid with nothing", "%s is PAID before anybody has seen its payment on the chain", w.name(action))
		}
		w.comesNear(action)
		w.mustHaveJob(action)
		if s.action != 0 && s.to.Ours() && !slices.ContainsFunc(tx.jobs, func(j *job) bool { return j.concerns(action) && !j.at.After(w.Now().Add(standsBy)) }) {
			w.violate("no job", "%s is %s, and no job for the call that is owed was stored with it", w.name(action), s.to)
		}
	}
}

// standsBy is how late the job of an owed call may be due. Whoever took the step makes the call at once; the job is for
// the case that they die. It is due two seconds later by their clock, which is up to four seconds ahead.
const standsBy = 6 * time.Second

func (w *world) mustHaveJob(action int64) {
	if state, ok := w.states[action]; !ok || state.Terminal() {
		return
	}
	for _, j := range w.jobs {
		if j.concerns(action) {
			return
		}
	}
	w.violate("no job", "%s is %s and has no job", w.name(action), w.states[action])
}

// mustBeSeenTo checks, when a job is done, that a call that is still owed has another job that makes it soon. A
// withdrawal in FORWARDED is the relay's business until its deadline. What was paid by force owes nothing until an
// operator has seen that on the chain, and is looked at again within the hour.
func (w *world) mustBeSeenTo(action int64) {
	state := w.states[action]
	if !state.Driven() || state == paidaction.Forwarded && w.flowOf(action) == paidaction.FlowOutgoing {
		return
	}
	soon := standsBy
	if _, byForce := w.awaited[action]; byForce {
		soon += time.Hour
	}
	for _, j := range w.jobs {
		if j.concerns(action) && !j.at.After(w.Now().Add(soon)) {
			return
		}
	}
	w.violate("no job", "%s is %s, and the job of the call that is owed was done without it", w.name(action), state)
}

// longestClaim is how long after its last look at the payer's payment a worker may send: its claim, and some seconds.
const longestClaim = 40 * time.Second

// mustBeHeld checks that nothing is forwarded once the payer's payment is gone for good: a worker that looks before it
// sends has seen that.
func (w *world) mustBeHeld(h paidaction.Hash) {
	if left, gone := w.left[h]; gone && w.tick-left > longestClaim {
		w.violate("sent for nothing", "a payment was sent %s after the one that it forwards had ended", w.tick-left)
	}
}

// mustBeAlone checks that a payment is at one node only: another node may have had it only if it has failed there. That
// the receiver takes it only once is due to the receiver, not to us.
func (w *world) mustBeAlone(h paidaction.Hash, at string) {
	for _, n := range w.nodes {
		if sent, ok := n.Sent(h); ok && n.Name() != at && sent.Present.State != paidaction.PaymentFailed {
			w.violate("sent twice", "%s sent a payment that %s has too: there it is %s", at, n.Name(), sent.Present.State)
		}
	}
}

// mustLeavePlaces checks that the withdrawals of one process leave places at a node to forwards. Those of several
// processes may be a few more, if they were claimed in the same moment, and only those claimed within the send window
// count (relay/share.go).
func (w *world) mustLeavePlaces(f *fiber, node string) {
	var withdrawals []int64
	for _, s := range w.places[node] {
		if s.fiber == f {
			s.action = f.action
		}
		if s.fiber.process == f.process && s.action != 0 && w.flowOf(s.action) == paidaction.FlowOutgoing && f.process.relays().Sub(s.leased) < sendWindow {
			withdrawals = append(withdrawals, s.action)
		}
	}
	if len(withdrawals) <= forWithdrawals {
		return
	}
	n, err := w.database.queries().InWork(w.ctx, simdb.InWorkParams{ActionIds: withdrawals, Node: node})
	if err != nil {
		panic(err)
	}
	if n > forWithdrawals {
		w.violate("no place left", "%s has %d withdrawals at %s, which has %d places", f.process, n, node, perNode)
	}
}
