package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// Report is the outcome of the rounds: medians, and how far the rounds differ.
type Report struct {
	conditions
	Rows []Row
	Half []HalfRate
}

// conditions are the conditions under which figures were taken.
type conditions struct {
	Machine machine
	Rounds  int
	Seconds float64 // duration of one measurement
	Noise   noise
	Noisy   bool // the noise makes the figures unreliable
}

// Row is the outcome for one number of clients.
type Row struct {
	mode    mode
	clients int

	TPS, CPUus, ServiceUs, PostgresUs, P50ms, P99ms, Settle figure
	ReferenceTPS, ReferenceUs                               figure
	Ratio, CPURatio                                         figure // to the reference, round by round
	OfUniform                                               figure // of the hot half, relative to the uniform half with as many clients
	RowsTPS, RowsUs, OfRows                                 figure // for Holdfast's rows written by pgbench; only for rowsClients clients
	HandlerTPS, HandlerUs, OfHandler                        figure // for the bare handler; only for handlerClients
}

// HalfRate is the outcome of zaps that came at half of the highest sustained rate.
type HalfRate struct {
	mode                 mode
	PerSecond, P50, P99  figure
	ServiceUs, PostgreUs figure
}

// report makes the report.
func (r *run) report(c conditions) *Report {
	m := r.measured
	report := &Report{conditions: c}
	for _, half := range []mode{uniform, hot} {
		for _, clients := range r.Clients {
			report.Rows = append(report.Rows, m.row(half, clients))
		}
		w := what{holdfast, half, halfRate}
		report.Half = append(report.Half, HalfRate{half, m.of(w, tps), m.of(w, p50), m.of(w, p99), m.of(w, serviceUs), m.of(w, postgresUs)})
	}
	return report
}

func (m measured) row(half mode, clients int) Row {
	ours, theirs := what{holdfast, half, clients}, what{reference, half, clients}
	own, bare := what{rows, half, clients}, what{handler, half, clients}
	row := Row{mode: half, clients: clients,
		TPS: m.of(ours, tps), CPUus: m.of(ours, outcome.cpuUs), ServiceUs: m.of(ours, serviceUs), PostgresUs: m.of(ours, postgresUs),
		P50ms: m.of(ours, p50), P99ms: m.of(ours, p99), Settle: m.of(ours, settle),
		ReferenceTPS: m.of(theirs, tps), ReferenceUs: m.of(theirs, outcome.cpuUs), RowsTPS: m.of(own, tps), RowsUs: m.of(own, outcome.cpuUs),
		HandlerTPS: m.of(bare, tps), HandlerUs: m.of(bare, outcome.cpuUs)}
	row.Ratio, row.CPURatio = row.TPS.over(row.ReferenceTPS), row.CPUus.over(row.ReferenceUs)
	row.OfRows, row.OfHandler = row.TPS.over(row.RowsTPS), row.TPS.over(row.HandlerTPS)
	if half == hot {
		row.OfUniform = row.TPS.over(m.of(what{holdfast, uniform, clients}, tps))
	}
	return row
}

// Table is for people.
func (r *Report) Table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tclients\tzaps/s\treference\tratio\tCPU/zap, µs\treference\tratio\tp50, ms\tp99, ms\tof own uniform\t")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%s\t%.0f\t%.0f\t%s\t%.1f\t%.1f\t%s\t\n", row.mode, row.clients, row.TPS.median(), row.ReferenceTPS.median(),
			row.Ratio.text("%.2f"), row.CPUus.median(), row.ReferenceUs.median(), row.CPURatio.text("%.2f"), row.P50ms.median(), row.P99ms.median(), row.uniformText())
	}
	_ = w.Flush() // a builder takes everything
	for _, row := range r.Rows {
		if len(row.RowsTPS) > 0 {
			fmt.Fprintf(&b, "\n%s, %d clients: pgbench writes Holdfast's own rows %.0f times a second at %.0f µs; Holdfast's rate is %s of that.",
				row.mode, row.clients, row.RowsTPS.median(), row.RowsUs.median(), row.OfRows.text("%.2f"))
		}
		if len(row.HandlerTPS) > 0 {
			fmt.Fprintf(&b, "\n%s, %d clients: the bare handler does %.0f a second at %.0f µs; Holdfast's rate is %s of that.",
				row.mode, row.clients, row.HandlerTPS.median(), row.HandlerUs.median(), row.OfHandler.text("%.2f"))
		}
	}
	for _, h := range r.Half {
		fmt.Fprintf(&b, "\n%s, at half the rate, %.0f/s: p50 %s ms, p99 %s ms from when each was due.", h.mode, h.PerSecond.median(), h.P50.text("%.1f"), h.P99.text("%.1f"))
	}
	b.WriteString("\n")
	return b.String()
}

func (row Row) uniformText() string {
	if len(row.OfUniform) == 0 {
		return ""
	}
	return row.OfUniform.text("%.2f")
}

// MarshalJSON is the form of spec 00 §0.2, with some additions.
func (r *Report) MarshalJSON() ([]byte, error) {
	halves := map[mode]map[string]any{uniform: {}, hot: {}}
	for _, row := range r.Rows {
		c := map[string]any{"tps": row.TPS.median(), "ratio": row.Ratio.median(), "ratio_spread": row.Ratio.spread(), "cpu_us": row.CPUus.median(),
			"cpu_ratio": row.CPURatio.median(), "cpu_ratio_spread": row.CPURatio.spread(), "service_us": row.ServiceUs.median(),
			"postgres_us": row.PostgresUs.median(), "p50_ms": row.P50ms.median(), "p99_ms": row.P99ms.median(), "settle_s": row.Settle.median(),
			"reference_tps": row.ReferenceTPS.median(), "reference_cpu_us": row.ReferenceUs.median()}
		if len(row.OfUniform) > 0 {
			c["of_uniform"], c["of_uniform_spread"] = row.OfUniform.median(), row.OfUniform.spread()
		}
		if len(row.RowsTPS) > 0 {
			c["of_own_rows"], c["of_own_rows_spread"] = row.OfRows.median(), row.OfRows.spread()
			c["own_rows_tps"], c["own_rows_cpu_us"] = row.RowsTPS.median(), row.RowsUs.median()
		}
		if len(row.HandlerTPS) > 0 {
			c["of_handler"], c["of_handler_spread"] = row.OfHandler.median(), row.OfHandler.spread()
			c["handler_tps"], c["handler_cpu_us"] = row.HandlerTPS.median(), row.HandlerUs.median()
		}
		halves[row.mode][fmt.Sprintf("c%d", row.clients)] = c
	}
	for _, h := range r.Half {
		halves[h.mode]["half_rate"] = map[string]any{"per_s": h.PerSecond.median(), "p50_ms": h.P50.median(), "p99_ms": h.P99.median(), "p99_ms_spread": h.P99.spread()}
	}
	return json.Marshal(map[string]any{"uniform": halves[uniform], "hot": halves[hot], "rounds": r.Rounds, "seconds": r.Seconds, "noise": r.Noise, "noisy": r.Noisy})
}
