package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"go.opentelemetry.io/otel/trace"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func gauge(t *testing.T, g prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := g.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

// still is a clock that neither moves nor scatters.
type still struct{ RealClock }

func (still) Jitter(d time.Duration) time.Duration { return d }

func TestDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Clock = still{}
	worker, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	pa := w.begin(paidaction.Optimistic)
	job := paidaction.Job{Kind: paidaction.JobAdvance, Action: pa.ID}

	// Too early by the engine's clock, whatever the clock of who schedules says: it comes back when it is time.
	early := job
	const soon = 4 * time.Second // less than the longest pause, and more than a busy machine takes to get there
	early.At = w.config.Engine.Now().Add(soon)
	calls := len(w.node.Calls())
	if again := worker.Do(w.ctx, early, 0); again <= 0 || again > soon {
		t.Errorf("a job that is %s early comes back after %s", soon, again)
	}
	early.At = w.config.Engine.Now().Add(time.Hour)
	if again := worker.Do(w.ctx, early, 0); again != maxPause {
		t.Errorf("a job that is an hour early comes back after %s", again)
	}
	if len(w.node.Calls()) != calls {
		t.Error("a job that is too early asked the node")
	}

	// Failures: ever later, but never later than five seconds, and without end.
	w.node.FailBefore(simnode.MethodLookup, 1<<30)
	for failures, want := range map[int]time.Duration{0: 50 * time.Millisecond, 1: 100 * time.Millisecond, 5: 1600 * time.Millisecond, 7: 5 * time.Second, 1e6: 5 * time.Second} {
		if again := worker.Do(w.ctx, job, failures); again != want {
			t.Errorf("after %d failures the pause is %s, want %s", failures, again, want)
		}
	}
	w.node.FailBefore(simnode.MethodLookup, 0)

	for name, done := range map[string]paidaction.Job{
		"waiting": job, "nobody's": {Kind: paidaction.JobAdvance, Action: 999}, "nobody's effect": {Kind: paidaction.JobAfterPaid, Action: 999},
		"due": {Kind: paidaction.JobAdvance, Action: pa.ID, At: w.config.Engine.Now()},
	} {
		if again := worker.Do(w.ctx, done, 0); again != 0 {
			t.Errorf("%s: comes back after %s", name, again)
		}
	}

	cancelled, cancel := context.WithCancel(w.ctx)
	cancel()
	if again := worker.Do(cancelled, job, 0); again == 0 {
		t.Error("a job that was cut off counts as done")
	}
}

// A job is done for each action that it names, not before it is due, and again until no call is owed (spec 01 §1.3).
func TestAJobIsDoneForEachActionThatItNames(t *testing.T) {
	t.Parallel()
	var paid, failed atomic.Int64
	w := newWorld(t, func(_ *world, c *paidaction.Config) {
		c.Actions = []paidaction.Definition{paidaction.Define(gift{after: func() error { paid.Add(1); return nil }})}
		c.TellFailed = func(context.Context, *paidaction.Tx) error { failed.Add(1); return nil }
	})
	worker, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	does := func(kind paidaction.JobKind, due time.Time, actions ...*paidaction.PaidAction) (again bool) {
		args := jobArgs{Action: actions[0].ID, Due: due}
		for _, pa := range actions[1:] {
			args.With = append(args.With, pa.ID)
		}
		return worker.work(w.ctx, &rivertype.JobRow{}, kind, args) != nil
	}
	atOnce := time.Time{}
	both := []*paidaction.PaidAction{w.begin(paidaction.Pessimistic), w.begin(paidaction.Pessimistic)}
	w.node.FailBefore(simnode.MethodSettle, len(both))
	for _, pa := range both {
		w.pay(pa)
		if !does(paidaction.JobAdvance, atOnce, pa) {
			t.Error("the settle is owed, and the job counts as done")
		}
	}
	before := w.advances()
	if !does(paidaction.JobAdvance, w.config.Engine.Now().Add(time.Hour), both...) || w.advances() != before {
		t.Error("a job was done before it was due")
	}
	if does(paidaction.JobAdvance, atOnce, both...) || w.advances() != before+2 { // each has its own from here on
		t.Errorf("%d jobs for two actions that owe a call", w.advances()-before)
	}
	for _, pa := range both {
		if does(paidaction.JobAdvance, atOnce, pa) || w.state(pa.ID) != paidaction.Paid {
			t.Errorf("action %d is %s", pa.ID, w.state(pa.ID))
		}
	}
	if does(paidaction.JobAfterPaid, atOnce, both...) || paid.Load() != 2 {
		t.Errorf("what follows was done for %d of two payments", paid.Load())
	}
	expired := w.begin(paidaction.Optimistic)
	w.ahead.Add(int64(time.Hour))
	if does(paidaction.JobAdvance, atOnce, expired) || does(paidaction.JobAfterFailed, atOnce, expired) || failed.Load() != 1 {
		t.Errorf("the payer was told %d times", failed.Load())
	}
}

