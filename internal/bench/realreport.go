package bench

import (
	"encoding/json"
	"fmt"
	"strings"
)

// RealReport is what was measured with a real LND.
type RealReport struct {
	Creations []Creation
	Shares    []Share

	watch
}

// goals says for each goal whether it is reached.
func (c *Creation) goals() string {
	return fmt.Sprintf("%.1f of the rate %s, %d ms %s", goalRatio, reached(c.Ratio.median() >= goalRatio), goalAdded, reached(c.AddedP50ms.median() <= goalAdded))
}

func (s Share) reached() bool { return s.Part.median() <= goalShare }

// Table is for people.
func (r *RealReport) Table() string {
	var b strings.Builder
	for _, c := range r.Creations {
		fmt.Fprintf(&b, "Invoices of LND, %d clients: %s; goals: %s.\n", c.Clients, &c, c.goals())
	}
	for _, s := range r.Shares {
		fmt.Fprintf(&b, "Payments over LND, %s: %s; goal %.2f: %s.\n", s.name, s, goalShare, reached(s.reached()))
	}
	return b.String()
}

// MarshalJSON is the value of "lnd" in the last line.
func (r *RealReport) MarshalJSON() ([]byte, error) {
	line := map[string]any{}
	for _, c := range r.Creations {
		line[fmt.Sprintf("invoices_c%d", c.Clients)] = map[string]any{"invoices": c.Invoices, "node_per_s": c.Bare.PerSecond.median(), "per_s": c.Ours.PerSecond.median(),
			"ratio": c.Ratio.median(), "ratio_spread": c.Ratio.spread(), "ratio_goal": goalRatio, "added_p50_ms": c.AddedP50ms.median(),
			"added_p50_ms_spread": c.AddedP50ms.spread(), "added_p50_ms_goal": goalAdded, "added_p99_ms": c.AddedP99ms.median(),
			"node_p50_ms": c.Bare.P50ms.median(), "p50_ms": c.Ours.P50ms.median(), "node_p99_ms": c.Bare.P99ms.median(), "p99_ms": c.Ours.P99ms.median()}
	}
	for _, s := range r.Shares {
		line[s.name] = map[string]any{"payments": len(s.Part), "ours_ms": s.Ours.median(), "whole_ms": s.Whole.median(), "share": s.Part.median(),
			"share_spread": s.Part.spread(), "share_goal": goalShare}
	}
	return json.Marshal(line)
}

func (r *RealReport) markdown() string {
	var b strings.Builder
	b.WriteString("\n| invoices of LND, clients | the node alone/s | through the service/s | ratio | added, p50, ms | added, p99, ms | goals |\n|---|---|---|---|---|---|---|\n")
	for _, c := range r.Creations {
		fmt.Fprintf(&b, "| %d | %.0f | %.0f | %s | %s | %s | %s |\n", c.Clients, c.Bare.PerSecond.median(), c.Ours.PerSecond.median(),
			c.Ratio.text("%.2f"), c.AddedP50ms.text("%.1f"), c.AddedP99ms.text("%.1f"), c.goals())
	}
	b.WriteString("\n| payments over LND | of | from the payer to PAID, ms | from our node's word to PAID, ms | part | goal |\n|---|---|---|---|---|---|\n")
	for _, s := range r.Shares {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %.2f, %s |\n", s.name, len(s.Part), s.Whole.text("%.0f"), s.Ours.text("%.1f"), s.Part.text("%.3f"),
			goalShare, reached(s.reached()))
	}
	return b.String()
}
