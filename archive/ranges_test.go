package archive_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/archive"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// Two whole ranges follow the newest action, however many processes make them at once.
func TestRangesAreMadeAheadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(1)
	w.exec(`SELECT setval('paid_action_id_seq', $1)`, 5*few) // as after many payments
	var mu sync.Mutex
	var made int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			n := w.make()
			mu.Lock()
			defer mu.Unlock()
			made += n
		})
	}
	all.Wait()
	if last, want := w.Count(`SELECT max(last_action) FROM action_range`), int64(7*few); last != want || made != 4 {
		t.Errorf("%d ranges were made, up to action %d, want %d", made, last, want)
	}
	if n := w.make(); n != 0 {
		t.Errorf("%d more were made", n)
	}
	if n := w.Count(`SELECT count(*) FROM action_range a JOIN action_range b ON b.first_action = a.last_action + 1`); n != 6 {
		t.Errorf("%d ranges abut, want 6", n)
	}
}

// A payment is never refused for want of a partition. Its rows are moved to their partition once that is made.
func TestWhatFindsNoPartitionIsCaught(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`SELECT setval('paid_action_id_seq', $1)`, 4*few+1)
	w.live() // the first ranges are made meanwhile
	w.exec(`SELECT setval('paid_action_id_seq', $1)`, 9*few)
	before := w.rows()
	w.WantConserved()
	w.make()
	if w.rows() != before {
		t.Error("rows have changed")
	}
	if n := w.Count(`SELECT (SELECT count(*) FROM posting_rest WHERE action_id IS NOT NULL) + (SELECT count(*) FROM action_history_rest)`); n != 0 {
		t.Errorf("%d rows are still outside of their partitions", n)
	}
	w.wantSound()
}

// What was written can never be changed, in any partition, not even by naming the partition itself. Nobody can give a
// row an id beyond the sequence.
func TestEveryPartitionIsAppendOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(few)
	w.exec(`SELECT setval('paid_action_id_seq', $1)`, 6*few+1)
	w.zap(1) // caught, and moved: the triggers were off for that
	tables := 0
	for _, table := range []string{"posting", "posting_1", "posting_6", "posting_31", "posting_rest", "action_history", "action_history_1", "action_history_31"} {
		for _, change := range []string{"UPDATE " + table + " SET at = at", "DELETE FROM " + table} {
			_, err := w.Pool.Exec(w.Ctx, change)
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "HF002" {
				t.Errorf("%s: %v", change, err)
			}
			tables++
		}
	}
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO posting (id, action_id, from_account, to_account, msat, reason, at) VALUES (99999, 1, 3, 5, 1, 'x', '2026-01-01')`); err == nil {
		t.Error("a row was given an id beyond the sequence")
	}
	for _, bad := range []string{`(99999, 3, 5, 1)`, `(1, 3, 3, 1)`, `(1, 3, 5, 0)`, `(1, 3, 4, 1)`} {
		if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) SELECT v.*, 'x', '2026-01-01' FROM (VALUES `+bad+`) AS v`); err == nil {
			t.Errorf("%s was posted", bad)
		}
	}
}

// Far behind, as after hours in which the tables were in use, each range that is made stays: all of them together take
// longer than payments may wait.
func TestRangesThatAreMadeStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const missing = 100
	w.exec(`SELECT setval('paid_action_id_seq', $1)`, missing*few)
	for range 10 {
		if _, err := archive.MakeRanges(w.Ctx, w.Pool, few, time.Millisecond); err == nil {
			break
		} else if !errors.Is(err, archive.ErrBusy) {
			t.Fatal(err)
		}
	}
	if last, want := w.Count(`SELECT max(last_action) FROM action_range`), int64((missing+2)*few); last != want {
		t.Errorf("there are ranges up to action %d, want %d", last, want)
	}
}

// If what was caught is more than can be moved while payments wait, the log tells that from tables in use; and what
// reconcile says makes the ranges that are missing.
func TestWhatIsTooMuchIsMovedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`SELECT setval('paid_action_id_seq', $1)`, 2*few)
	w.exec(`CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
		CREATE TRIGGER slow BEFORE INSERT ON action_range EXECUTE FUNCTION take_long()`)
	if _, err := archive.MakeRanges(w.Ctx, w.Pool, few, time.Millisecond); !errors.Is(err, archive.ErrSlow) {
		t.Errorf("%v, want %v", err, archive.ErrSlow)
	}
	const advice = "SET statement_timeout = 0; SELECT make_action_ranges(%d, 2);"
	if !slices.ContainsFunc(reconcile.Kinds(), func(k *reconcile.Kind) bool {
		return k.Name == "rest" && strings.Contains(k.Mend, fmt.Sprintf(advice, archive.RangeSize))
	}) {
		t.Error("reconcile says nothing of it")
	}
	w.exec(fmt.Sprintf(advice, few))
	if n := w.make(); n != 0 {
		t.Errorf("%d ranges were still missing", n)
	}
}
