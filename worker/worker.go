// Package worker drives the engine: it works off the jobs that steps leave behind, follows the streams of the nodes, watches
// the blocks, and sweeps up what all of these have missed. It decides nothing; it only says which action to look at.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

// A job may run for jobTimeout; one that has been running for rescueAfter was killed with its process. The second must be
// longer, or jobs would run twice at once (spec 01 §1.3).
const (
	jobTimeout  = 30 * time.Second
	rescueAfter = 60 * time.Second
	// stopTimeout is how long jobs may go on when the process stops; then their contexts end.
	stopTimeout = 5 * time.Second
	// stopLimit is when a job that does not heed its context is left behind.
	stopLimit = 10 * time.Second
	// choreTimeout is how long one turn of a chore may take unless it says otherwise; what is left is done at the next.
	choreTimeout = time.Minute
)

// Settings bound the work. The zero value of each field stands for its default.
type Settings struct {
	MoneyJobs    int           // side by side in this process; default 32
	EffectJobs   int           // the same for side effects; default 16
	Attempts     int           // the same for next attempts, of which one receiver's wallets can keep each for half a minute; default 16
	Deliveries   int           // the same for messages to servers of others, of which one owner gets a part; default 64
	OverdueEvery time.Duration // between sweeps of what is past its deadline; default 1 second
	SweepEvery   time.Duration // between sweeps of every open action; default 30 seconds
	FoldEvery    time.Duration // between rounds of folding; default 1 second
	CheckEvery   time.Duration // between checks that every open hold invoice has its stream; default 5 seconds
	Direct       int           // actions that each listener drives side by side; default 32. Negative: none, each event becomes a job
}

func (s Settings) defaults() Settings {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&s.OverdueEvery, time.Second)
	set(&s.SweepEvery, 30*time.Second)
	set(&s.FoldEvery, time.Second)
	set(&s.CheckEvery, 5*time.Second)
	if s.MoneyJobs <= 0 {
		s.MoneyJobs = 32
	}
	if s.Direct == 0 {
		s.Direct = 32
	}
	if s.EffectJobs <= 0 {
		s.EffectJobs = 16
	}
	if s.Attempts <= 0 {
		s.Attempts = 16
	}
	if s.Deliveries <= 0 {
		s.Deliveries = 64
	}
	return s
}

// Fold adds what has been appended to the rows it belongs to, inside the transaction of q, and says how many rows it touched:
// 0 when nothing was left.
type Fold struct {
	Name string
	Fold func(ctx context.Context, q *db.Queries) (rows int, err error)
}

// Chore is work that comes by the clock: what is due each day or hour, and what has grown old. Every worker calls it, so Do finds in
// the database what is left to be done, and does nothing twice.
type Chore struct {
	Name  string
	Every time.Duration
	Limit time.Duration // of one turn; default 1 minute
	Do    func(ctx context.Context) error
}

// Config is what a Worker or a Listener is made of. Pool, Engine and Jobs are needed, the rest has defaults.
type Config struct {
	Pool   *pgxpool.Pool
	Engine *paidaction.Engine
	Jobs   paidaction.Jobs // the engine's own
	Folds  []Fold
	Chores []Chore
	// Deliver delivers a message, and says after which pause it must be called again; 0: no more. nil: this process delivers none.
	Deliver  func(ctx context.Context, message int64) (again time.Duration, err error)
	Clock    Clock                // default RealClock
	Log      *slog.Logger         // default slog.Default()
	Metrics  *Metrics             // default: unregistered ones
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
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	c.Settings = c.Settings.defaults()
	return c, nil
}

// failed reports a round of a loop that failed and will be tried again.
func (c Config) failed(ctx context.Context, loop string, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	c.Metrics.failures.WithLabelValues(loop).Inc()
	c.Log.WarnContext(ctx, "failed, and is tried again", "loop", loop, "error", err)
}

// inTx runs do in one READ COMMITTED transaction. What the database breaks is counted; the caller's loop tries again.
func (c Config) inTx(ctx context.Context, do func(*db.Queries, pgx.Tx) error) error {
	err := db.InTransaction(ctx, c.Pool, func(tx *db.Transaction) error { return do(db.New(tx), tx) })
	if code := db.Conflict(err); code != "" {
		c.Metrics.Conflict(code)
	}
	return err
}

// Worker works off jobs, sweeps and folds. Any number of them may work on one database.
type Worker struct{ Config }

