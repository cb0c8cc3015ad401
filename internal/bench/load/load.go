// Package load drives Holdfast with zaps from credits over GraphQL, as its clients would, and reports how long each
// took. It runs as a separate process, so that its cost is not attributed to others. It is cheap: it puts requests
// together from pieces, and looks in an answer only for the one word that counts.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Plan says what to ask for. Everything is required except Item, Rate and Twice.
type Plan struct {
	Addresses []string      // host:port of each process of the service; the clients are spread over them
	Keys      []string      // API keys: of the users 1, 2, 3, …
	Items     int64         // numbered from 1; item i was written by user 1 + i modulo the number of keys
	Item      int64         // the item that everybody but its author zaps; 0: any
	Sats      int64         // of each zap
	Prefix    string        // prefix of the idempotency keys; no two plans may share one
	Clients   int           // each has at most one zap in flight
	Twice     int64         // of this many requests of a client one is also sent to the next process, at the same moment, with the same key; 0: none
	Rate      float64       // zaps a second, each due at its moment whatever became of earlier ones; 0: each client asks again once it was answered
	Warm      time.Duration // warm-up before the measurement
	Measure   time.Duration
}

// Result is the outcome of a plan.
type Result struct {
	Paid       int64            // zaps answered as paid, including those of the warm-up
	Twice      int64            // of these, requested from two processes, which both answered
	Measured   int64            // of these, answered within the measured time
	Each       []int64          // Measured by address
	Seconds    float64          // the measured time
	Failures   int64            // requests not answered as paid
	Reasons    map[string]int64 // failures by reason; only the first reasons are kept
	P50ms      float64          // from when a request was due
	P99ms      float64
	MaxMs      float64
	NotStarted int64 // requests that were due within the time but never sent
}

// OK reports whether everything that was asked for was done.
func (r Result) OK() bool { return r.Failures == 0 && r.NotStarted == 0 }

// reasons is how many reasons for failures are kept apart.
const reasons = 10

// grace is how long requests that are in flight at the end may take.
const grace = 30 * time.Second

// Run sends requests until the time is over, and waits for the last answers. An error means that nothing could be
// measured.
func Run(ctx context.Context, p Plan) (Result, error) {
	if len(p.Addresses) < 1 || len(p.Keys) < 2 || p.Items < 1 || p.Clients < 1 || p.Sats < 1 || p.Measure <= 0 {
		return Result{}, errors.New("load: the plan needs an address, two keys, an item, a client, an amount and a time")
	}
	ctx, cancel := context.WithTimeout(ctx, p.Warm+p.Measure+grace)
	defer cancel()
	clients := make([]*client, p.Clients)
	for i := range clients {
		clients[i] = newClient(p, i)
		defer clients[i].close()
		if err := clients[i].connect(ctx); err != nil {
			return Result{}, err
		}
	}
	begun := time.Now()
	from := begun.Add(p.Warm)
	t := &timetable{begun: begun, from: from, until: from.Add(p.Measure), rate: p.Rate}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { c.run(ctx, t) })
	}
	all.Wait()
	return sum(clients, t), nil
}

// timetable says when the next request is due.
type timetable struct {
	begun, from, until time.Time
	rate               float64
	taken              atomic.Int64
}

// next waits until the next request is due, and returns when that was; false after the end. With a rate a request is
// due at its moment, even if all clients are waiting for answers then, and its time counts from that moment. Otherwise
// a service that stands still for a second would seem slow for one request of each client, not for all that came in
// that second (coordinated omission).
func (t *timetable) next() (due time.Time, more bool) {
	if t.rate == 0 {
		due = time.Now()
		return due, due.Before(t.until)
	}
	due = t.begun.Add(time.Duration(float64(t.taken.Add(1)-1) / t.rate * float64(time.Second)))
	if !due.Before(t.until) {
		return due, false
	}
	time.Sleep(time.Until(due))
	return due, true
}

// measured reports whether an answer counts: with a rate, if it was due in the measured time; else, if it came in it.
func (t *timetable) measured(due, answered time.Time) bool {
	if t.rate > 0 {
		return !due.Before(t.from)
	}
	return !answered.Before(t.from) && answered.Before(t.until)
}

// run asks until the end.
func (c *client) run(ctx context.Context, t *timetable) {
	for ctx.Err() == nil {
		due, more := t.next()
		if !more {
			return
		}
		answered, err := c.zap(ctx)
		if err != nil {
			c.failed(err)
			if err = c.connect(ctx); err != nil {
				c.failed(err)
				return
			}
			continue
		}
		c.paid++
		if t.measured(due, answered) {
			c.took = append(c.took, answered.Sub(due))
		}
	}
}

func (c *client) failed(err error) {
	c.failures++
	if reason := err.Error(); len(c.reasons) < reasons || c.reasons[reason] > 0 {
		c.reasons[reason]++
	}
}

// sum combines what the clients saw.
func sum(clients []*client, t *timetable) Result {
	r := Result{Reasons: map[string]int64{}, Seconds: t.until.Sub(t.from).Seconds(),
		Each: make([]int64, len(clients[0].plan.Addresses))}
	var took []time.Duration
	for _, c := range clients {
		r.Paid += c.paid
		r.Twice += c.twice
		r.Each[c.at] += int64(len(c.took))
		r.Failures += c.failures
		took = append(took, c.took...)
		for reason, n := range c.reasons {
			r.Reasons[reason] += n
		}
	}
	if t.rate > 0 {
		due := int64(t.until.Sub(t.begun).Seconds()*t.rate) - t.taken.Load()
		r.NotStarted = max(0, due)
	}
	r.Measured = int64(len(took))
	slices.Sort(took)
	r.P50ms, r.P99ms, r.MaxMs = Quantile(took, 0.5), Quantile(took, 0.99), Quantile(took, 1)
	return r
}

// Quantile is the smallest time that at least this part of the times does not exceed, in milliseconds; 0 if there are
// none. The times must be sorted.
func Quantile(sorted []time.Duration, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(part*float64(len(sorted)) - 1e-9)) // 0.07 × 100 is 7.000000000000001
	return float64(sorted[min(max(at, 1), len(sorted))-1].Microseconds()) / 1000
}

// String is for people.
func (r Result) String() string {
	text := fmt.Sprintf("%d paid, %d failed, %d never sent", r.Paid, r.Failures, r.NotStarted)
	var why []string
	for reason, n := range r.Reasons {
		why = append(why, fmt.Sprintf("; %d × %s", n, reason))
	}
	slices.SortFunc(why, cmp.Compare[string])
	for _, reason := range why {
		text += reason
	}
	return text
}
