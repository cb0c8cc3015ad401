package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
)

const (
	// scaleClients is the number of clients that are spread over the processes. With the greatest number of processes
	// there is also a measurement with this many clients for each.
	scaleClients = 32
	// askedTwice: of this many requests of a client one is sent to two processes at the same moment, with the same key.
	askedTwice = 20
)

// spread is a number of clients and of the processes that they are spread over.
type spread struct{ processes, clients int }

func (s spread) of(m mode) what { return what{processes(s.processes), m, s.clients} }

// spreads are the spreads to measure.
func (o Options) spreads() []spread {
	var all []spread
	for _, n := range o.Processes {
		all = append(all, spread{n, scaleClients})
	}
	most := slices.Max(o.Processes)
	return append(all, spread{most, most * scaleClients})
}

// Scaled is the effect of more processes of the service on one database.
type Scaled struct {
	conditions
	Rows []ScaledRow
}

// ScaledRow is the outcome for one number of processes and of clients.
type ScaledRow struct {
	mode mode
	spread

	TPS, OfOne                   figure // OfOne: relative to one process, round by round
	Least, Most                  figure // zaps a second at the process with the fewest, and with the most
	CPUus, ServiceUs, PostgresUs figure
	P50ms, P99ms                 figure
	Twice                        figure // zaps requested from two processes at once
}

// Scale zaps at more and more processes of the service on one database, each with all roles. After each measurement it
// compares the ledger with what all clients were told. It leaves nothing running and nothing behind.
func Scale(ctx context.Context, o Options) (_ *Scaled, err error) {
	o = o.defaults()
	r, err := prepare(ctx, o, slices.Max(o.Processes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	c, err := r.rounds(ctx, r.scale)
	if err != nil {
		return nil, err
	}
	scaled := &Scaled{conditions: c}
	for _, half := range []mode{uniform, hot} {
		for _, s := range o.spreads() {
			scaled.Rows = append(scaled.Rows, r.measured.scaled(half, s, o.spreads()[0]))
		}
	}
	return scaled, nil
}

// scale is one round: each spread once in each mode.
func (r *run) scale(ctx context.Context) error {
	for _, m := range []mode{uniform, hot} {
		for _, s := range r.spreads() {
			err := r.take(s.of(m), func() (outcome, error) {
				return r.zaps(ctx, r.services[:s.processes], load.Plan{Item: m.item(), Clients: s.clients, Twice: askedTwice})
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (m measured) scaled(half mode, s, first spread) ScaledRow {
	w := s.of(half)
	return ScaledRow{mode: half, spread: s, TPS: m.of(w, tps), OfOne: m.of(w, tps).over(m.of(first.of(half), tps)),
		Least: m.of(w, least), Most: m.of(w, most), CPUus: m.of(w, outcome.cpuUs), ServiceUs: m.of(w, serviceUs), PostgresUs: m.of(w, postgresUs),
		P50ms: m.of(w, p50), P99ms: m.of(w, p99), Twice: m.of(w, twice)}
}

// Table is for people.
func (s *Scaled) Table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tprocesses\tclients\tzaps/s\tof one\teach\tCPU/zap, µs\tservices\tPostgreSQL\tp50, ms\tp99, ms\tasked for twice\t")
	for _, row := range s.Rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.0f\t%s\t%.0f to %.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.0f\t\n", row.mode, row.processes, row.clients, row.TPS.median(),
			row.OfOne.text("%.2f"), row.Least.median(), row.Most.median(), row.CPUus.median(), row.ServiceUs.median(), row.PostgresUs.median(),
			row.P50ms.median(), row.P99ms.median(), row.Twice.sum())
	}
	_ = w.Flush() // a builder takes everything
	return b.String()
}

// Write puts the figures into a page, between its markers.
func (s *Scaled) Write(page string) error { return scaleMarks.write(page, s.markdown(time.Now())) }

func (s *Scaled) markdown(now time.Time) string {
	var b strings.Builder
	b.WriteString(s.conditions.markdown(now))
	b.WriteString("| zaps | processes | clients | zaps/s | of one process | each process, zaps/s | CPU per zap, µs (services + PostgreSQL) | p50, ms | p99, ms | asked for twice |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range s.Rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %.0f | %s | %.0f to %.0f | %.0f (%.0f + %.0f) | %.1f | %.1f | %.0f |\n", row.mode, row.processes, row.clients, row.TPS.median(),
			row.OfOne.text("%.2f"), row.Least.median(), row.Most.median(), row.CPUus.median(), row.ServiceUs.median(), row.PostgresUs.median(),
			row.P50ms.median(), row.P99ms.median(), row.Twice.sum())
	}
	return b.String()
}

// MarshalJSON is one part of the last line.
func (s *Scaled) MarshalJSON() ([]byte, error) {
	halves := map[mode]map[string]any{uniform: {}, hot: {}}
	for _, row := range s.Rows {
		halves[row.mode][fmt.Sprintf("p%d_c%d", row.processes, row.clients)] = map[string]any{"tps": row.TPS.median(), "tps_spread": row.TPS.spread(),
			"of_one": row.OfOne.median(), "of_one_spread": row.OfOne.spread(), "least_tps": row.Least.median(), "most_tps": row.Most.median(),
			"cpu_us": row.CPUus.median(), "service_us": row.ServiceUs.median(), "postgres_us": row.PostgresUs.median(),
			"p50_ms": row.P50ms.median(), "p99_ms": row.P99ms.median(), "p99_ms_spread": row.P99ms.spread(), "twice": row.Twice.sum()}
	}
	return json.Marshal(map[string]any{"uniform": halves[uniform], "hot": halves[hot], "rounds": s.Rounds, "seconds": s.Seconds,
		"noise": s.Noise, "noisy": s.Noisy})
}
