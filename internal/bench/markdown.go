package bench

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// What is between the line of a part and that of the end is written by the benchmark, the rest of the page by people.
const (
	creditMark = "<!-- measured: make bench writes what follows -->"
	scaleMark  = "<!-- measured: make bench ONLY=scale writes what follows -->"
	endMark    = "<!-- measured: end -->"
)

var errMarks = errors.New("the page has no place for the figures")

// Write puts the figures into a page, between their markers.
func (r *Report) Write(page string) error { return write(page, creditMark, r.markdown(time.Now())) }

func write(page, mark, figures string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	written, err := between(string(text), mark, figures)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(written), 0o644)
}

// between replaces what is between the markers.
func between(page, mark, figures string) (string, error) {
	before, rest, begins := strings.Cut(page, mark+"\n")
	_, after, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return "", fmt.Errorf("%w: it needs the lines\n%s\n%s", errMarks, mark, endMark)
	}
	return before + mark + "\n\n" + figures + "\n" + endMark + after, nil
}

// markdown says it before the figures.
func (c conditions) markdown(now time.Time) string {
	var b strings.Builder
	if c.Noisy {
		fmt.Fprintf(&b, "**The machine was noisy (the same work took up to %.2f times as long): these figures are not to be relied on.**\n\n", c.Noise)
	}
	m := c.Machine
	fmt.Fprintf(&b, "%s. %d cores (%s), %.0f GB of memory, %s, %s, PostgreSQL %s. Medians of %d rounds of %g s, with the lowest and the highest. ",
		now.UTC().Format(time.DateOnly), m.Cores, m.CPU, m.MemoryGB, m.System, m.Go, m.Postgres, c.Rounds, c.Seconds)
	fmt.Fprintf(&b, "The same work took at most %.2f times as long beside one measurement as beside another.\n\n", c.Noise)
	return b.String()
}

// markdown are the figures with what they depend on.
func (r *Report) markdown(now time.Time) string {
	var b strings.Builder
	b.WriteString(r.conditions.markdown(now))
	b.WriteString("| zaps | clients | zaps/s | reference/s | ratio | CPU per zap, µs (service + PostgreSQL) | reference, µs | CPU ratio | p50, ms | p99, ms | of own uniform |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.0f | %s | %.0f (%.0f + %.0f) | %.0f | %s | %.1f | %.1f | %s |\n", row.mode, row.clients, row.TPS.median(),
			row.ReferenceTPS.median(), row.Ratio.text("%.2f"), row.CPUus.median(), row.ServiceUs.median(), row.PostgresUs.median(),
			row.ReferenceUs.median(), row.CPURatio.text("%.2f"), row.P50ms.median(), row.P99ms.median(), row.uniformText())
	}
	b.WriteString("\n")
	for _, row := range r.Rows {
		if len(row.RowsTPS) > 0 {
			fmt.Fprintf(&b, "- %s, %d clients: pgbench writes Holdfast's own rows %.0f times a second, at %.0f µs; Holdfast's rate is %s of that.\n",
				row.mode, row.clients, row.RowsTPS.median(), row.RowsUs.median(), row.OfRows.text("%.2f"))
		}
	}
	for _, h := range r.Half {
		fmt.Fprintf(&b, "- %s, at half of the highest rate, %.0f/s: p50 %s ms, p99 %s ms from when each zap was due.\n",
			h.mode, h.PerSecond.median(), h.P50.text("%.1f"), h.P99.text("%.1f"))
	}
	return b.String()
}
