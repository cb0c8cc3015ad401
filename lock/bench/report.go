package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// measured is the outcome of all rounds.
type measured struct {
	contenders []string
	commits    figure                          // median time of a durable commit, in milliseconds
	outcomes   map[string]map[string][]outcome // by contender and load, one for each round
}

// figure is one number from each round.
type figure []float64

func (f figure) median() float64 { return slices.Sorted(slices.Values(f))[len(f)/2] }

func (f figure) spread() [2]float64 { return [2]float64{slices.Min(f), slices.Max(f)} }

// over divides round by round, because what disturbs one figure of a round disturbs the other too.
func (f figure) over(by figure) figure {
	ratios := make(figure, len(f))
	for i := range f {
		ratios[i] = f[i] / by[i]
	}
	return ratios
}

// text is the median and the spread.
func (f figure) text(format string) string {
	return fmt.Sprintf(format+" ("+format+" to "+format+")", f.median(), slices.Min(f), slices.Max(f))
}

// of is one figure of a contender under a load.
func (m measured) of(contender, load string, value func(outcome) float64) figure {
	var f figure
	for _, o := range m.outcomes[contender][load] {
		f = append(f, value(o))
	}
	return f
}

func perSecond(o outcome) float64  { return o.PerSecond }
func handoffs(o outcome) float64   { return o.Handoffs }
func waitP50(o outcome) float64    { return o.WaitP50 }
func waitP99(o outcome) float64    { return o.WaitP99 }
func handoffP50(o outcome) float64 { return o.HandoffP50 }
func fewest(o outcome) float64     { return float64(o.FewestTurns) }
func most(o outcome) float64       { return float64(o.MostTurns) }

// tables prints everything for people.
func (m measured) tables() error {
	for _, l := range loads {
		fmt.Printf("\n%s: %d workers, %d keys, held for %v\n", l.name, l.workers, l.keys, l.hold)
		w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "\tper second\thand-offs\twait p50, ms\twait p99, ms\thand-off p50, ms\tturns of one\t")
		for _, c := range m.contenders {
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%s\t%s\t%.0f to %.0f\t\n", c,
				m.of(c, l.name, perSecond).text("%.0f"), m.of(c, l.name, handoffs).median(), m.of(c, l.name, waitP50).median(),
				m.of(c, l.name, waitP99).text("%.2f"), m.of(c, l.name, handoffP50).text("%.2f"),
				m.of(c, l.name, fewest).median(), m.of(c, l.name, most).median())
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// ratios are the figures that the goals are about, by contender.
func (m measured) ratios() map[string]map[string]figure {
	queue := loads[len(loads)-1]
	// In fair order nobody waits longer than for one turn of everybody else; the ideal rate is that of the holds alone.
	idealRate := float64(time.Second) / float64(queue.hold)
	idealWait := (time.Duration(queue.workers-1) * queue.hold).Seconds() * 1000
	polling := m.of("polling: queue, 50 ms", "hot16", handoffs)
	for i, other := range m.of("polling: SET NX, 100 ms", "hot16", handoffs) {
		polling[i] = max(polling[i], other)
	}
	all := map[string]map[string]figure{}
	note := func(ratio, contender string, f figure) {
		if all[ratio] == nil {
			all[ratio] = map[string]figure{}
		}
		all[ratio][contender] = f
	}
	for _, c := range m.contenders {
		note("queue32_of_ideal_rate", c, m.of(c, queue.name, func(o outcome) float64 { return o.PerSecond / idealRate }))
		note("queue32_wait_p99_of_ideal", c, m.of(c, queue.name, func(o outcome) float64 { return o.WaitP99 / idealWait }))
		note("queue32_handoff_p50_commits", c, m.of(c, queue.name, handoffP50).over(m.commits))
		note("hot16_over_polling", c, m.of(c, "hot16", handoffs).over(polling))
		for _, l := range loads {
			note(l.name+"_of_advisory", c, m.of(c, l.name, perSecond).over(m.of("pg_advisory_xact_lock", l.name, perSecond)))
		}
	}
	return all
}

// report prints the goals, and last one line of JSON: medians of the rounds, their spread, and every round.
func (m measured) report() error {
	ratios := m.ratios()
	goal := func(ratio string) string { return ratios[ratio]["postgres"].text("%.2f") }
	fmt.Printf("\nPostgreSQL, the median of %d rounds (with the spread):\n", len(m.commits))
	fmt.Printf("  one durable commit                         %s ms\n", m.commits.text("%.2f"))
	fmt.Printf("  32 in the queue: of the ideal rate         %s, goal at least 0.7\n", goal("queue32_of_ideal_rate"))
	fmt.Printf("  32 in the queue: wait p99 of the ideal     %s, goal at most 1.3\n", goal("queue32_wait_p99_of_ideal"))
	fmt.Printf("  32 in the queue: hand-off p50 in commits   %s, goal at most 3\n", goal("queue32_handoff_p50_commits"))
	fmt.Printf("  hot key: hand-offs over those by polling   %s, goal at least 10\n\n", goal("hot16_over_polling"))

	line, spread := map[string]any{}, map[string]map[string][2]float64{}
	for ratio, by := range ratios {
		medians := map[string]float64{}
		spread[ratio] = map[string][2]float64{}
		for contender, f := range by {
			medians[contender], spread[ratio][contender] = f.median(), f.spread()
		}
		line[ratio] = medians
	}
	maps.Copy(line, map[string]any{"commit_p50_ms": m.commits.median(), "spread": spread, "rounds": m.outcomes})
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"lock": line})
}
