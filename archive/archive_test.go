package archive_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/archive"
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// Every row of an old range is in its two tables in the schema archive, and nowhere else; the rows of later actions
// stay where they were. Money moves on.
func TestRangesAreArchivedAsAWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.live()
	w.zap(2 * few)
	w.age()
	w.zap(1)
	before := w.rows()
	result := w.archive()
	if len(result.Archived) < 3 || result.Kept == nil || result.Archived[0].First != 1 || result.Kept.First != w.archivedTo()+1 {
		t.Fatalf("%+v, kept %+v", result.Archived, result.Kept)
	}
	if w.rows() != before {
		t.Error("rows have changed, or are in two places or none")
	}
	if n := w.Count(`SELECT (SELECT count(*) FROM action_history WHERE action_id <= archived_to()) + (SELECT count(*) FROM posting WHERE action_id <= archived_to())`); n != 0 {
		t.Errorf("%d rows of archived actions are still in the tables", n)
	}
	for _, a := range result.Archived {
		tables := a.Tables()
		if steps, postings := w.Count(`SELECT count(*) FROM `+tables[0]), w.Count(`SELECT count(*) FROM `+tables[1]); steps != a.Steps || postings != a.Postings || steps < few {
			t.Errorf("%d to %d: %d steps and %d postings, told are %d and %d", a.First, a.Last, steps, postings, a.Steps, a.Postings)
		}
	}
	w.wantSound()
	w.zap(2 * few)
	w.wantSound()
	if again := w.archive(); len(again.Archived) != 0 || again.Kept == nil {
		t.Errorf("a second time: %+v", again)
	}
	w.age()
	if later := w.archive(); len(later.Archived) == 0 {
		t.Errorf("nothing is archived later: %+v", later.Kept)
	}
	w.wantSound()
	for _, a := range result.Archived {
		w.exec(`TRUNCATE ` + strings.Join(a.Tables(), ", ")) // nothing needs what is in them
		w.exec(`DROP TABLE ` + strings.Join(a.Tables(), ", "))
	}
	w.zap(few)
	w.wantSound()
}

// A dry run says what would be done, and does nothing.
func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(3 * few)
	w.age()
	before := w.rows()
	config := w.config()
	config.DryRun = true
	would, err := archive.Run(w.Ctx, config)
	if err != nil || len(would.Archived) != 3 || w.rows() != before || w.archivedTo() != 0 {
		t.Fatalf("%+v, %v, archived to %d", would, err, w.archivedTo())
	}
	if did := w.archive(); len(did.Archived) != len(would.Archived) {
		t.Errorf("%d ranges would be archived, and %d are", len(would.Archived), len(did.Archived))
	}
}

// cut counts the statements of a connection pool, and breaks the connection before the given one.
type cut struct {
	mu sync.Mutex
	at int // 0: never
	n  int
}

func (c *cut) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n != c.at {
		return ctx
	}
	broken, stop := context.WithCancel(ctx)
	stop()
	return broken
}

func (c *cut) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A crash before any of the statements leaves the whole range where it was; the next run archives it.
func TestACrashLeavesAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.live()
	w.zap(few)
	w.age()
	before, ranges := w.rows(), w.Count(`SELECT count(*) FROM action_range`)
	crash := &cut{}
	settings := w.Pool.Config()
	settings.ConnConfig.Tracer, settings.MaxConns = crash, 1
	config := w.config()
	crashes, taken := 0, int64(0)
	for at := 1; ; at++ {
		pool, err := pgxpool.NewWithConfig(w.Ctx, settings.Copy())
		if err != nil {
			t.Fatal(err)
		}
		crash.mu.Lock()
		crash.at, crash.n = at, 0
		crash.mu.Unlock()
		config.Pool = pool
		result, err := archive.Run(w.Ctx, config)
		pool.Close()
		if err == nil {
			break
		}
		crashes++
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("before statement %d: %v", at, err)
		}
		if taken += int64(len(result.Archived)); w.Count(`SELECT count(*) FROM action_range WHERE archived_at IS NOT NULL`) != taken {
			t.Errorf("before statement %d: %d ranges were said to be archived, and they are %d", at, taken, w.Count(`SELECT count(*) FROM action_range WHERE archived_at IS NOT NULL`))
		}
		if w.rows() != before || w.Count(`SELECT count(*) FROM action_range`) != ranges {
			t.Fatalf("before statement %d: rows were lost, or are in two places", at)
		}
		w.WantConserved()
	}
	if crashes < 20 || w.archivedTo() == 0 {
		t.Errorf("%d crashes, archived to %d: does this test still break what it should?", crashes, w.archivedTo())
	}
	w.wantSound()
}

