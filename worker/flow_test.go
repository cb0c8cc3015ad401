package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Not parallel: it counts goroutines.
func TestNothingIsLeftRunning(t *testing.T) {
	w := newWorld(t)
	before := goleak.IgnoreCurrent()
	s := w.started()
	pa := w.begin(paidaction.Pessimistic)
	w.begin(paidaction.Pessimistic) // stays open: its stream must end as well
	w.pay(pa)
	w.awaitState(pa.ID, paidaction.Paid)
	s.stop()
	goleak.VerifyNone(t, before)
}

// stopsLate ends a context with the last question that a starting job client asks, once that client has the lead.
type stopsLate struct {
	end      context.CancelFunc
	queues   atomic.Int64
	leads    chan struct{}
	resigned atomic.Bool
}

func (s *stopsLate) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	switch {
	case strings.Contains(data.SQL, "river_queue") && strings.Contains(data.SQL, "INSERT"):
		if s.queues.Add(1) == 2 {
			<-s.leads
			return context.WithValue(ctx, s, "last")
		}
	case strings.Contains(data.SQL, "river_leader") && strings.Contains(data.SQL, "INSERT"):
		return context.WithValue(ctx, s, "leads")
	case strings.Contains(data.SQL, "river_leader") && strings.Contains(data.SQL, "DELETE"):
		return context.WithValue(ctx, s, "resigned")
	}
	return ctx
}

func (s *stopsLate) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	switch ctx.Value(s) {
	case "last":
		s.end()
	case "leads":
		close(s.leads)
	case "resigned":
		s.resigned.Store(data.Err == nil)
	}
}

// A process that is told to stop as its job client starts waits for it as for one that runs: it may have the lead, and gives it up.
// Not parallel: it counts goroutines.
func TestStoppedWhileStarting(t *testing.T) {
	w := newWorld(t)
	before := goleak.IgnoreCurrent()
	ctx, end := context.WithCancel(w.ctx)
	stop := &stopsLate{end: end, leads: make(chan struct{})}
	settings := w.pool.Config()
	settings.ConnConfig.Tracer = stop
	pool, err := pgxpool.NewWithConfig(w.ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	w.config.Pool = pool
	jobs, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := jobs.runJobs(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !stop.resigned.Load() {
		t.Error("it left while it had the lead")
	}
	pool.Close()
	goleak.VerifyNone(t, before)
}

// riverPool is the pool that a worker makes for River beside one with these settings.
func (w *world) riverPool(settings *pgxpool.Config) *pgxpool.Pool {
	w.Helper()
	var err error
	if w.config.Pool, err = pgxpool.NewWithConfig(w.ctx, settings); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(w.config.Pool.Close)
	jobs, err := New(w.config)
	if err != nil {
		w.Fatal(err)
	}
	pool, err := jobs.riverPool(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(pool.Close)
	return pool
}

// The service's pool keeps no notifications, and what is made after it hears of new jobs all the same.
func TestJobsAreHeardOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := w.pool.Config()
	dbconn.BoundPool(settings, time.Minute)
	pool := w.riverPool(settings)
	conn, err := pool.Acquire(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(w.ctx, "LISTEN test; NOTIFY test, 'a job'"); err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(w.ctx)
	end() // it is here already
	if heard, err := conn.Conn().WaitForNotification(over); err != nil || heard.Payload != "a job" {
		t.Errorf("%+v, %v", heard, err)
	}
}

func TestPaidByEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.started()
	for _, method := range []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic} {
		pa := w.begin(method)
		w.pay(pa)
		w.awaitState(pa.ID, paidaction.Paid)
		w.wantOnce(pa.ID)
	}
	if n := pgtest.Deadlocks(t, w.pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func TestExpiredBySweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.OverdueEvery = 20 * time.Millisecond })
	w.started()
	for _, method := range []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic} {
		pa := w.begin(method)
		w.ahead.Add(int64(10*time.Minute + time.Second))
		w.awaitState(pa.ID, paidaction.Failed)
		if inv, _ := w.node.Inspect(pa.Invoice.Hash); inv.State != paidaction.InvoiceCanceled {
			t.Errorf("the invoice is %s", inv.State)
		}
	}
	if n := w.count(`SELECT count(*) FROM donation WHERE state <> 'FAILED'`); n != 0 {
		t.Errorf("%d effects were not undone", n)
	}
}

