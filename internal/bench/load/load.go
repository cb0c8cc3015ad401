// Package load drives Holdfast with zaps from credits over GraphQL, as its clients would, and tells how long each took. It is to run as a
// process of its own: what it costs is nobody else's. It is cheap: a request is put together from pieces, an answer is looked at for the
// one word that counts.
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

// Plan says what to ask for. Everything is needed but Item, Rate and Twice.
type Plan struct {
	Addresses []string      // of the service's processes, host:port; the clients are spread over them
	Keys      []string      // API keys: of the users 1, 2, 3, …
	Items     int64         // there are those from 1 on; item i was written by the user 1 + i modulo the number of keys
	Item      int64         // the one that everybody zaps, but its author; 0: any
	Sats      int64         // of each zap
	Prefix    string        // of the idempotency keys; no two plans may share one
	Clients   int           // each has one zap under way at most
	Twice     int64         // of so many requests of a client one is sent to the next process too, at the same moment, under the same key; 0: none
	Rate      float64       // zaps a second, each due at its moment whatever became of those before; 0: each client asks when it was answered
	Warm      time.Duration // asked before, and not measured
	Measure   time.Duration
}

// Result is what came of it.
type Result struct {
	Paid       int64            // zaps that were answered as paid, those asked for while warming up among them
	Twice      int64            // of them those that two were asked for, and both told of
	Measured   int64            // of them those answered within the time that is measured
	Each       []int64          // the same by the address that was asked
	Seconds    float64          // of that time
	Failures   int64            // requests that were not answered so
	Reasons    map[string]int64 // how many failed how; the first ones are told
	P50ms      float64          // from when a request was due
	P99ms      float64
	MaxMs      float64
	NotStarted int64 // requests that were due within the time and never sent
}

// OK says that everything that was asked for was done.
func (r Result) OK() bool { return r.Failures == 0 && r.NotStarted == 0 }

// reasons is how many reasons of failures are told apart.
const reasons = 10

// grace is how long what is under way at the end may take.
const grace = 30 * time.Second

// Run asks until the time is over, and waits for the last answers. An error means that nothing could be measured.
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

// next waits until the next request is due, and says when that was; false after the end. With a rate a request is due at its moment,
// though all clients be waiting for answers then: how long it took counts from there, or a service that stands still for a second
// would seem to have been slow for one request of each client, and not for all that came in that second (coordinated omission).
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

// measured says whether an answer counts: with a rate by when it was due, else by when it came.
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

// sum puts together what the clients saw.
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

// Quantile is the smallest time that at least this part of all did not exceed, in milliseconds; 0 of none. They must be sorted.
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