// New makes a worker.
func New(c Config) (*Worker, error) {
	c, err := c.defaults()
	if err != nil {
		return nil, err
	}
	return &Worker{c}, nil
}

// Run works until ctx ends, and returns nil then. Failures of the database or a node end nothing: they are reported and tried
// again. When Run returns, all that it started has ended; a job that does not heed its context is waited for at most ten
// seconds, which is the one error Run returns.
func (w *Worker) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.runJobs(ctx) })
	loop := func(interval time.Duration, do func(context.Context)) {
		group.Go(func() error { return every(ctx, w.Clock, interval, do) })
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

// riverConnections are for River's own books: fetching, completing, scheduling.
const riverConnections = 6

// riverSettings are those of the connections for River's own books. Commits do not wait for the disk: what a crash of the database makes River forget is
// done again, and every job may be done again. That spares each payment a write between the node's event and PAID. And no plan reads all jobs there
// are, twice for the few that are done: such plans are made while there are few, and kept while their number grows a hundredfold.
var riverSettings = map[string]string{"synchronous_commit": "off", "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off"}

// riverPool is a pool for River's own books: which job is fetched, which is done. Jobs are never inserted here but in the transaction that decides them,
// on the main pool.
//
// A pooler in transaction mode refuses the parameters. Said by a statement instead, the settings would stay on a connection of the server
// that serves payments next: there River's commits are as durable as all others, and its plans what PostgreSQL makes of them.
func (w *Worker) riverPool(ctx context.Context) (*pgxpool.Pool, error) {
	settings := w.Pool.Config()
	settings.MaxConns = riverConnections
	dbconn.Listens(settings.ConnConfig) // one of them hears of new jobs
	maps.Copy(settings.ConnConfig.RuntimeParams, riverSettings)
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	const unsupported = "08P01" // protocol_violation
	refused := (*pgconn.PgError)(nil)
	if err := pool.Ping(ctx); !errors.As(err, &refused) || refused.Code != unsupported {
		return pool, nil
	}
	pool.Close()
	for parameter := range riverSettings {
		delete(settings.ConnConfig.RuntimeParams, parameter)
	}
	return pgxpool.NewWithConfig(ctx, settings)
}

// runJobs runs River until ctx ends.
func (w *Worker) runJobs(ctx context.Context) error {
	pool, err := w.riverPool(context.WithoutCancel(ctx)) // jobs finish their books while River stops
	if err != nil {
		return fmt.Errorf("make the pool of the job client: %w", err)
	}
	defer pool.Close()
	queues := map[string]river.QueueConfig{
		moneyQueue:   {MaxWorkers: w.Settings.MoneyJobs, FetchCooldown: moneyCooldown, FetchPollInterval: moneyPoll},
		effectQueue:  {MaxWorkers: w.Settings.EffectJobs, FetchCooldown: effectCooldown, FetchPollInterval: effectPoll},
		attemptQueue: {MaxWorkers: w.Settings.Attempts, FetchCooldown: foreignCooldown, FetchPollInterval: foreignPoll},
	}
	if w.Deliver != nil {
		queues[deliveryQueue] = river.QueueConfig{MaxWorkers: w.Settings.Deliveries, FetchCooldown: foreignCooldown, FetchPollInterval: foreignPoll}
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger:                      quiet(w.Log),
		Workers:                     w.workers(),
		Queues:                      queues,
		FetchCooldown:               moneyCooldown, // also for the jobs whose time has come
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        rescueAfter,
		MaxAttempts:                 maxAttempts,
		RetryPolicy:                 soonAgain{w.Clock},
		CompletedJobRetentionPeriod: time.Hour,
		SoftStopTimeout:             stopTimeout,
	})
	if err != nil {
		return fmt.Errorf("make the job client: %w", err)
	}
	// The start looks at the database once, which may be away at the moment. It can succeed just as ctx ends: then the client runs, and its
	// pool must outlive it all the same.
	started := false
	err = retry(ctx, w.Clock, func(err error) { w.failed(ctx, "jobs", err) }, func(ctx context.Context) error {
		err := client.Start(ctx)
		started = err == nil
		return err
	})
	if !started {
		return err
	}
	_ = every(ctx, w.Clock, dueEvery, func(ctx context.Context) { w.makeDue(ctx, pool) }) // until ctx ends
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-client.Stopped():
		return ctx.Err()
	case <-limit.C:
		return errors.New("worker: jobs did not stop in time; the sweep of another process takes their actions on")
	}
}