// No sweep runs here: the job that was stored for the deadline does it.
func TestExpiredByItsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.started()
	pa := w.begin(paidaction.Optimistic)
	w.ahead.Add(int64(10 * time.Minute))
	// Not by the one that looks whether an invoice was issued at all.
	w.count(`WITH due AS (UPDATE river_job SET scheduled_at = scheduled_at - interval '10 minutes' WHERE id = (SELECT max(id) FROM river_job) RETURNING id)
		SELECT count(*) FROM due`)
	w.awaitState(pa.ID, paidaction.Failed)
}

func TestStoppedWhileHeldThenRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.started()
	w.node.FailBefore(simnode.MethodSettle, 1<<30)
	pa := w.begin(paidaction.Pessimistic)
	w.pay(pa)
	w.awaitState(pa.ID, paidaction.Held)
	s.stop()
	w.node.FailBefore(simnode.MethodSettle, 0)
	w.started()
	w.awaitState(pa.ID, paidaction.Paid)
	w.wantOnce(pa.ID)
}

// The process that was at a job is gone, and River takes the job for running until it is rescued, a minute later.
func TestJobsKilledWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.SweepEvery = 50 * time.Millisecond })
	pa := w.begin(paidaction.Pessimistic)
	w.pay(pa)
	if p, err := w.config.Engine.Advance(w.ctx, pa.ID); err != nil || p != paidaction.Moved || w.state(pa.ID) != paidaction.Held {
		t.Fatal(p, err)
	}
	if _, err := w.pool.Exec(w.ctx, `UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now()`); err != nil {
		t.Fatal(err)
	}
	w.started()
	w.awaitState(pa.ID, paidaction.Paid)
	w.wantOnce(pa.ID)
}

// The same without a sweep: what has been running for longer than any job may is rescued. Until then it may be at work.
func TestKilledJobsAreRescued(t *testing.T) {
	t.Parallel()
	if jobTimeout != 30*time.Second || rescueAfter != 60*time.Second {
		t.Errorf("a job may run for %s, and counts as killed after %s: spec 01 §1.3 has other times", jobTimeout, rescueAfter)
	}
	w := newWorld(t)
	pa := w.begin(paidaction.Optimistic)
	// The job of the deadline was due when its process was killed, long before its action could move; that of the watchdog
	// may be at work.
	if _, err := w.pool.Exec(w.ctx, `UPDATE river_job SET state = 'running', attempt = 1, args = args - 'due',
		attempted_at = now() - CASE WHEN id = (SELECT max(id) FROM river_job) THEN interval '62 seconds' ELSE interval '10 seconds' END`); err != nil {
		t.Fatal(err)
	}
	w.started()
	w.await("the killed job worked off", func() bool { return w.count(`SELECT count(*) FROM river_job WHERE state = 'completed'`) == 1 })
	if n := w.count(`SELECT count(*) FROM river_job WHERE state = 'running' AND attempt = 1`); n != 1 {
		t.Errorf("%d jobs that may be at work are left alone, want 1", n)
	}
	w.awaitState(pa.ID, paidaction.Pending)
}

