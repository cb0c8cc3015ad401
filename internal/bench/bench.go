// Package bench measures the zap from credits beside PostgreSQL itself: the same payment as one pipelined transaction of pgbench (the
// reference), and as a script of pgbench that writes exactly the rows that Holdfast writes. Everything runs in one run on one machine, in
// turns, so that only the ratios matter. And it measures what becomes of payments over Lightning.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// Options says what is measured. Holdfast and Out are needed; Load for zaps from credits; FakeNode and Programs for Lightning.
type Options struct {
	Holdfast string        // the service's program
	Load     []string      // the load generator's command: it calls load.Serve
	FakeNode []string      // the fake node's command: it calls fakenode.Serve
	Programs string        // the directory of lnd and btcd
	Rounds   int           // default 3; the medians count
	Takes    time.Duration // of one measurement; default 4 s
	Clients  []int         // default 1, 8, 32, 128
	Noisy    bool          // tell the figures although the machine was noisy

	Users, Items int // default 10,000 and 100,000, which the reference has too

	Out io.Writer // gets one line for each measurement, and the tables
}

func (o Options) defaults() Options {
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.Takes == 0 {
		o.Takes = 4 * time.Second
	}
	if len(o.Clients) == 0 {
		o.Clients = []int{1, 8, 32, 128}
	}
	if o.Users == 0 {
		o.Users, o.Items = 10_000, 100_000
	}
	return o
}

func (o Options) say(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }

const (
	// hotItem is the one that everybody zaps in the hot half, as in the reference.
	hotItem = 42
	sats    = 10
	warm    = time.Second
	// rowsClients is with how many clients Holdfast's own rows are written by pgbench.
	rowsClients = 32
)

// mode is whether everybody zaps anything or all the same.
type mode string

const (
	uniform mode = "uniform"
	hot     mode = "hot"
)

// ErrNoisy is within the error when the machine was too busy with other things for figures that can be believed.
var ErrNoisy = errors.New("the machine was too noisy")

// run is one benchmark under way.
type run struct {
	Options
	database     *database
	service      *service
	measured     measured
	measurements int
}

// Run measures and returns what came of it. It leaves nothing running and nothing behind.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	o = o.defaults()
	scratch, err := child.NewScratch("holdfast-bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	o.say("Filling the databases: %d users, %d items.", o.Users, o.Items)
	r := &run{Options: o, measured: measured{outcomes: map[what][]outcome{}}}
	if r.database, err = startDatabase(ctx, scratch.Dir, o, nil); err != nil {
		return nil, err
	}
	defer r.database.Stop()
	if r.service, err = newService(scratch.Dir, o.Holdfast, r.database.DSN(holdfastDB)); err != nil {
		return nil, err
	}
	defer r.service.stop()
	for round := range o.Rounds {
		o.say("\nRound %d of %d", round+1, o.Rounds)
		if err := r.round(ctx); err != nil {
			return nil, err
		}
	}
	if n := noise(r.measured.calibrations); n > quiet && !o.Noisy {
		return nil, noisy(n)
	}
	return r.report(ctx)
}

// round measures everything once, the contenders in turns.
func (r *run) round(ctx context.Context) error {
	for _, m := range []mode{uniform, hot} {
		top := 0.0
		for _, clients := range r.Clients {
			if err := r.measure(ctx, what{reference, m, clients}, 0); err != nil {
				return err
			}
			if err := r.measure(ctx, what{holdfast, m, clients}, 0); err != nil {
				return err
			}
			top = max(top, r.measured.last(what{holdfast, m, clients}).TPS)
			if clients == rowsClients {
				if err := r.measure(ctx, what{rows, m, clients}, 0); err != nil {
					return err
				}
			}
		}
		// As many as may have to wait: who comes is not held back by who is there.
		if err := r.measure(ctx, what{holdfast, m, halfRate}, top/2); err != nil {
			return err
		}
	}
	return nil
}

// openClients is how many connections the open loop has.
const openClients = 128

