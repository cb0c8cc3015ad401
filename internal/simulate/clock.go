package simulate

import (
	"context"
	"fmt"
	"time"
)

// A process may be stopped between its look at the clock and what follows from that. It goes on minutes or hours later,
// with the old time in its hand.

// reads is a clock as the service reads it. The service reads none while it has a Go mutex for which others wait: they
// would wait for real, and the seed would end as one that "neither parks nor ends".
func (p *process) reads(clock func() time.Time) func() time.Time {
	return func() time.Time {
		now := clock()
		if f := p.world.running; f != nil {
			f.hasRead(now)
		}
		return now
	}
}

// hasRead is where a fiber may be stopped once it has read a clock. Its looks are counted apart from its other yield
// points, so that a stop here changes no other draw.
func (f *fiber) hasRead(now time.Time) {
	w := f.world
	if f.dead() {
		return
	}
	f.looks++
	key := fmt.Sprintf("%s clock %d", f.name, f.looks)
	if w.calm || w.faults >= mostFaults || w.without[key] || !w.chance.happens(w.stopsAtClock(f), f.name+" clock", f.looks) {
		return
	}
	w.met = append(w.met, key)
	f.tidy()
	w.meet(f, atClock, now.Format(time.TimeOnly), stalls)
	stall := w.stall(f, f.name+" at the clock", f.looks)
	if w.plan.outlasts && f.claimed {
		w.leftBehind(f, stall)
	}
	f.atClock = true
	f.standStill(stall)
	f.atClock = false
}

// stopsAtClock is how likely a fiber is stopped at the clock: more so where others draw conclusions meanwhile, between a
// claim and its send and in those who look after a claim.
func (w *world) stopsAtClock(f *fiber) float64 {
	switch {
	case w.plan.outlasts && f.claimed:
		return 0.1
	case w.plan.outlasts && f.lingers:
		return 0.05
	case f.claimed:
		return w.plan.trouble / 2
	}
	return w.plan.trouble * rate[atClock]
}

// monotonicZero is what the monotonic clock shows when a seed begins: so late that no context ends by itself that is to
// end by this clock.
var monotonicZero = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// monotonic is the clock that nobody sets, and that goes on while a process stands still. A node is told of a deadline
// that is counted from it, as of what the other clock showed at that moment.
func (p *process) monotonic() time.Time {
	w := p.world
	if f := w.running; f != nil {
		f.ahead = w.jumped + w.wrong[p.number]
	}
	return monotonicZero.Add(w.tick)
}

// timeLeft is how much of a context's time is left, in whole seconds. One that was made for a span of time counts real time,
// of which hardly any passes here: so what is left is about that span.
func (w *world) timeLeft(ctx context.Context) (left time.Duration, bounded bool) {
	end, bounded := ctx.Deadline()
	if bounded && end.After(monotonicZero) {
		return whole(end.Sub(monotonicZero) - w.tick), true
	}
	return whole(time.Until(end)), bounded
}

// whole is a span of time in whole seconds, rounded up: what is left of a context, as of when it was made.
func whole(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