// docs/architecture.md and docs/operations.md tell operators when what was missed is found, and spec 01 §1.3 wants a cooldown of milliseconds.
func TestWhatWasMissedIsLookedForAsOftenAsIsPromised(t *testing.T) {
	t.Parallel()
	want := Settings{OverdueEvery: time.Second, SweepEvery: 30 * time.Second, FoldEvery: time.Second, CheckEvery: 5 * time.Second, Direct: 32}
	if got := (Settings{}).defaults(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if moneyCooldown > 5*time.Millisecond {
		t.Errorf("a job of money may wait for %s", moneyCooldown)
	}
}

func TestDroppedRepeatedReorderedDelayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.CheckEvery = 50 * time.Millisecond })
	w.started()
	random := rand.New(rand.NewPCG(1, 2))
	var all []*paidaction.PaidAction
	for round := range 6 {
		w.node.RepeatEvents(round % 3)
		w.node.HoldEvents()
		var paid []*paidaction.PaidAction
		for i := range 6 {
			method := paidaction.Optimistic
			if i%2 == 0 {
				method = paidaction.Pessimistic
			}
			paid = append(paid, w.begin(method))
		}
		if round == 2 {
			w.node.DropStreams() // with all they had not delivered
		}
		for _, pa := range paid {
			w.pay(pa)
		}
		if round == 4 {
			w.node.SetAway(true)
			w.node.SetAway(false)
		}
		w.node.ReleaseEvents(random.Shuffle)
		all = append(all, paid...)
	}
	for _, pa := range all {
		w.awaitState(pa.ID, paidaction.Paid)
		w.wantOnce(pa.ID)
	}
	if n := pgtest.Deadlocks(t, w.pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func TestHoldInvoicesFromBeforeARestartAreWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.started()
	pa := w.begin(paidaction.Pessimistic)
	if err := w.node.AwaitStreams(w.ctx, 3); err != nil {
		t.Fatal(err)
	}
	s.stop()
	w.node.ForgetCalls()
	w.start(deaf{w.node})
	// Its own stream, and nothing else, can tell of the payment once the catching up is over.
	w.await("the invoice watched again", func() bool { return w.node.Count(simnode.MethodWatchInvoice, pa.Invoice.Hash) == 1 })
	w.await("the first sweeps", func() bool { return w.node.Count(simnode.MethodLookup, pa.Invoice.Hash) >= 2 })
	w.pay(pa)
	w.awaitState(pa.ID, paidaction.Paid)
}

// Also where the payment was held before the restart already: that the node gives it back is told by this stream alone.
func TestHeldPaymentsFromBeforeARestartAreWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pa := w.begin(paidaction.Pessimistic)
	w.pay(pa)
	if _, err := w.config.Engine.Advance(w.ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	w.awaitState(pa.ID, paidaction.Held)
	l := w.listener(w.node)
	ctx, stop := context.WithCancel(w.ctx)
	defer l.holds.wait()
	defer stop()
	if err := l.CheckHolds(ctx); err != nil {
		t.Fatal(err)
	}
	w.await("the invoice watched", func() bool { return w.node.Count(simnode.MethodWatchInvoice, pa.Invoice.Hash) == 1 })
}

func TestStreamsThatHaveSpokenAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.started()
	heard := func() float64 { return gauge(t, w.config.Metrics.holdsHeard.WithLabelValues("sim")) }
	first, second := w.begin(paidaction.Pessimistic), w.begin(paidaction.Pessimistic)
	w.await("both heard of", func() bool { return heard() == 2 })
	w.node.SetAway(true)
	w.await("none heard of", func() bool { return heard() == 0 })
	w.node.SetAway(false)
	w.await("both heard of again", func() bool { return heard() == 2 })
	w.pay(first)
	w.awaitState(first.ID, paidaction.Paid)
	w.await("one heard of", func() bool { return heard() == 1 })
	w.pay(second)
	w.await("none left", func() bool { return heard() == 0 })
}

func TestALostAddEventIsMadeUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.CheckEvery = 20 * time.Millisecond })
	s := w.start(deaf{w.node})
	w.await("the streams", s.listener.Up)
	pa := w.begin(paidaction.Pessimistic)
	w.await("the invoice watched", func() bool { return w.node.Count(simnode.MethodWatchInvoice, pa.Invoice.Hash) == 1 })
	w.pay(pa)
	w.awaitState(pa.ID, paidaction.Paid)
	w.await("the stream given up", func() bool {
		s.listener.holds.mu.Lock()
		defer s.listener.holds.mu.Unlock()
		return len(s.listener.holds.open) == 0
	})
}

// An action that ends without its invoice (it was never issued) must not leave a stream behind.
func TestStreamsOfEndedActionsAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) {
		w.config.Settings.CheckEvery = 20 * time.Millisecond
		w.config.Settings.OverdueEvery = 20 * time.Millisecond
	})
	s := w.started()
	w.node.FailBefore(simnode.MethodOpen, 1)
	_, err := w.config.Engine.Pay(w.ctx, w.request(paidaction.Pessimistic))
	if !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		t.Fatal(err)
	}
	if err := w.node.AwaitStreams(w.ctx, 3); err != nil {
		t.Fatal(err)
	}
	w.ahead.Add(int64(time.Hour))
	w.awaitState(1, paidaction.Failed)
	w.await("the stream dropped", func() bool {
		s.listener.holds.mu.Lock()
		defer s.listener.holds.mu.Unlock()
		return len(s.listener.holds.open) == 0 && w.node.Watched() == 0
	})
}

