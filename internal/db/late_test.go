package db_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// What runs alone is committed by the end of its answer, after the rows: where that fails, nothing was written, and the
// caller is told. A payment would be sent, and sent again, by who believes in a claim that is not there.
func TestAloneNothingIsBelievedBeforeItIsCommitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.pool.Exec(w.Context(), `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '40001'; END $$;
		CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON lightning_node DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(q *db.Queries) error{
		"a row": func(q *db.Queries) error {
			_, err := q.MeetNode(w.Context(), db.MeetNodeParams{Name: "new", At: time.Now()})
			return err
		},
		"rows": func(q *db.Queries) error {
			_, err := q.DebitAll(w.Context(), db.DebitAllParams{Ids: []int64{1, 2}, Msats: []int64{0, 0}})
			return err
		},
		"a count": func(q *db.Queries) error {
			_, err := q.Debit(w.Context(), db.DebitParams{ID: 1})
			return err
		},
	} {
		t.Log(name)
		w.wantCode(db.Alone(w.Context(), w.pool, write), "40001")
	}
	w.wantIDs(1)
}

// A statement that answers nothing would be left unsent, and is refused.
func TestAloneWhatAnswersNothingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := db.Alone(w.Context(), w.pool, func(q *db.Queries) error {
		return q.MoveCursor(w.Context(), db.MoveCursorParams{Node: "node", AddIndex: 1})
	}); err == nil {
		t.Error("nobody heard that it was not executed")
	}
	w.wantIDs(1)
}

// PostgreSQL sends the row that a statement returns before it checks what the row refers to. The refusal is still that
// statement's error, so that a conflict among them is known as one.
func TestARowThatIsRefusedAfterwardsIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.pool.Exec(w.Context(), `CREATE TABLE child (test int REFERENCES test)`); err != nil {
		t.Fatal(err)
	}
	const child = "-- name: Child :one\nINSERT INTO child VALUES ($1) RETURNING test"
	for _, queued := range []bool{false, true} {
		for _, rows := range []bool{false, true} {
			tx := w.begin()
			w.exec(tx, set, 1, 1)
			if queued {
				w.exec(tx, add, 1, 1)
			}
			var n int
			var err error
			if rows {
				all, _ := tx.Query(w.Context(), child, 2)
				_, err = pgx.CollectRows(all, pgx.RowTo[int32])
			} else {
				err = tx.QueryRow(w.Context(), child, 2).Scan(&n)
			}
			w.wantCode(err, "23503")
			if err := tx.Rollback(w.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	w.wantIDs(1)
}

// A single statement that nobody has waited for is committed, too.
func TestTheLastStatementIsCommitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, looks := range []bool{true, false} {
		tx := w.begin()
		if looks {
			var n int
			if err := tx.QueryRow(w.Context(), read, 1).Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		w.exec(tx, insert, 2+i)
		if err := tx.Commit(w.Context()); err != nil {
			t.Error(err)
		}
	}
	w.wantIDs(1, 2, 3)
}

// Its connection is another's by then.
func TestAClosedTransactionIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, end := range map[string]func(*db.Transaction) error{
		"committed":   func(tx *db.Transaction) error { return tx.Commit(w.Context()) },
		"rolled back": func(tx *db.Transaction) error { return tx.Rollback(w.Context()) },
	} {
		tx := w.begin()
		w.exec(tx, set, 1, 1)
		if err := end(tx); err != nil {
			t.Fatal(name, err)
		}
		var n int
		if err := tx.QueryRow(w.Context(), read, 1).Scan(&n); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: a read: %v", name, err)
		}
		if err := tx.Commit(w.Context()); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s: a commit: %v", name, err)
		}
	}
	w.wantIDs(1)
}
