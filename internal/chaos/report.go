package chaos

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Summary is the last line that chaos prints.
type Summary struct {
	Kills       int            `json:"kills"`
	Actions     int            `json:"actions"`     // in the database at the end
	Differences int            `json:"differences"` // found by reconcile, by the clients' book, and in the logs
	Stuck       int            `json:"stuck"`       // actions that had not ended after the drain
	Forgotten   int            `json:"forgotten_by_lnd"`
	Seed        uint64         `json:"seed"`
	Seconds     float64        `json:"seconds"` // duration of load and kills
	KillsBy     map[string]int `json:"kills_by_part"`
	Paid        int            `json:"paid"`
	Failed      int            `json:"failed"`
	Asked       int64          `json:"asked"`    // requests to the API
	Repeated    int64          `json:"repeated"` // repeated because there was no answer
	ServedP50   int64          `json:"served_again_p50_ms"`
	ServedMax   int64          `json:"served_again_max_ms"`
	Late        int            `json:"late"` // times that a part served again only after more than limit
}

// Passed reports whether nothing was lost, nothing is stuck, and the API was never away for too long.
func (s *Summary) Passed() bool { return s.Differences == 0 && s.Stuck == 0 && s.Late == 0 }

// progress prints a line from time to time until the context ends.
func (r *run) progress(ctx context.Context) {
	for wait(ctx, tellEvery) == nil {
		r.tellProgress()
	}
}

func (r *run) tellProgress() {
	n := r.crowd.book.counts()
	total := 0
	for _, count := range n {
		total += count
	}
	ended := n[paidaction.Paid] + n[paidaction.Failed] + n[paidaction.Retrying]
	r.tell("%5.0f s  %4d kills  %6d actions: %6d paid, %5d failed, %4d open  %6d answers waited for, %d asked for again",
		time.Since(r.begun).Seconds(), r.kills(), total, n[paidaction.Paid], n[paidaction.Failed]+n[paidaction.Retrying], total-ended,
		r.line.asked.Load(), r.line.repeated.Load())
}

func (r *run) kills() (n int) {
	for _, p := range r.fleet.parts {
		p.mu.Lock()
		n += p.kills
		p.mu.Unlock()
	}
	return n
}

// summary prints a table of the kills, and sums up.
func (r *run) summary() *Summary {
	n := r.crowd.book.counts()
	s := &Summary{Seed: r.options.Seed, Seconds: r.options.Duration.Seconds(), KillsBy: map[string]int{},
		Paid: n[paidaction.Paid], Failed: n[paidaction.Failed] + n[paidaction.Retrying],
		Asked: r.line.asked.Load(), Repeated: r.line.repeated.Load()}
	var served []time.Duration
	table := tabwriter.NewWriter(r.options.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "PART\tKILLS\tENDED BY ITSELF\tSERVED AGAIN: MEDIAN MS\tLONGEST MS\t")
	for _, p := range r.fleet.parts {
		p.mu.Lock()
		times := slices.Sorted(slices.Values(p.times))
		s.Kills += p.kills
		s.KillsBy[p.name] = p.kills
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t\n", p.name, p.kills, p.ended, median(times).Milliseconds(), longest(times).Milliseconds())
		p.mu.Unlock()
		if !p.bounded {
			continue
		}
		served = append(served, times...)
		for _, t := range times {
			if t > limit {
				s.Late++
				fmt.Fprintf(table, "%s served again after %d ms\t\t\t\t\t\n", p.name, t.Milliseconds())
			}
		}
	}
	_ = table.Flush() // a failed print does not change the verdict
	slices.Sort(served)
	s.ServedP50, s.ServedMax = median(served).Milliseconds(), longest(served).Milliseconds()
	return s
}

// median and longest are of sorted times; 0 if there are none.
func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[len(times)/2]
}

func longest(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[len(times)-1]
}