// Whatever is stored is worked off.
func TestEveryKindOfJobIsWorkedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *paidaction.Config) {
		w.config.Deliver = func(context.Context, int64) (time.Duration, error) { return 0, nil }
	})
	w.started()
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []paidaction.JobKind{paidaction.JobAdvance, paidaction.JobAfterPaid, paidaction.JobAfterFailed, paidaction.JobAgain}
	for _, kind := range kinds {
		if err := w.config.Jobs.Insert(w.ctx, tx, paidaction.Job{Kind: kind, Action: 999}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.config.Jobs.Insert(w.ctx, tx, paidaction.Job{Kind: paidaction.JobAdvance, Action: 999, Settles: true}); err != nil {
		t.Fatal(err)
	}
	if err := w.config.Jobs.(*Queue).InsertDeliveries(w.ctx, tx, []int64{1}, make([]time.Time, 1)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.await("all done", func() bool {
		return w.count(`SELECT count(*) FROM river_job WHERE state = 'completed'`) == len(kinds)+2
	})
}

// spec 01 §1.1, 03 §3.3: what is to be settled is settled at once, though as many other payments as are looked at at a time wait for a node that hangs.
func TestASettleWaitsBehindNoHangingNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	goOn := make(chan struct{})
	defer close(goOn)
	var hangs func(paidaction.Hash)
	hangs = func(paidaction.Hash) { w.node.Before(simnode.MethodLookup, hangs); <-goOn }
	w.node.Before(simnode.MethodLookup, hangs)
	jobs := make([]paidaction.Job, moneyJobs+8) // more than are begun
	for i := range jobs {
		jobs[i] = paidaction.Job{Kind: paidaction.JobAdvance, Action: w.begin(paidaction.Optimistic).ID}
	}
	store := func(jobs ...paidaction.Job) {
		t.Helper()
		if err := pgx.BeginFunc(w.ctx, w.pool, func(tx pgx.Tx) error { return w.config.Jobs.Insert(w.ctx, tx, jobs...) }); err != nil {
			t.Fatal(err)
		}
	}
	store(jobs...)
	w.started()
	w.await("as many under way as may be", func() bool {
		return w.count(`SELECT count(*) FROM river_job WHERE queue = 'money' AND state = 'running'`) == moneyJobs
	})
	store(paidaction.Job{Kind: paidaction.JobAdvance, Action: 999, Settles: true})
	w.await("the settle", func() bool {
		return w.count(`SELECT count(*) FROM river_job WHERE queue = 'settles' AND state = 'completed' AND args = '{"action": 999}'`) == 1
	})
}

// Deliveries wait in their own queue, stored by the transaction that decided them. One is repeated when it says so, and
// until it could be looked at: soon, however often it was tried before, and for half a minute each time (spec 01 §1.3).
// One that is not due waits.
func TestDeliveriesAreRepeatedUntilTheyAreOver(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	over := make(chan int64, 10)
	w := newWorld(t, func(w *world, _ *paidaction.Config) {
		w.config.Deliver = func(ctx context.Context, message int64) (time.Duration, error) {
			if end, limited := ctx.Deadline(); !limited || time.Until(end) > 30*time.Second {
				t.Errorf("it may last until %v", end)
			}
			switch calls.Add(1) {
			case 1:
				panic("broken")
			case 2:
				return 0, errors.New("away")
			case 3:
				return time.Millisecond, nil
			}
			over <- message
			return 0, nil
		}
	})
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.config.Jobs.(*Queue).InsertDeliveries(w.ctx, tx, []int64{7, 8}, []time.Time{{}, time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	const ours = `SELECT count(*) FROM river_job WHERE kind = 'delivery'`
	if n := w.count(ours); n != 0 {
		t.Errorf("%d are seen before the commit", n)
	}
	if err := tx.Commit(w.ctx); err != nil {
		t.Fatal(err)
	}
	if n := w.count(ours+` AND queue = 'deliveries' AND max_attempts = $1 AND args = '{"message": 7}' AND unique_key IS NULL`, maxAttempts); n != 1 {
		t.Errorf("%d are stored as they should be", n)
	}
	if n := w.count(ours + ` AND args = '{"message": 8}' AND state = 'scheduled' AND scheduled_at > now() + interval '50 minutes'`); n != 1 {
		t.Errorf("%d are due later", n)
	}
	w.count(`WITH tried AS (UPDATE river_job SET attempt = 10, errors = array_fill('{}'::jsonb, ARRAY[10]) RETURNING id) SELECT count(*) FROM tried`)
	w.started()
	w.await("the delivery", func() bool { return len(over) == 1 })
	if message := <-over; message != 7 {
		t.Errorf("message %d was delivered", message)
	}
	w.await("the end of the job", func() bool { return w.count(ours+` AND state = 'completed'`) == 1 })
	if n := calls.Load(); n != 4 {
		t.Errorf("delivered %d times", n)
	}
}

// A job that ignores the end of its context is left behind, and whoever runs the process is told so.
func TestAJobThatDoesNotStopIsLeftBehind(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(w *world, _ *paidaction.Config) {
		w.config.Deliver = func(context.Context, int64) (time.Duration, error) {
			close(begun)
			<-end
			return 0, nil
		}
	})
	defer close(end)
	if err := pgx.BeginFunc(w.ctx, w.pool, func(tx pgx.Tx) error {
		return w.config.Jobs.(*Queue).InsertDeliveries(w.ctx, tx, []int64{7}, make([]time.Time, 1))
	}); err != nil {
		t.Fatal(err)
	}
	worker, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	worker.stopLimit = time.Millisecond
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	over := make(chan error, 1)
	go func() { over <- worker.Run(ctx) }()
	select {
	case <-begun:
	case <-w.ctx.Done():
		t.Fatal("it is not begun")
	}
	stop()
	if err := <-over; err == nil || !strings.Contains(err.Error(), "jobs did not stop in time") {
		t.Errorf("it says %v", err)
	}
}

// While as many deliveries are under way as may be, tries of others find a worker: who is refused a place waits for no
// place (webhook/share.go).
func TestADeliveryIsTriedBesideAllThatAreUnderWay(t *testing.T) {
	t.Parallel()
	const places = 64
	tried := make(chan struct{})
	w := newWorld(t, func(w *world, _ *paidaction.Config) {
		w.config.Deliver = func(ctx context.Context, message int64) (time.Duration, error) {
			if message <= places {
				<-ctx.Done()
			} else {
				close(tried)
			}
			return 0, nil
		}
	})
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	messages := make([]int64, places+1)
	for i := range messages {
		messages[i] = int64(i + 1)
	}
	if err := w.config.Jobs.(*Queue).InsertDeliveries(w.ctx, tx, messages, make([]time.Time, len(messages))); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.started()
	limit := time.NewTimer(jobTimeout / 2)
	defer limit.Stop()
	select {
	case <-tried:
	case <-limit.C:
		t.Error("it waits for one of those under way to end")
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	err = w.config.Jobs.Insert(w.ctx, tx, paidaction.Job{Kind: paidaction.JobAdvance, Action: 7}, paidaction.Job{Kind: paidaction.JobAdvance, Action: 7},
		paidaction.Job{Kind: paidaction.JobAfterPaid, Action: 7}, paidaction.Job{Kind: paidaction.JobAdvance, Action: 8, At: at})
	if err != nil {
		t.Fatal(err)
	}
	if n := w.count(`SELECT count(*) FROM river_job`); n != 0 {
		t.Errorf("%d jobs are seen before the commit", n)
	}
	if err := w.config.Jobs.Insert(w.ctx, tx, paidaction.Job{Kind: "nonsense"}); err == nil {
		t.Error("an unknown kind was stored")
	}
	if err := w.config.Jobs.Insert(w.ctx, tx); err != nil {
		t.Errorf("no jobs: %v", err)
	}
	if err := tx.Commit(w.ctx); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM river_job WHERE queue = 'money' AND kind = 'advance' AND state = 'available' AND args = '{"action": 7}'`: 2,
		`SELECT count(*) FROM river_job WHERE queue = 'effects' AND kind = 'after_paid' AND state = 'available'`:                       1,
		`SELECT count(*) FROM river_job WHERE queue = 'money' AND state = 'scheduled' AND (args->>'due')::timestamptz = scheduled_at`:  1,
		`SELECT count(*) FROM river_job WHERE unique_key IS NOT NULL`:                                                                  0,
	} {
		if n := w.count(query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}

// What is stored without River's help is what River would have stored: of each kind, due at once and later, inside of a trace and outside.
func TestAJobIsARowOfRivers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own, err := river.NewClient(riverpgxv5.New(nil), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	inTrace := trace.ContextWithSpanContext(w.ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	same := func(name string, ctx context.Context, job paidaction.Job, args river.JobArgs, queue string) {
		tx, err := w.pool.Begin(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(w.ctx) }()
		if err := w.config.Jobs.Insert(ctx, tx, job); err != nil {
			t.Fatal(name, err)
		}
		opts := &river.InsertOpts{Queue: queue, MaxAttempts: maxAttempts, ScheduledAt: job.At, Metadata: traced(ctx)}
		if _, err := own.InsertTx(w.ctx, tx, args, opts); err != nil {
			t.Fatal(name, err)
		}
		rows, err := tx.Query(w.ctx, `SELECT (to_jsonb(j) - '{id,created_at}'::text[] - CASE WHEN state = 'available' THEN 'scheduled_at' ELSE 'id' END)::text,
			abs(extract(epoch FROM created_at - now())) < 60 AND abs(extract(epoch FROM scheduled_at - coalesce($1, now()))) < 60 FROM river_job j ORDER BY id`,
			dueOf(job))
		if err != nil {
			t.Fatal(err)
		}
		type row struct {
			Text  string
			Timed bool
		}
		both, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		if err != nil || len(both) != 2 {
			t.Fatal(name, both, err)
		}
		if both[0] != both[1] || !both[0].Timed {
			t.Errorf("%s:\nours:    %v\nRiver's: %v", name, both[0], both[1])
		}
	}
	for in, ctx := range map[string]context.Context{"": w.ctx, ", in a trace": inTrace} {
		for when, at := range map[string]time.Time{"at once": {}, "later": later} {
			args := jobArgs{Action: 7, With: []int64{8, 9}, Due: at}
			for kind, of := range map[paidaction.JobKind]river.JobArgs{paidaction.JobAfterPaid: afterPaidArgs{args}, paidaction.JobAfterFailed: afterFailedArgs{args}} {
				same(string(kind)+" "+when+in, ctx, paidaction.Job{Kind: kind, Action: 7, With: args.With, At: at}, of, effectQueue)
			}
			same("again "+when+in, ctx, paidaction.Job{Kind: paidaction.JobAgain, Action: 7, With: args.With, At: at}, againArgs{args}, attemptQueue)
			same("advance "+when+in, ctx, paidaction.Job{Kind: paidaction.JobAdvance, Action: 7, With: args.With, At: at}, advanceArgs{args}, moneyQueue)
		}
	}
}

func dueOf(job paidaction.Job) *time.Time {
	if job.At.IsZero() {
		return nil
	}
	return &job.At
}

// River is to make no index anew that is not there: it would warn each night that migrations were missing.
func TestIndexesThatRiverLooksAfterAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker, err := New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, index := range worker.riverConfig().WithDefaults().ReindexerIndexNames {
		if n := w.count(`SELECT count(*) FROM pg_indexes WHERE indexname = '` + index + `'`); n == 0 {
			t.Errorf("there is no %s", index)
		}
	}
}
