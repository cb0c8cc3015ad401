// Package worker drives the engine: it runs the jobs that steps leave behind, follows the streams of the nodes, watches
// the blocks, and sweeps up what all of these have missed. It decides nothing; it only says which action to look at.
// Begin with Worker.Run and, for what a node tells, with Listener.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A job may run for jobTimeout. One that has been running for rescueAfter was killed with its process and is rescued.
// rescueAfter must be longer, or jobs would run twice at once (spec 01 §1.3).
const (
	jobTimeout  = 30 * time.Second
	rescueAfter = 60 * time.Second
	// stopTimeout is how long jobs may go on when the process stops; then their contexts end.
	stopTimeout = 5 * time.Second
	// stopLimit is when a job that ignores the end of its context is left behind.
	stopLimit = 10 * time.Second
)

// How many jobs of a sort run at a time in one process.
const (
	settleJobs   = moneyJobs // no fewer: a node that hangs keeps places here, too
	moneyJobs    = 32
	effectJobs   = 16
	attemptJobs  = paidaction.AskingAtOnce + 4 // wallets can block each of the former for half a minute
	deliveryJobs = 128                         // twice as many as may be under way (webhook/share.go): to find no place takes none
)

// Settings bound the work. The zero value of each field stands for its default.
type Settings struct {
	OverdueEvery time.Duration // between sweeps of overdue actions; default 1 second
	SweepEvery   time.Duration // between sweeps of every open action; default 30 seconds
	FoldEvery    time.Duration // between rounds of folding; default 1 second
	CheckEvery   time.Duration // between checks that every open hold invoice has its stream; default 5 seconds
	Direct       int           // actions that each listener drives concurrently; default 32. Negative: none, each event becomes a job
}

func (s Settings) defaults() Settings {
	s.OverdueEvery = cmp.Or(s.OverdueEvery, time.Second)
	s.SweepEvery = cmp.Or(s.SweepEvery, 30*time.Second)
	s.FoldEvery = cmp.Or(s.FoldEvery, time.Second)
	s.CheckEvery = cmp.Or(s.CheckEvery, 5*time.Second)
	s.Direct = cmp.Or(s.Direct, 32)
	return s
}

// Config is what a Worker or a Listener is made of. Pool, Engine and Jobs are required, the rest has defaults.
type Config struct {
	Pool   *pgxpool.Pool
	Engine *paidaction.Engine
	Jobs   paidaction.Jobs // the engine's own
	Folds  []Fold
	Chores []Chore
	// Deliver delivers a message and returns the pause after which to call it again; 0: never. nil: this process
	// delivers none.
	Deliver  func(ctx context.Context, message int64) (again time.Duration, err error)
	Clock    Clock                // default RealClock
	Log      *slog.Logger         // default slog.Default()
	Metrics  *Metrics             // default: registered nowhere
	Traces   trace.TracerProvider // nil: jobs are not traced
	Settings Settings
}

func (c Config) defaults() (Config, error) {
	if c.Pool == nil || c.Engine == nil || c.Jobs == nil {
		return c, errors.New("worker: a database pool, an engine and its job queue are needed")
	}
	if c.Clock == nil {
		c.Clock = RealClock{}
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	c.Settings = c.Settings.defaults()
	return c, nil
}

// failed reports a failed round of a loop, which will be tried again.
func (c Config) failed(ctx context.Context, loop string, err error) {
	if err == nil || stopping(ctx) {
		return
	}
	c.Metrics.failures.WithLabelValues(loop).Inc()
	c.Log.WarnContext(ctx, "failed, and is tried again", "loop", loop, "error", err)
}

// retry calls do until it succeeds or ctx ends.
func (c Config) retry(ctx context.Context, loop string, do func(context.Context) error) error {
	return retry(ctx, c.Clock, func(err error) { c.failed(ctx, loop, err) }, do)
}

// stopping says whether work has ended because the process does. What has used up its own time has failed.
func stopping(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// inTx runs do in one READ COMMITTED transaction. Conflicts in the database are counted; the caller's loop tries again.
func (c Config) inTx(ctx context.Context, do func(*db.Queries, pgx.Tx) error) error {
	err := db.InTransaction(ctx, c.Pool, func(tx *db.Transaction) error { return do(db.New(tx), tx) })
	if code := db.Conflict(err); code != "" {
		c.Metrics.Conflict(code)
	}
	return err
}

// Worker runs jobs, sweeps and folds. Any number of workers may work on one database.
type Worker struct {
	Config
	stopLimit time.Duration
}

// New makes a worker.
func New(c Config) (*Worker, error) {
	c, err := c.defaults()
	if err != nil {
		return nil, err
	}
	return &Worker{c, stopLimit}, nil
}

// Run works until ctx ends, and then returns nil. Failures of the database or a node do not end it: they are reported
// and tried again. When Run returns, all that it started has ended. It waits at most ten seconds for a job that ignores
// its context, and returns its only error if that does not suffice.
func (w *Worker) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.runJobs(ctx) })
	loop := func(interval time.Duration, do func(context.Context)) {
		group.Go(func() error {
			_ = every(ctx, w.Clock, interval, do) // that it was stopped would hide what runJobs says later
			return nil
		})
	}
	loop(w.Settings.OverdueEvery, w.SweepOverdue)
	loop(w.Settings.SweepEvery, w.Sweep)
	for _, f := range w.Folds {
		loop(w.Settings.FoldEvery, func(ctx context.Context) { w.Fold(ctx, f) })
	}
	for _, c := range w.Chores {
		loop(c.Every, func(ctx context.Context) { w.Turn(ctx, c) })
	}
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// riverConnections is the number of connections for River's bookkeeping: fetching, completing, scheduling.
const riverConnections = 6