// Payments go on while ranges are archived and made: none fails, and reconcile finds nothing wrong, neither meanwhile
// nor afterwards.
func TestPaymentsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(4 * few)
	w.age()
	var payers []int64
	for _, name := range []string{"anna", "bert", "carl", "dora"} {
		payers = append(payers, w.User(name, 1000*sat, 0))
	}
	// makeMore makes ranges for all the actions that they can pay for, and more each time.
	makeMore := func(times int64) {
		if _, err := archive.MakeRanges(w.Ctx, w.Pool, times*10_000, time.Millisecond); err != nil && !errors.Is(err, archive.ErrBusy) {
			t.Error(err)
		}
	}
	makeMore(1)
	var all sync.WaitGroup
	done := make(chan struct{})
	var going atomic.Int64 // payers who have paid five times since the start
	for _, payer := range payers {
		all.Go(func() {
			for paid := 0; ; paid++ {
				if paid == 5 {
					going.Add(1)
				}
				select {
				case <-done:
					return
				default:
				}
				if _, err := w.Try(payer, community.KindZap, community.ZapArgs{Item: w.post, Sats: 1}, paidaction.FeeCredit, ""); err != nil && paid < 90 {
					t.Errorf("payment %d of user %d: %v", paid, payer, err)
				}
			}
		})
	}
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: w.Nodes, Now: w.Clock.Now})
			if err != nil {
				t.Errorf("reconcile: %v", err)
				return
			}
			for _, i := range report.Invariants {
				if i.Broken > 0 {
					t.Errorf("reconcile meanwhile: invariant %d: %v", i.ID, i.Breaks)
				}
			}
		}
	})
	archived := 0
	for (archived < 4 || going.Load() < int64(len(payers))) && !t.Failed() {
		result, err := archive.Run(w.Ctx, w.config())
		if err != nil && !errors.Is(err, archive.ErrBusy) {
			t.Error(err)
		}
		archived += len(result.Archived)
		makeMore(int64(archived + 1))
	}
	close(done)
	all.Wait()
	if w.archivedTo() < 4*few {
		t.Errorf("archived to %d", w.archivedTo())
	}
	w.wantSound()
	if w.Faults.Conflicts != 0 {
		t.Errorf("%d conflicts", w.Faults.Conflicts)
	}
}

// If two processes archive at once, each range is archived by one of them.
func TestTwoArchiveAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(6 * few)
	w.age()
	var mu sync.Mutex
	var firsts []int64
	for len(firsts) < 6 && !t.Failed() {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				result, err := archive.Run(w.Ctx, w.config())
				if err != nil && !errors.Is(err, archive.ErrOther) && !errors.Is(err, archive.ErrBusy) {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, a := range result.Archived {
					firsts = append(firsts, a.First)
				}
			})
		}
		both.Wait()
	}
	slices.Sort(firsts)
	if want := []int64{1, 6, 11, 16, 21, 26}; !slices.Equal(firsts, want) {
		t.Errorf("archived are the ranges that begin with %v, want %v", firsts, want)
	}
	w.wantSound()
}

// before calls first before the first statement with these words is sent.
type before struct {
	words string
	once  sync.Once
	first func()
}

func (b *before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, b.words) {
		b.once.Do(b.first)
	}
	return ctx
}

func (*before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A process that has checked a range leaves it alone if another one archives it first.
func TestARangeIsArchivedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(2 * few)
	w.age()
	result, err := w.meanwhile("hold_action_ranges", func() {
		if other := w.archive(); len(other.Archived) != 2 {
			t.Errorf("the other one: %+v", other)
		}
	})
	if !errors.Is(err, archive.ErrOther) || len(result.Archived) != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	w.wantSound()
}

// reader begins a transaction that reads the postings: until it ends, nobody can detach one of their partitions.
func (w *world) reader() (end func()) {
	w.Helper()
	tx, err := w.Pool.Begin(w.Ctx)
	if err == nil {
		_, err = tx.Exec(w.Ctx, `SELECT FROM posting`)
	}
	if err != nil {
		w.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(w.Ctx); err != nil {
			w.Error(err)
		}
	}
}

