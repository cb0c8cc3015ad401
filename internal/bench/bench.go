// Package bench measures the zap from credits against PostgreSQL itself: the same payment as one pipelined transaction
// of pgbench (the reference), behind a bare HTTP handler, and as a pgbench script that writes exactly the rows that
// Holdfast writes. Everything runs in one run on one machine, in turns, so that only the ratios matter. It also measures
// payments over Lightning.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// Options says what is measured. Holdfast and Out are required; Load and Bare for zaps from credits; FakeNode and
// Programs for Lightning and for a start with open invoices.
type Options struct {
	Holdfast string        // the service's program
	Load     []string      // the load generator's command: it calls load.Serve
	Bare     []string      // the bare handler's command: it calls bare.Serve
	FakeNode []string      // the fake node's command: it calls fakenode.Serve
	Programs string        // the directory of lnd and btcd
	Rounds   int           // default 3; the medians count
	Takes    time.Duration // duration of one measurement; default 4 s
	Warm     time.Duration // how long pgbench works before it is measured; default 3 s
	Clients  []int         // default 1, 8, 32, 128
	Noisy    bool          // report figures even if the machine was noisy

	Processes []int // of the service, for Scale; each number is compared with the first; default 1, 2, 4

	Users, Items int // default 10,000 and 100,000, which the reference has too
	Segments     int // prepared segments of PostgreSQL's log, 16 MB each; default 192, of which a run with credits was seen to write 110

	Out io.Writer // gets one line for each measurement, and the tables
}

func (o Options) defaults() Options {
	o.Rounds = cmp.Or(o.Rounds, 3)
	o.Takes = cmp.Or(o.Takes, 4*time.Second)
	o.Warm = cmp.Or(o.Warm, pgbenchWarm)
	o.Segments = cmp.Or(o.Segments, 192)
	if len(o.Clients) == 0 {
		o.Clients = []int{1, 8, 32, 128}
	}
	if len(o.Processes) == 0 {
		o.Processes = []int{1, 2, 4}
	}
	if o.Users == 0 {
		o.Users, o.Items = 10_000, 100_000
	}
	return o
}

func (o Options) say(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }

const (
	// hotItem is the item that everybody zaps in the hot half, as in the reference.
	hotItem = 42
	sats    = 10
	warm    = time.Second
	// rowsClients is the number of clients with which pgbench writes Holdfast's own rows.
	rowsClients = 32
)

// handlerClients are the numbers of clients with which the bare handler is measured.
var handlerClients = []int{8, 32}

// mode is whether everybody zaps any item, or all the same one.
type mode string

const (
	uniform mode = "uniform"
	hot     mode = "hot"
)

// item is what everybody zaps; 0 is any item.
func (m mode) item() int64 {
	if m == hot {
		return hotItem
	}
	return 0
}

// ErrNoisy is wrapped in the error if other work on the machine made the figures unreliable.
var ErrNoisy = errors.New("the machine was too noisy")

// run is one benchmark under way.
type run struct {
	Options
	scratch      *child.Scratch
	database     *database
	services     []*service // each is started only while it is measured
	handler      *service   // the bare one, likewise
	measured     measured
	measurements int
}

// Run measures and returns a report. It leaves nothing running and nothing behind.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	r, err := prepare(ctx, o.defaults(), 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.end()) }()
	if r.handler, err = newHandler(r.scratch.Dir, o.Bare, r.database.DSN(referenceDB)); err != nil {
		return nil, err
	}
	c, err := r.rounds(ctx, r.round)
	if err != nil {
		return nil, err
	}
	return r.report(c), nil
}

// prepare fills the databases, and prepares this many processes of the service.
func prepare(ctx context.Context, o Options, processes int) (_ *run, err error) {
	r := &run{Options: o, measured: measured{outcomes: map[what][]outcome{}}}
	if r.scratch, err = child.NewScratch("holdfast-bench"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.end())
		}
	}()
	o.say("Filling the databases: %d users, %d items.", o.Users, o.Items)
	if r.database, err = startDatabase(ctx, r.scratch.Dir, o, nil); err != nil {
		return nil, err
	}
	first, err := newService(r.scratch.Dir, o.Holdfast, r.database.DSN(holdfastDB))
	if err != nil {
		return nil, err
	}
	for r.services = []*service{first}; len(r.services) < processes; {
		next, err := first.beside()
		if err != nil {
			return nil, err
		}
		r.services = append(r.services, next)
	}
	return r, nil
}

