package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

func newSession() string { return rand.Text() }

// load is how a lock is used: workers, spread over keys, hold it for a while, again and again.
type load struct {
	name          string
	workers, keys int
	hold          time.Duration
	takes         time.Duration // for one measurement
}

var loads = []load{
	{"one", 1, 1, 0, time.Second},
	{"keys16", 16, 16, 0, time.Second},
	{"hot16", 16, 1, 0, 2 * time.Second},
	{"queue32", 32, 1, 5 * time.Millisecond, 3 * time.Second},
}

// outcome is the result of one measurement.
type outcome struct {
	PerSecond float64 `json:"per_s"`
	// Handoffs are the turns that followed another worker's turn. A lock without a queue gives most turns to the worker
	// that just had it.
	Handoffs    float64 `json:"handoffs_per_s"`
	WaitP50     float64 `json:"wait_p50_ms"`
	WaitP99     float64 `json:"wait_p99_ms"`
	HandoffP50  float64 `json:"handoff_p50_ms"` // from the call of Release until the next worker has the lock; only if there is one key
	FewestTurns int     `json:"fewest_turns"`   // of one worker, and the most: a fair lock gives everybody the same
	MostTurns   int     `json:"most_turns"`
}

// turn is one time that a worker held the lock.
type turn struct {
	wait, handoff time.Duration
	other         bool // the previous turn was another worker's
}

// hold takes exactly d. While nothing else happens Go's timers count in whole milliseconds, so they may be one late,
// here a fifth of the hold. A thread that slept the whole time instead would keep Go's scheduler busy.
func hold(d time.Duration) {
	end := time.Now().Add(d)
	time.Sleep(d - 1100*time.Microsecond)
	nap(time.Until(end))
}

// run measures for this long.
func run(ctx context.Context, c contender, l load, duration time.Duration) (outcome, error) {
	// Waits in progress at the end are completed, so that nobody is cut off half-way; only those that began before
	// count.
	turns := make([][]turn, l.workers)
	released := make([]time.Time, l.keys) // when the holder released each key; guarded by that key's lock
	last := make([]int, l.keys)           // the last holder, likewise
	failed := make([]error, l.workers)
	begun := time.Now()
	end := begun.Add(duration)
	var all sync.WaitGroup
	for w := range l.workers {
		all.Go(func() {
			k := w % l.keys
			key := fmt.Sprintf("bench:%s:%d", l.name, k)
			for {
				asked := time.Now()
				if asked.After(end) {
					return
				}
				release, err := c.acquire(ctx, w, key)
				if err != nil {
					failed[w] = err
					return
				}
				got := time.Now()
				t := turn{wait: got.Sub(asked), other: last[k] != w}
				last[k] = w
				// Only a wait that was in progress when the lock was released is a hand-off.
				if r := released[k]; !r.IsZero() && asked.Before(r) {
					t.handoff = got.Sub(r)
				}
				if l.hold > 0 {
					hold(l.hold)
				}
				released[k] = time.Now()
				if err := release(); err != nil {
					failed[w] = err
					return
				}
				if got.Before(end) {
					turns[w] = append(turns[w], t)
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return outcome{}, fmt.Errorf("%s, %s: %w", c.name, l.name, err)
	}

	var o outcome
	var waits, handoffs []time.Duration
	o.FewestTurns = len(turns[0])
	for _, mine := range turns {
		o.FewestTurns, o.MostTurns = min(o.FewestTurns, len(mine)), max(o.MostTurns, len(mine))
		for i, t := range mine {
			if i > 0 || l.workers == l.keys { // the first waits met a queue that was still growing
				waits = append(waits, t.wait)
			}
			if t.other {
				o.Handoffs += 1 / duration.Seconds()
			}
			if t.handoff > 0 {
				handoffs = append(handoffs, t.handoff)
			}
		}
		o.PerSecond += float64(len(mine)) / duration.Seconds()
	}
	o.WaitP50, o.WaitP99 = quantile(waits, 0.5), quantile(waits, 0.99)
	if l.workers > l.keys {
		o.HandoffP50 = quantile(handoffs, 0.5)
	}
	return o, nil
}

// quantile is in milliseconds; 0 if there are no values.
func quantile(of []time.Duration, q float64) float64 {
	if len(of) == 0 {
		return 0
	}
	slices.Sort(of)
	return float64(of[int(q*float64(len(of)-1))].Microseconds()) / 1000
}