// measure has one contender at work once, after the calibration.
func (r *run) measure(ctx context.Context, w what, rate float64) error {
	r.measured.calibrations = append(r.measured.calibrations, calibrate())
	var o outcome
	var err error
	switch {
	case w.contender == holdfast && rate > 0:
		o, err = r.zaps(ctx, w.mode, openClients, rate)
	case w.contender == holdfast:
		o, err = r.zaps(ctx, w.mode, w.clients, 0)
	default:
		o, err = r.script(ctx, w)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	r.measured.outcomes[w] = append(r.measured.outcomes[w], o)
	r.say("  %-34s %s", w, o)
	return nil
}

// script has pgbench work through a script.
func (r *run) script(ctx context.Context, w what) (o outcome, err error) {
	name := map[contender]string{reference: referenceDB, rows: rowsDB}[w.contender]
	before, err := cpuTime(r.database.PID())
	if err != nil {
		return o, err
	}
	done, tps, err := r.database.pgbench(ctx, name, filepath.Join(name, string(w.mode)+".sql"), w.clients, r.Takes)
	if err != nil {
		return o, err
	}
	after, err := cpuTime(r.database.PID())
	if err != nil {
		return o, err
	}
	return outcome{TPS: tps, PostgresUs: perAction(after-before, done)}, nil
}

// zaps has the load generator zap, waits until everything that follows is done, and holds the ledger against what it was told. What the
// side effects cost is part of what a zap costs.
func (r *run) zaps(ctx context.Context, m mode, clients int, rate float64) (o outcome, err error) {
	if err := r.service.start(ctx); err != nil {
		return o, err
	}
	defer r.service.stop()
	b, err := openBooks(ctx, r.database.DSN(holdfastDB))
	if err != nil {
		return o, err
	}
	defer b.close(context.WithoutCancel(ctx))
	r.measurements++
	plan := load.Plan{Address: r.service.address, Keys: r.database.keys, Items: int64(r.Items), Sats: sats, Clients: clients, Rate: rate,
		Prefix: fmt.Sprintf("bench-%d", r.measurements), Measure: r.Takes}
	if m == hot {
		plan.Item = hotItem
	}
	// A service that has just started plans every statement anew on each connection: that is over before anything is counted.
	first := plan
	first.Prefix, first.Warm, first.Measure = plan.Prefix+"-warm", 0, warm
	warmed, err := load.Start(exec.CommandContext(ctx, r.Load[0], r.Load[1:]...), first)
	if err != nil {
		return o, err
	}
	if !warmed.OK() {
		return o, fmt.Errorf("the load was not borne: %s", warmed)
	}
	if err := b.settle(ctx); err != nil {
		return o, err
	}
	cpu, err := used(r.service, r.database)
	if err != nil {
		return o, err
	}
	told, err := load.Start(exec.CommandContext(ctx, r.Load[0], r.Load[1:]...), plan)
	if err != nil {
		return o, err
	}
	answered := time.Now()
	if !told.OK() {
		return o, fmt.Errorf("the load was not borne: %s", told)
	}
	if err := b.settle(ctx); err != nil {
		return o, err
	}
	settled := time.Since(answered)
	after, err := used(r.service, r.database)
	if err != nil {
		return o, err
	}
	r.service.stop()
	all := told
	all.Paid += warmed.Paid
	if err := b.check(ctx, all, sats); err != nil {
		return o, err
	}
	if err := r.service.reconcile(ctx); err != nil {
		return o, err
	}
	return outcome{TPS: float64(told.Measured) / told.Seconds, P50: told.P50ms, P99: told.P99ms, SettleSeconds: settled.Seconds(),
		ServiceUs: perAction(after[0]-cpu[0], told.Paid), PostgresUs: perAction(after[1]-cpu[1], told.Paid)}, nil
}

// used is what the service and what PostgreSQL have used until now.
func used(s *service, d *database) (u [2]time.Duration, err error) {
	for i, pid := range []int{s.server.PID(), d.PID()} {
		if u[i], err = cpuTime(pid); err != nil {
			return u, err
		}
	}
	return u, nil
}

// perAction is the processor time of one action, in microseconds.
func perAction(used time.Duration, actions int64) float64 {
	return float64(used.Microseconds()) / float64(max(actions, 1))
}