// end leaves nothing running and nothing behind.
func (r *run) end() error {
	if r.database != nil {
		r.database.Stop()
	}
	return r.scratch.Remove()
}

// rounds runs each round, and returns the conditions. If these make the figures unreliable, it returns an error.
func (r *run) rounds(ctx context.Context, round func(context.Context) error) (c conditions, err error) {
	for i := range r.Rounds {
		r.say("\nRound %d of %d", i+1, r.Rounds)
		r.measured.begin()
		if err := round(ctx); err != nil {
			return c, err
		}
	}
	c = conditions{Rounds: r.Rounds, Seconds: r.Takes.Seconds(), Noise: noiseOf(r.measured.watch.rounds, r.measured.rates())}
	if c.Noisy = !c.Noise.within(quiet); c.Noisy && !r.Noisy {
		return c, noisy(c.Noise)
	}
	c.Machine, err = r.database.machine(ctx)
	return c, err
}

// round measures everything once, taking the contenders in turn.
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
			if slices.Contains(handlerClients, clients) {
				if err := r.measure(ctx, what{handler, m, clients}, 0); err != nil {
					return err
				}
			}
			if clients == rowsClients {
				if err := r.measure(ctx, what{rows, m, clients}, 0); err != nil {
					return err
				}
			}
		}
		// Requests come at their rate, even if earlier ones are not yet answered: so there are as many connections as
		// may have to wait.
		if err := r.measure(ctx, what{holdfast, m, halfRate}, top/2); err != nil {
			return err
		}
	}
	return nil
}

// openClients is how many connections the open loop has.
const openClients = 128

// measure runs one contender once.
func (r *run) measure(ctx context.Context, w what, rate float64) error {
	return r.take(w, func() (outcome, error) {
		switch {
		case w.contender == holdfast && rate > 0:
			return r.zaps(ctx, r.services, load.Plan{Item: w.mode.item(), Clients: openClients, Rate: rate})
		case w.contender == holdfast:
			return r.zaps(ctx, r.services, load.Plan{Item: w.mode.item(), Clients: w.clients})
		case w.contender == handler:
			return r.handled(ctx, load.Plan{Item: w.mode.item(), Clients: w.clients})
		default:
			return r.script(ctx, w)
		}
	})
}

// take records one measurement.
func (r *run) take(w what, measure func() (outcome, error)) error {
	o, err := quietly(&r.measured.watch, r.Options, measure)
	if err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	r.measured.outcomes[w] = append(r.measured.outcomes[w], o)
	r.say("  %-34s %s", w, o)
	return nil
}

// script has pgbench run a script.
func (r *run) script(ctx context.Context, w what) (o outcome, err error) {
	name := map[contender]string{reference: referenceDB, rows: rowsDB}[w.contender]
	done, tps, used, err := r.database.pgbench(ctx, name, filepath.Join(name, string(w.mode)+".sql"), w.clients, r.Warm, r.Takes)
	if err != nil {
		return o, err
	}
	return outcome{TPS: tps, PostgresUs: perAction(used, done)}, nil
}