// A long reader is not disturbed: nothing is archived until it is done. And payments do not wait long because of that.
func TestAReaderIsNotDisturbed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(few)
	w.age()
	before, end := w.rows(), w.reader()
	done := make(chan struct{})
	var pays sync.WaitGroup
	pays.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := w.Pool.Exec(w.Ctx, `SET LOCAL lock_timeout = '3s'; LOCK TABLE paid_action IN ROW EXCLUSIVE MODE; LOCK TABLE ONLY posting IN ROW EXCLUSIVE MODE`); err != nil {
				t.Errorf("a payment waits for too long: %v", err)
				return
			}
		}
	})
	if result, err := archive.Run(w.Ctx, w.config()); !errors.Is(err, archive.ErrBusy) || len(result.Archived) != 0 || w.rows() != before {
		t.Errorf("%+v, %v", result, err)
	}
	close(done)
	pays.Wait()
	end()
	if result := w.archive(); len(result.Archived) != 1 {
		t.Errorf("%+v", result.Kept)
	}
	w.wantSound()
}

// triedOnce calls then after the partitions could not be detached for the first time.
type triedOnce struct {
	once sync.Once
	then func()
}

type queryKey struct{}

func (o *triedOnce) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, queryKey{}, data.SQL)
}

func (o *triedOnce) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if sql, _ := ctx.Value(queryKey{}).(string); data.Err != nil && strings.Contains(sql, "detach_action_range") {
		o.once.Do(o.then)
	}
}

// Archiving is tried again until the reader is done.
func TestALockIsTriedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(few)
	w.age()
	again := &triedOnce{then: w.reader()}
	settings := w.Pool.Config()
	settings.ConnConfig.Tracer = again
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	config := w.config()
	config.Pool = pool
	if result, err := archive.Run(w.Ctx, config); err != nil || len(result.Archived) != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	w.wantSound()
}

// Questions about an archived action are answered as before: whether its receiver's proof of payment is good, and what
// it lost us. Its operator is told that the rest is archived.
func TestArchivedActionsAreAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flow, fact string }{
		{"WRAPPED", "INCOMING_LOST"}, {"WRAPPED", "WRITTEN_OFF"}, // after the receiver had been paid
		{"PESSIMISTIC", "WRITTEN_OFF"},
	} {
		t.Run(c.flow+" "+c.fact, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			hash := make([]byte, 32)
			w.exec(`ALTER TABLE paid_action DISABLE TRIGGER USER`) // it is taken to have gone the way that ends so
			w.exec(`INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args, result) VALUES ('RECEIVE', $2, 'ZERO_COST', 'PAID', 0, $1, $1, '{}', '{}')`, w.Clock.Now(), c.flow)
			w.exec(`ALTER TABLE paid_action ENABLE TRIGGER USER`)
			lost := w.Count(`SELECT max(id) FROM paid_action`)
			w.exec(`INSERT INTO invoice (action_id, node, payment_hash, hold, amount_msat, memo, cltv_delta, expires_at) VALUES ($1, 'sim', $2, true, 1, '', 80, $3)`, lost, hash, w.Clock.Now())
			w.exec(`INSERT INTO action_history (action_id, to_state, fact, at) VALUES ($1, 'PAID', $3::text, $2)`, lost, w.Clock.Now(), c.fact)
			w.exec(`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES ($1, 8, 2, 7, 'lost', $2), ($1, 2, 8, 7, 'found', $2)`, lost, w.Clock.Now())
			w.zap(few)
			w.age()
			ask := func() (settled bool, losses []db.LossesRow, shown *operator.WholeAction) {
				t.Helper()
				q := db.New(w.Pool)
				received, err := q.ReceivedByHash(w.Ctx, hash)
				if err == nil {
					losses, err = q.Losses(w.Ctx, 10)
				}
				if err == nil {
					shown, err = operator.ReadAction(w.Ctx, q, lost)
				}
				if err != nil {
					t.Fatal(err)
				}
				return received.Settled, losses, shown
			}
			settled, losses, shown := ask()
			if settled || len(losses) != 1 || losses[0].Msat != 7 || shown.Archived || len(shown.History) != 1 {
				t.Fatalf("before: settled %t, losses %v, %+v", settled, losses, shown)
			}
			// This step is not in the machine, which reconcile would find.
			if err := take(w); err != nil {
				t.Fatal(err)
			}
			settled, losses, shown = ask()
			if settled || len(losses) != 1 || *losses[0].ActionID != lost || losses[0].Msat != 7 || !shown.Archived || len(shown.History) != 0 {
				t.Errorf("settled %t, losses %v, %+v", settled, losses, shown)
			}
			w.WantConserved()
		})
	}
}

