package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// FlowReport is the outcome of the Lightning rounds: medians, and how far the rounds differ.
type FlowReport struct {
	Machine machine
	Rounds  int
	Seconds float64
	Flows   []FlowFigures
	LND     *RealReport

	watch
}

// FlowFigures are the figures of one flow.
type FlowFigures struct {
	flow
	AtOnce, Steady                   int    // payments of one measurement
	PerSecond, ServiceUs, PostgresUs figure // for payments that all come at once
	P50, P99, Wait50, Wait99, Flush  figure // in milliseconds, for payments that come one after the other
}

func newFlowReport(o Options) *FlowReport {
	r := &FlowReport{Rounds: o.Rounds, Seconds: o.Takes.Seconds()}
	for _, way := range flows {
		r.Flows = append(r.Flows, FlowFigures{flow: way})
	}
	return r
}

// add adds a round.
func (f *FlowFigures) add(burst, open flowOutcome) {
	f.AtOnce, f.Steady = burst.Payments, open.Payments
	f.PerSecond = append(f.PerSecond, burst.PerSecond)
	f.ServiceUs, f.PostgresUs = append(f.ServiceUs, burst.ServiceUs), append(f.PostgresUs, burst.PostgresUs)
	f.P50, f.P99, f.Flush = append(f.P50, open.P50), append(f.P99, open.P99), append(f.Flush, open.FlushMs)
	f.Wait50, f.Wait99 = append(f.Wait50, open.Wait50), append(f.Wait99, open.Wait99)
}

// reached says in one word whether a goal is reached.
func reached(yes bool) string {
	if yes {
		return "reached"
	}
	return "not reached"
}

func (f FlowFigures) rateReached() bool { return f.PerSecond.median() >= f.goal }
func (f FlowFigures) latencyReached() bool {
	return f.P50.median() <= goalP50 && f.P99.median() <= goalP99
}

// cpu is the processor time of service and PostgreSQL.
func (f FlowFigures) cpu() string {
	service, postgres := f.ServiceUs.median(), f.PostgresUs.median()
	return fmt.Sprintf("%.0f (%.0f + %.0f)", service+postgres, service, postgres)
}

// Table is for people.
func (r *FlowReport) Table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "flow\tpaid/s\tgoal\t\tCPU each, µs (service + PostgreSQL)\tp50, ms\tp99, ms\tgoal\t\tjobs waiting p50\tp99\t")
	for _, f := range r.Flows {
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%d, %d\t%s\t%s\t%s\t\n", f.name, f.PerSecond.text("%.0f"), f.goal, reached(f.rateReached()),
			f.cpu(), f.P50.text("%.1f"), f.P99.text("%.1f"), goalP50, goalP99, reached(f.latencyReached()), f.Wait50.text("%.1f"), f.Wait99.text("%.1f"))
	}
	_ = w.Flush() // writing to a builder cannot fail
	if r.LND != nil {
		b.WriteString("\n" + r.LND.Table())
	}
	return b.String()
}

func (r *FlowReport) noise() noise {
	var rates []figure
	for _, f := range r.Flows {
		rates = append(rates, f.PerSecond)
	}
	return noiseOf(r.rounds, rates)
}

// MarshalJSON is the value of "lightning" in the last line: the five names of spec 00 §0.2, with the latencies of the
// slowest flow, and in addition the figures of each flow.
func (r *FlowReport) MarshalJSON() ([]byte, error) {
	n := r.noise()
	line := map[string]any{"rounds": r.Rounds, "seconds": r.Seconds, "noise": n, "noisy": !n.within(quiet), "lnd": r.LND}
	var slowest50, slowest99 float64
	for _, f := range r.Flows {
		line[f.name+"_per_s"] = f.PerSecond.median()
		slowest50, slowest99 = max(slowest50, f.P50.median()), max(slowest99, f.P99.median())
		line[f.name] = map[string]any{"per_s": f.PerSecond.median(), "per_s_spread": f.PerSecond.spread(), "per_s_goal": f.goal, "payments": f.AtOnce,
			"service_us": f.ServiceUs.median(), "postgres_us": f.PostgresUs.median(), "p50_ms": f.P50.median(), "p99_ms": f.P99.median(), "p99_ms_spread": f.P99.spread(), "p50_ms_goal": goalP50,
			"p99_ms_goal": goalP99, "steady_per_s": steady, "jobs_p50_ms": f.Wait50.median(), "jobs_p99_ms": f.Wait99.median(), "flush_ms": f.Flush.median()}
	}
	line["p50_ms"], line["p99_ms"] = slowest50, slowest99
	return json.Marshal(line)
}

// Write puts the figures into a page, between Lightning's markers.
func (r *FlowReport) Write(page string) error {
	return lightningMarks.write(page, r.markdown(time.Now()))
}

func (r *FlowReport) markdown(now time.Time) string {
	var b strings.Builder
	b.WriteString(r.Machine.markdown(now, r.noise()))
	fmt.Fprintf(&b, "Medians of %d rounds, with the lowest and the highest.\n\n", r.Rounds)
	b.WriteString("| flow | paid at once | PAID/s | goal | CPU each, µs (service + PostgreSQL) | p50, ms | p99, ms | goals | jobs waiting, p50, ms | p99, ms |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range r.Flows {
		fmt.Fprintf(&b, "| %s | %d | %s | %.0f, %s | %s | %s | %s | %d and %d, %s | %s | %s |\n", f.name, f.AtOnce, f.PerSecond.text("%.0f"), f.goal,
			reached(f.rateReached()), f.cpu(), f.P50.text("%.1f"), f.P99.text("%.1f"), goalP50, goalP99, reached(f.latencyReached()),
			f.Wait50.text("%.1f"), f.Wait99.text("%.1f"))
	}
	if r.LND != nil {
		b.WriteString(r.LND.markdown())
	}
	return b.String()
}