// Spec 05.23: what cannot be stored is stored later, by who drives the action as by who only hears of it.
func TestAHandlersErrorEndsNoStream(t *testing.T) {
	t.Parallel()
	for name, direct := range map[string]int{"of a process that drives": 0, "of one without workers": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			jobs := &unreliable{Jobs: w.config.Jobs}
			w.config.Jobs, w.config.Settings.Direct = jobs, direct
			w.started()
			w.node.ForgetCalls()
			jobs.failures.Store(3)
			for jobs.failures.Load() > 0 { // the sweep after the start may be faster than the first event
				pa := w.begin(paidaction.Optimistic)
				w.node.FailBefore(simnode.MethodLookup, 1) // what cannot be driven is to have a job
				w.pay(pa)
				w.awaitState(pa.ID, paidaction.Paid)
			}
			if n := w.node.Count(simnode.MethodWatchInvoices, paidaction.Hash{}); n != 0 {
				t.Errorf("the stream was opened again %d times", n)
			}
		})
	}
}

func TestFailingCallsAreMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.started()
	pa := w.begin(paidaction.Pessimistic)
	w.node.FailBefore(simnode.MethodLookup, 4)
	w.pay(pa)
	w.awaitState(pa.ID, paidaction.Paid)
	w.wantOnce(pa.ID)
}

func TestDatabaseConnectionsCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Settings.SweepEvery = 100 * time.Millisecond })
	w.started()
	w.observe()
	for range 3 {
		var pa *paidaction.PaidAction
		w.await("an invoice", func() (ok bool) {
			var err error
			pa, err = w.config.Engine.Pay(w.ctx, w.request(paidaction.Pessimistic))
			return err == nil
		})
		w.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> 'observer'`)
		w.pay(pa)
		w.awaitState(pa.ID, paidaction.Paid)
		w.wantOnce(pa.ID)
	}
}

func TestSideEffectsAreRepeatedUntilDone(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	done := make(chan struct{})
	w := newWorld(t, func(_ *world, c *paidaction.Config) {
		c.Actions = []paidaction.Definition{paidaction.Define(gift{after: func() error {
			if calls.Add(1) < 3 {
				return errors.New("not yet")
			}
			close(done)
			return nil
		}})}
	})
	w.started()
	pa := w.begin(paidaction.Optimistic)
	w.pay(pa)
	w.awaitState(pa.ID, paidaction.Paid)
	select {
	case <-done:
	case <-w.ctx.Done():
		t.Fatalf("%d calls", calls.Load())
	}
}

func TestFoldsAreDrained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	left := []int{3, 2, 0, 1}
	worker.Fold(w.ctx, Fold{"test", func(context.Context, *db.Queries) (n int, err error) {
		n, left = left[0], left[1:]
		return n, nil
	}})
	if len(left) != 1 {
		t.Errorf("%d rounds too few or too many", len(left)-1)
	}
	worker.Fold(w.ctx, Fold{"failing", func(ctx context.Context, q *db.Queries) (int, error) {
		left = append(left, 0)
		return 1, errors.New("no")
	}})
	if len(left) != 2 {
		t.Error("a fold that fails was not left alone")
	}
	var told dto.Metric
	if err := w.config.Metrics.failures.WithLabelValues("folding of failing").Write(&told); err != nil || told.GetCounter().GetValue() != 1 {
		t.Errorf("a fold that failed was told of %v times, %v", told.GetCounter().GetValue(), err)
	}
	rounds := 0
	worker.Fold(w.ctx, Fold{"endless", func(context.Context, *db.Queries) (int, error) {
		if rounds++; rounds > foldRounds {
			return 0, nil
		}
		return 1, nil
	}})
	if rounds != foldRounds {
		t.Errorf("where there is always something new, one turn had %d rounds", rounds)
	}
}

// A chore that fails is reported, and called again at its next turn.
func TestChoresAreDoneAgainAndAgain(t *testing.T) {
	t.Parallel()
	turns := make(chan int)
	w := newWorld(t, func(w *world, _ *paidaction.Config) {
		n := 0
		w.config.Chores = []Chore{{Name: "test", Every: time.Millisecond, Do: func(ctx context.Context) error {
			if _, limited := ctx.Deadline(); !limited {
				t.Error("a chore may run for ever")
			}
			n++
			select {
			case turns <- n:
			case <-ctx.Done():
			}
			return errors.New("no")
		}}}
	})
	w.started()
	for want := 1; want <= 3; want++ {
		if got := <-turns; got != want {
			t.Fatalf("turn %d, want %d", got, want)
		}
	}
}

// A panic of a chore is a failure like any other: the process, which serves payments, goes on.
func TestAChoreThatPanicsHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Metrics = NewMetrics(nil) })
	one, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	one.Turn(t.Context(), Chore{Name: "test", Do: func(context.Context) error { panic("no") }})
	var told dto.Metric
	if err := w.config.Metrics.failures.WithLabelValues("test").Write(&told); err != nil || told.GetCounter().GetValue() != 1 {
		t.Errorf("told of %v times, %v", told.GetCounter().GetValue(), err)
	}
}

// What has used up its time is told of, or nobody would learn that it never comes to its end. What is stopped with the
// process is not.
func TestATurnThatRunsOutOfTimeIsToldOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Metrics = NewMetrics(nil) })
	one, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	slow := Chore{Name: "slow", Limit: time.Millisecond, Do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	one.Turn(t.Context(), slow)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	slow.Limit = time.Hour
	one.Turn(stopped, slow)
	var told dto.Metric
	if err := w.config.Metrics.failures.WithLabelValues("slow").Write(&told); err != nil || told.GetCounter().GetValue() != 1 {
		t.Errorf("told of %v times, %v", told.GetCounter().GetValue(), err)
	}
}

// The same of a job: River gives each some time, and it is put off for so little that no alarm for waiting jobs sees it.
func TestAJobThatRunsOutOfTimeIsToldOf(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, func(w *world, _ *paidaction.Config) { w.config.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	one, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	pa := w.begin(paidaction.Optimistic)
	job := paidaction.Job{Kind: paidaction.JobAdvance, Action: pa.ID}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if again := one.Do(stopped, job, 0); again == 0 || log.Len() > 0 {
		t.Errorf("stopped with the process: again after %v\n%s", again, &log)
	}
	late, end := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer end()
	if again := one.Do(late, job, 0); again == 0 || !strings.Contains(log.String(), "a job failed and is to be done again") {
		t.Errorf("out of time: again after %v\n%s", again, &log)
	}
}

// A turn of a chore has an end, which the chore may have set.
func TestATurnHasAnEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[time.Duration]time.Duration{0: time.Minute, time.Hour: time.Hour, time.Second: time.Second} {
		begun := time.Now()
		one.Turn(t.Context(), Chore{Limit: limit, Do: func(ctx context.Context) error {
			if end, limited := ctx.Deadline(); !limited || end.Before(begun.Add(want)) || end.After(time.Now().Add(want)) {
				t.Errorf("a turn with the limit %v may last for %v", limit, end.Sub(begun))
			}
			return nil
		}})
	}
}

func TestBalancesAreFolded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) {
		w.config.Settings.FoldEvery = 20 * time.Millisecond
		w.config.Folds = []Fold{{"balances", func(ctx context.Context, q *db.Queries) (int, error) { return ledger.Fold(ctx, q, 1) }}}
	})
	w.started()
	for range 3 {
		pa := w.begin(paidaction.Optimistic)
		w.pay(pa)
		w.awaitState(pa.ID, paidaction.Paid)
	}
	w.await("no unfolded balance", func() bool { return w.count(`SELECT count(*) FROM balance_delta`) == 0 })
	if n, err := ledger.Balance(w.ctx, db.New(w.pool), ledger.RewardSats); err != nil || n != 3000 {
		t.Errorf("rewards hold %d msat: %v", n, err)
	}
}

// A pooler that was away as the process started refuses the parameters of River's connections once it is back.
func TestJobsRunBehindAPoolerThatWasAwayAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings, err := pgxpool.ParseConfig(pgbouncer.Start(t, w.pool))
	if err != nil {
		t.Fatal(err)
	}
	var dials atomic.Int32
	dial := settings.ConnConfig.DialFunc
	settings.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) < 3 {
			return nil, errors.New("the pooler is away")
		}
		return dial(ctx, network, address)
	}
	pool := w.riverPool(settings)
	if err := pool.Ping(w.ctx); err != nil {
		t.Error(err)
	}
}
