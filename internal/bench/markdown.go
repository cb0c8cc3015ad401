package bench

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// marks are two lines of a page. The benchmark writes between them; people write the rest.
type marks struct{ begin, end string }

var (
	creditMarks    = marks{"<!-- measured: make bench writes what follows -->", "<!-- measured: end -->"}
	scaleMarks     = marks{"<!-- measured scale: make bench ONLY=scale writes what follows -->", "<!-- measured scale: end -->"}
	recoveryMarks  = marks{"<!-- measured recovery: make bench ONLY=growth writes what follows -->", "<!-- measured recovery: end -->"}
	lightningMarks = marks{"<!-- measured Lightning: make bench ONLY=flows writes what follows -->", "<!-- measured Lightning: end -->"}
)

var errMarks = errors.New("the page has no place for the figures")

// Write puts the figures into a page, between its markers.
func (r *Report) Write(page string) error { return creditMarks.write(page, r.markdown(time.Now())) }

// write puts figures into a page.
func (m marks) write(page, figures string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	written, err := m.between(string(text), figures)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(written), 0o644)
}

// between replaces what is between the markers.
func (m marks) between(page, figures string) (string, error) {
	before, rest, begins := strings.Cut(page, m.begin+"\n")
	_, after, ends := strings.Cut(rest, m.end)
	if !begins || !ends {
		return "", fmt.Errorf("%w: it needs the lines\n%s\n%s", errMarks, m.begin, m.end)
	}
	return before + m.begin + "\n\n" + figures + "\n" + m.end + after, nil
}

// markdown is what precedes the figures.
func (c conditions) markdown(now time.Time) string {
	return c.Machine.markdown(now, c.Noise) + fmt.Sprintf("Medians of %d rounds of %g s, with the lowest and the highest.\n\n", c.Rounds, c.Seconds)
}

// markdown is the figures with the conditions.
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
		if len(row.HandlerTPS) > 0 {
			fmt.Fprintf(&b, "- %s, %d clients: the bare handler does %.0f zaps a second, at %.0f µs; Holdfast's rate is %s of that.\n",
				row.mode, row.clients, row.HandlerTPS.median(), row.HandlerUs.median(), row.OfHandler.text("%.2f"))
		}
	}
	for _, h := range r.Half {
		fmt.Fprintf(&b, "- %s, at half of the highest rate, %.0f/s: p50 %s ms, p99 %s ms from when each zap was due.\n",
			h.mode, h.PerSecond.median(), h.P50.text("%.1f"), h.P99.text("%.1f"))
	}
	return b.String()
}

// markdown says when and on what the figures were taken, after a warning if they are unreliable.
func (m machine) markdown(now time.Time, n noise) string {
	warning := ""
	if !n.within(quiet) {
		warning = "**The machine was noisy: these figures are not to be relied on.**\n\n"
	}
	return warning + fmt.Sprintf("%s. %d cores (%s), %.0f GB of memory, %s, %s, PostgreSQL %s. Beside the measurements %s. ",
		now.UTC().Format(time.DateOnly), m.Cores, m.CPU, m.MemoryGB, m.System, m.Go, m.Postgres, n)
}