// Whatever is written to an archived action is kept, counts, and raises an alarm: nothing more is archived.
func TestNothingIsWrittenToTheArchivedUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(2 * few)
	w.age()
	if err := take(w); err != nil {
		t.Fatal(err)
	}
	w.exec(`INSERT INTO action_history (action_id, to_state, fact, at) VALUES (4, 'PAID', 'INVOICE_SETTLED', '2026-01-01')`)
	if result := w.archive(); len(result.Archived) != 0 || !strings.Contains(result.Kept.Why, "rows of action 4 are outside") {
		t.Errorf("%+v", result)
	}
	w.exec(`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (3, 1, 5, 7, 'late', '2026-01-01'), (3, 5, 1, 7, 'back', '2026-01-01')`)
	w.WantConserved()
	if result := w.archive(); len(result.Archived) != 0 || !strings.Contains(result.Kept.Why, "rows of action 3 are outside") {
		t.Errorf("%+v", result)
	}
	report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: w.Nodes, Now: w.Clock.Now})
	if err != nil || report.OK || len(report.Invariants[0].Breaks) != 1 || report.Invariants[0].Breaks[0].Kind != "rest" {
		t.Errorf("%+v, %v", report, err)
	}
}

// A range is looked through and summed up in its own time, although the pool gives others less.
func TestALongSumIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(2 * few)
	w.age()
	settings := w.Pool.Config()
	dbconn.BoundPool(settings, time.Nanosecond)
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(w.Ctx, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the pool waits: %v", err)
	}
	c := w.config()
	c.Pool = pool
	w.unlessBusy(func() error {
		_, err := archive.Run(w.Ctx, c)
		return err
	})
	if w.archivedTo() == 0 {
		t.Error("nothing is archived")
	}
	w.wantSound()
}

// What an operator gives back for an archived action, as docs/reconcile.md says, is no break and is in nobody's way. Its
// postings can never be taken back. One with another reason is told until it has such a one.
func TestTheArchivedIsGivenBackByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(3 * few)
	w.age()
	if err := take(w); err != nil {
		t.Fatal(err)
	}
	w.exec(`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (3, 3, $1 * 16 + 1, 7, 'given back by hand', $2)`, w.payer, w.Clock.Now())
	w.exec(`UPDATE account SET balance = balance - 7 WHERE id = 3`)
	w.exec(`INSERT INTO balance_delta (account_id, msat) VALUES ($1 * 16 + 1, 7)`, w.payer)
	w.wantSound()
	if result := w.archive(); len(result.Archived) == 0 {
		t.Errorf("%+v", result.Kept)
	}
	shown, err := operator.ReadAction(w.Ctx, db.New(w.Pool), 3)
	if err != nil || !shown.Archived || len(shown.Postings) != 1 || shown.Postings[0].Reason != "given back by hand" {
		t.Errorf("%+v, %v", shown, err)
	}

	w.exec(`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (4, 1, 5, 7, 'a present', $1), (4, 5, 1, 7, 'a present', $1)`, w.Clock.Now())
	rest := func() bool {
		t.Helper()
		report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: w.Nodes, Now: w.Clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(report.Invariants[0].Breaks, func(b reconcile.Break) bool { return b.Kind == "rest" })
	}
	if !rest() {
		t.Error("a posting of an archived action that says nothing of a hand is not told")
	}
	w.exec(`BEGIN; ALTER TABLE posting DISABLE TRIGGER posting_append_only;
		UPDATE posting SET reason = 'given back by hand' WHERE action_id = 4;
		ALTER TABLE posting ENABLE TRIGGER posting_append_only; COMMIT`)
	if rest() {
		t.Error("it is told for good")
	}
	w.wantSound()
}

// take archives the first range as Run does, whatever reconcile says.
func take(w *world) error {
	return pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
		q, at := db.New(tx), w.Clock.Now()
		if err := q.ArchiveBalances(w.Ctx, db.ArchiveBalancesParams{FirstOne: 1, LastOne: few}); err != nil {
			return err
		}
		if err := q.ArchiveLosses(w.Ctx, db.ArchiveLossesParams{FirstOne: 1, LastOne: few}); err != nil {
			return err
		}
		if _, err := q.ArchiveActionRange(w.Ctx, db.ArchiveActionRangeParams{FirstOne: 1, LastOne: few, At: at}); err != nil {
			return err
		}
		return q.DetachActionRange(w.Ctx, 1)
	})
}