// zaps has the load generator zap at some processes of the service, waits until everything that follows is done, and
// compares the ledger with what the generator was told. What side effects cost is part of the cost of a zap. The plan
// says how many clients zap what, and at which rate.
func (r *run) zaps(ctx context.Context, services []*service, plan load.Plan) (o outcome, err error) {
	for _, s := range services {
		defer s.stop()
		if err := s.start(ctx); err != nil {
			return o, err
		}
		plan.Addresses = append(plan.Addresses, s.address)
	}
	b, err := openBooks(ctx, r.database.DSN(holdfastDB))
	if err != nil {
		return o, err
	}
	defer b.close(context.WithoutCancel(ctx))
	plan, first := r.plans(plan)
	warmed, err := r.load(ctx, first)
	if err != nil {
		return o, err
	}
	if err := b.settle(ctx); err != nil {
		return o, err
	}
	cpu, err := used(r.database, services...)
	if err != nil {
		return o, err
	}
	told, err := r.load(ctx, plan)
	if err != nil {
		return o, err
	}
	answered := time.Now()
	if err := b.settle(ctx); err != nil {
		return o, err
	}
	settled := time.Since(answered)
	after, err := used(r.database, services...)
	if err != nil {
		return o, err
	}
	for _, s := range services {
		s.stop()
	}
	all := told
	all.Paid += warmed.Paid
	if err := b.check(ctx, all, sats); err != nil {
		return o, err
	}
	if err := services[0].reconcile(ctx); err != nil {
		return o, err
	}
	o = outcome{TPS: float64(told.Measured) / told.Seconds, P50: told.P50ms, P99: told.P99ms, SettleSeconds: settled.Seconds(), Twice: told.Twice + warmed.Twice,
		ServiceUs: perAction(after[0]-cpu[0], told.Paid), PostgresUs: perAction(after[1]-cpu[1], told.Paid)}
	for _, measured := range told.Each {
		o.Each = append(o.Each, float64(measured)/told.Seconds)
	}
	return o, nil
}

// plans completes a plan, and makes one that precedes it. A service that has just started plans every statement anew on
// each connection: it warms up first, so that this is not counted.
func (r *run) plans(plan load.Plan) (measure, first load.Plan) {
	r.measurements++
	plan.Keys, plan.Items, plan.Sats = r.database.keys, int64(r.Items), sats
	plan.Prefix, plan.Measure = fmt.Sprintf("bench-%d", r.measurements), r.Takes
	first = plan
	first.Prefix, first.Measure = plan.Prefix+"-warm", warm*time.Duration(len(plan.Addresses))
	return plan, first
}

// handled has the load generator zap at the bare handler, and compares the number of actions with what the generator was
// told.
func (r *run) handled(ctx context.Context, plan load.Plan) (o outcome, err error) {
	defer r.handler.stop()
	if err := r.handler.start(ctx); err != nil {
		return o, err
	}
	before, err := r.database.referenceActions(ctx)
	if err != nil {
		return o, err
	}
	plan.Addresses = []string{r.handler.address}
	plan, first := r.plans(plan)
	warmed, err := r.load(ctx, first)
	if err != nil {
		return o, err
	}
	cpu, err := used(r.database, r.handler)
	if err != nil {
		return o, err
	}
	told, err := r.load(ctx, plan)
	if err != nil {
		return o, err
	}
	after, err := used(r.database, r.handler)
	if err != nil {
		return o, err
	}
	now, err := r.database.referenceActions(ctx)
	if err != nil {
		return o, err
	}
	if paid := warmed.Paid + told.Paid; now-before != paid {
		return o, fmt.Errorf("the bare handler: %d zaps were answered as paid, and there are %d", paid, now-before)
	}
	return outcome{TPS: float64(told.Measured) / told.Seconds, P50: told.P50ms, P99: told.P99ms,
		ServiceUs: perAction(after[0]-cpu[0], told.Paid), PostgresUs: perAction(after[1]-cpu[1], told.Paid)}, nil
}

// load runs a plan. If anything was not done, it returns an error.
func (o Options) load(ctx context.Context, plan load.Plan) (load.Result, error) {
	told, err := load.Start(exec.CommandContext(ctx, o.Load[0], o.Load[1:]...), plan)
	if err == nil && !told.OK() {
		err = fmt.Errorf("the load was not borne: %s", told)
	}
	return told, err
}

// used is the processor time used until now, first by processes of the service, then by PostgreSQL.
func used(d *database, services ...*service) (u [2]time.Duration, err error) {
	pids := make([]int, len(services))
	for i, s := range services {
		pids[i] = s.server.PID()
	}
	if u[0], err = cpuTime(pids...); err != nil {
		return u, err
	}
	u[1], err = cpuTime(d.PID())
	return u, err
}

// perAction is the processor time of one action, in microseconds.
func perAction(used time.Duration, actions int64) float64 {
	return float64(used.Microseconds()) / float64(max(actions, 1))
}