// riverSettings are for the connections of River's bookkeeping. Commits do not wait for the disk: what a crash of the
// database makes River forget is done again, and every job may be done again. That spares each payment a disk write
// between the node's event and PAID. Generic plans without sequential scans keep PostgreSQL from planning, while there
// are few jobs, to read all of them for the few that are done, and from keeping that plan while their number grows a
// hundredfold.
var riverSettings = map[string]string{"synchronous_commit": "off", "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}

// riverPool is a pool for River's bookkeeping: which job is fetched, which is done. Jobs are never inserted through it,
// but on the main pool, in the transaction that decides on them. It waits until the database answers, or ctx ends.
//
// A pooler in transaction mode refuses the parameters. Setting them by a statement instead would leave them on a server
// connection that serves payments next. So behind such a pooler River's commits are as durable as all others, and its
// plans are PostgreSQL's own choice.
func (w *Worker) riverPool(ctx context.Context) (*pgxpool.Pool, error) {
	settings := w.Pool.Config()
	settings.MaxConns = riverConnections
	dbconn.Listens(settings.ConnConfig) // one of them listens for new jobs
	maps.Copy(settings.ConnConfig.RuntimeParams, riverSettings)
	lasting := context.WithoutCancel(ctx) // jobs finish their bookkeeping while River stops
	pool, err := pgxpool.NewWithConfig(lasting, settings)
	if err != nil {
		return nil, err
	}
	const unsupported = "08P01" // protocol_violation
	var takesNone bool
	// Only an answer tells: who is away at the moment may refuse the parameters later, and no job would ever run.
	err = w.retry(ctx, "jobs", func(ctx context.Context) error {
		err := pool.Ping(ctx)
		refused := (*pgconn.PgError)(nil)
		if takesNone = errors.As(err, &refused) && refused.Code == unsupported; takesNone {
			return nil
		}
		return err
	})
	if err == nil && !takesNone {
		return pool, nil
	}
	pool.Close()
	if err != nil {
		return nil, err
	}
	for parameter := range riverSettings {
		delete(settings.ConnConfig.RuntimeParams, parameter)
	}
	return pgxpool.NewWithConfig(lasting, settings)
}

// runJobs runs River until ctx ends.
func (w *Worker) runJobs(ctx context.Context) error {
	pool, err := w.riverPool(ctx)
	if err != nil {
		return fmt.Errorf("make the pool of the job client: %w", err)
	}
	defer dbconn.Close(pool)
	client, err := river.NewClient(riverpgxv5.New(pool), w.riverConfig())
	if err != nil {
		return fmt.Errorf("make the job client: %w", err)
	}
	// Start asks the database once, which may be away at the moment. It can succeed just as ctx ends: then the client
	// is running, and its pool must outlive it.
	started := false
	err = w.retry(ctx, "jobs", func(ctx context.Context) error {
		err := client.Start(ctx)
		started = err == nil
		return err
	})
	if !started {
		return err
	}
	var loops sync.WaitGroup
	loops.Go(func() { _ = every(ctx, w.Clock, forwardEvery, func(ctx context.Context) { w.bringForward(ctx, pool) }) })
	loops.Go(func() { _ = every(ctx, w.Clock, dueEvery, func(ctx context.Context) { w.makeDue(ctx, pool) }) })
	loops.Wait() // until ctx ends
	limit := time.NewTimer(w.stopLimit)
	defer limit.Stop()
	select {
	case <-client.Stopped():
		return ctx.Err()
	case <-limit.C:
		return errors.New("worker: jobs did not stop in time; what they leave is done again: by a sweep, or once they are rescued")
	}
}

func (w *Worker) riverConfig() *river.Config {
	queues := map[string]river.QueueConfig{
		settleQueue:  {MaxWorkers: settleJobs, FetchCooldown: moneyCooldown, FetchPollInterval: settlePoll},
		moneyQueue:   {MaxWorkers: moneyJobs, FetchCooldown: moneyCooldown, FetchPollInterval: moneyPoll},
		effectQueue:  {MaxWorkers: effectJobs, FetchCooldown: effectCooldown, FetchPollInterval: effectPoll},
		attemptQueue: {MaxWorkers: attemptJobs, FetchCooldown: foreignCooldown, FetchPollInterval: foreignPoll},
	}
	if w.Deliver != nil {
		queues[deliveryQueue] = river.QueueConfig{MaxWorkers: deliveryJobs, FetchCooldown: foreignCooldown, FetchPollInterval: foreignPoll}
	}
	return &river.Config{
		Logger:                      quiet(w.Log),
		Workers:                     w.workers(),
		Queues:                      queues,
		FetchCooldown:               moneyCooldown, // also for jobs that become due
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        rescueAfter,
		MaxAttempts:                 maxAttempts,
		RetryPolicy:                 soonAgain{w.Clock},
		CompletedJobRetentionPeriod: time.Hour,
		SoftStopTimeout:             stopTimeout,
		// River would make indexes anew each night. What breaks that off, as a long backup does, leaves a half-made index
		// behind, which every job is written to for ever; and it asks for indexes that we do without (migration 35).
		ReindexerIndexNames: []string{},
	}
}
