package simulate

import (
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// These laws are held all along, and not only in the end: sweeps and luck could have mended by then what was wrong in between.

// lookAfter holds the seventh invariant at every commit: what has no end has a job, and where we owe a call, one that makes it soon.
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
		w.comesNear(action)
		w.mustHaveJob(action)
		if s.action != 0 && s.to.OwesCall() && !slices.ContainsFunc(tx.jobs, func(j *job) bool { return j.concerns(action) && !j.at.After(w.Now().Add(standsBy)) }) {
			w.violate("no job", "%s is %s, and no job for the call that is owed was stored with it", w.name(action), s.to)
		}
	}
}

// standsBy is how late the job of an owed call may be due: whoever took the step makes the call at once, and the job, two seconds later by
// their clock, which runs ahead by up to four, is for their death.
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

// mustBeSeenTo holds that a job which is done leaves no call owed that none makes soon. A withdrawal that is FORWARDED is the relay's until its deadline.
func (w *world) mustBeSeenTo(action int64) {
	state := w.states[action]
	if !state.Driven() || state == paidaction.Forwarded && w.flowOf(action) == paidaction.FlowOutgoing {
		return
	}
	for _, j := range w.jobs {
		if j.concerns(action) && !j.at.After(w.Now().Add(standsBy)) {
			return
		}
	}
	w.violate("no job", "%s is %s, and the job of the call that is owed was done without it", w.name(action), state)
}

// longestClaim is for how long after its last look at the payer's payment a worker may send: its claim, and some seconds.
const longestClaim = 40 * time.Second

// mustBeHeld holds that nothing is forwarded whose own payment is gone for good: who looked before they sent has seen it.
func (w *world) mustBeHeld(h paidaction.Hash) {
	if left, gone := w.left[h]; gone && w.tick-left > longestClaim {
		w.violate("sent for nothing", "a payment was sent %s after the one that it forwards had ended", w.tick-left)
	}
}

// mustBeAlone holds that a payment is at one node alone: another one had it only if it has failed there. That the receiver takes it once is
// their kindness, not ours.
func (w *world) mustBeAlone(h paidaction.Hash, at string) {
	for _, n := range w.nodes {
		if sent, ok := n.Sent(h); ok && n.Name() != at && sent.Present.State != paidaction.PaymentFailed {
			w.violate("sent twice", "%s sent a payment that %s has too: there it is %s", at, n.Name(), sent.Present.State)
		}
	}
}
