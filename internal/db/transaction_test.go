package db_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// counted counts what is sent to PostgreSQL.
type counted struct {
	net.Conn
	sent *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}

// world is a database, and one connection to it.
type world struct {
	*testing.T
	pool *pgxpool.Pool
	sent atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	settings := pgtest.New(t).Config()
	settings.MaxConns = 1
	settings.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return counted{conn, &w.sent}, err
	}
	var err error
	if w.pool, err = pgxpool.NewWithConfig(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	if _, err := w.pool.Exec(t.Context(), `CREATE TABLE test (id int PRIMARY KEY, n int NOT NULL DEFAULT 0 CHECK (n < 10)); INSERT INTO test (id) VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	return w
}

const (
	insert = "-- name: Insert :exec\nINSERT INTO test (id) VALUES ($1)"
	add    = "-- name: Add :exec\nUPDATE test SET n = n + $2 WHERE id = $1"
	set    = "-- name: Set :execrows\nUPDATE test SET n = $2 WHERE id = $1"
	read   = "-- name: Read :one\nSELECT n FROM test WHERE id = $1"
	list   = "-- name: List :many\nSELECT id FROM test ORDER BY id"
)

func (w *world) begin() *db.Transaction {
	w.Helper()
	t, err := db.BeginTransaction(w.Context(), w.pool)
	if err != nil {
		w.Fatal(err)
	}
	return t
}

func (w *world) exec(t *db.Transaction, sql string, args ...any) int64 {
	w.Helper()
	tag, err := t.Exec(w.Context(), sql, args...)
	if err != nil {
		w.Fatal(err)
	}
	return tag.RowsAffected()
}

func (w *world) wantCode(err error, code string) {
	w.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code {
		w.Errorf("got %v, want SQLSTATE %s", err, code)
	}
}

// wantIDs looks from outside any transaction; for that the only connection must have been given back.
func (w *world) wantIDs(want ...int32) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	rows, err := w.pool.Query(ctx, list)
	if err != nil {
		w.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil || len(got) != len(want) {
		w.Fatalf("got %v, %v, want %v", got, err, want)
	}
	for i := range got {
		if got[i] != want[i] {
			w.Errorf("got %v, want %v", got, want)
		}
	}
}

// Statements are executed in the order in which they were asked for, whichever of them travel together.
func TestStatementsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx := w.begin()
	w.exec(tx, add, 1, 2)
	w.exec(tx, insert, 2)
	var n int
	if err := tx.QueryRow(w.Context(), read, 1).Scan(&n); err != nil || n != 2 {
		t.Errorf("n is %d, %v", n, err)
	}
	w.exec(tx, add, 1, 3)
	if rows := w.exec(tx, set, 2, 7); rows != 1 {
		t.Errorf("%d rows", rows)
	}
	w.exec(tx, insert, 3)
	rows, err := tx.Query(w.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := pgx.CollectRows(rows, pgx.RowTo[int32]); err != nil || len(ids) != 3 {
		t.Errorf("%v, %v", ids, err)
	}
	if err := tx.QueryRow(w.Context(), read, 99).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
		t.Error(err)
	}
	if err := tx.QueryRow(w.Context(), read, 1).Scan(&n); err != nil || n != 5 {
		t.Errorf("n is %d, %v", n, err)
	}
	if err := tx.Commit(w.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantIDs(1, 2, 3)
	if _, err := tx.Exec(w.Context(), insert, 4); !errors.Is(err, pgx.ErrTxClosed) {
		t.Error(err)
	}
	if err := tx.Rollback(w.Context()); !errors.Is(err, pgx.ErrTxClosed) {
		t.Error(err)
	}
}

// Statements that return nothing cost no round trip, nor do BEGIN and COMMIT.
func TestOneRoundTripForEachAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	step := func() {
		tx := w.begin()
		var n int
		if err := tx.QueryRow(w.Context(), read, 1).Scan(&n); err != nil {
			t.Fatal(err)
		}
		w.exec(tx, add, 1, 1)
		w.exec(tx, add, 1, -1)
		w.exec(tx, set, 1, 0)
		w.exec(tx, add, 1, 1)
		w.exec(tx, add, 1, -1)
		if err := tx.Commit(w.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step() // prepares the statements
	before := w.sent.Load()
	step()
	if sent := w.sent.Load() - before; sent != 3 {
		t.Errorf("sent %d times, want 3: for the read, the set, and the commit", sent)
	}
	before = w.sent.Load()
	if err := w.begin().Commit(w.Context()); err != nil {
		t.Error(err)
	}
	if err := w.begin().Rollback(w.Context()); err != nil {
		t.Error(err)
	}
	if sent := w.sent.Load() - before; sent != 0 {
		t.Errorf("sent %d times for nothing", sent)
	}
}

// The numbers of actions come with the next answer. A caller that needs them earlier waits for them alone, and once.
func TestNumbersTravelWithTheNextAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	step := func(waits bool) (number int64) {
		tx := w.begin()
		w.exec(tx, add, 1, 1)
		next := tx.NextActions(3)
		w.exec(tx, add, 1, -1)
		if waits {
			var n int
			if err := tx.QueryRow(w.Context(), read, 1).Scan(&n); err != nil || n != 0 {
				t.Fatal(n, err)
			}
		}
		for range 2 {
			again, err := next(w.Context())
			if err != nil || len(again) != 3 || again[1] != again[0]+1 || again[2] != again[0]+2 || number != 0 && again[0] != number {
				t.Fatal(number, again, err)
			}
			number = again[0]
		}
		if err := tx.Commit(w.Context()); err != nil {
			t.Fatal(err)
		}
		return number
	}
	last := step(true) // prepares the statements
	for _, waits := range []bool{true, false} {
		before := w.sent.Load()
		if number := step(waits); number != last+3 {
			t.Errorf("number %d after three from %d", number, last)
		} else {
			last = number
		}
		if sent := w.sent.Load() - before; sent != 2 {
			t.Errorf("waited for an answer: %t; sent %d times, want 2: with the number, and the commit", waits, sent)
		}
	}
	tx := w.begin()
	w.exec(tx, add, 1, 10) // against the CHECK
	next := tx.NextActions(1)
	_, err := next(w.Context())
	w.wantCode(err, "23514")
	if numbers, err := next(w.Context()); err == nil {
		t.Errorf("numbers %d, though a statement before them had failed", numbers)
	}
	if err := tx.Rollback(w.Context()); err != nil {
		t.Error(err)
	}
	if _, err := next(w.Context()); !errors.Is(err, pgx.ErrTxClosed) {
		t.Error(err)
	}
}

// The error of a statement that returns nothing comes from the next one, or from the commit, and nothing is left of the
// transaction.
func TestErrorsComeLaterAndAreNeverLost(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(w *world, tx *db.Transaction) error{
		"a row": func(w *world, tx *db.Transaction) error {
			var n int
			return tx.QueryRow(w.Context(), read, 1).Scan(&n)
		},
		"rows": func(w *world, tx *db.Transaction) error {
			rows, _ := tx.Query(w.Context(), list)
			_, err := pgx.CollectRows(rows, pgx.RowTo[int32])
			return err
		},
		"a count": func(w *world, tx *db.Transaction) error {
			_, err := tx.Exec(w.Context(), set, 1, 3)
			return err
		},
		"the commit": func(w *world, tx *db.Transaction) error { return tx.Commit(w.Context()) },
	} {
		w := newWorld(t)
		t.Log(name)
		tx := w.begin()
		w.exec(tx, insert, 2)
		w.exec(tx, add, 1, 10) // against the CHECK
		w.exec(tx, insert, 3)
		w.wantCode(next(w, tx), "23514")
		if err := tx.Commit(w.Context()); err == nil {
			t.Error("committed, though a statement had failed")
		}
		if err := tx.Rollback(w.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
		w.wantIDs(1)
	}
}

// The same if the last of several statements fails, or a single one.
func TestErrorOfTheStatementItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, queued := range []bool{false, true} {
		tx := w.begin()
		w.exec(tx, set, 1, 1)
		if queued {
			w.exec(tx, insert, 2)
		}
		_, err := tx.Exec(w.Context(), set, 1, 10)
		w.wantCode(err, "23514")
		if err := tx.Rollback(w.Context()); err != nil {
			t.Error(err)
		}
		w.wantIDs(1)
	}
}

func TestInTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := errors.New("refused")
	err := db.InTransaction(w.Context(), w.pool, func(tx *db.Transaction) error {
		w.exec(tx, insert, 2)
		w.exec(tx, set, 1, 1)
		return refused
	})
	if !errors.Is(err, refused) {
		t.Error(err)
	}
	w.wantIDs(1)
	if err := db.InTransaction(w.Context(), w.pool, func(tx *db.Transaction) error { w.exec(tx, insert, 2); return nil }); err != nil {
		t.Error(err)
	}
	w.wantIDs(1, 2)
	err = db.InTransaction(w.Context(), w.pool, func(tx *db.Transaction) error { w.exec(tx, insert, 2); return nil })
	w.wantCode(err, "23505")
	w.wantIDs(1, 2)
}

// A query with an array is planned for all arrays, once for each connection. The next user of the connection does not
// inherit the setting.
func TestAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := func() error {
		return db.Alone(w.Context(), w.pool, func(q *db.Queries) error {
			_, err := q.StatesOf(w.Context(), []int64{1, 2})
			return err
		})
	}
	if err := ask(); err != nil { // prepares the statements
		t.Fatal(err)
	}
	var generic, custom int
	var mode string
	if err := w.pool.QueryRow(w.Context(), `SELECT sum(generic_plans), sum(custom_plans), current_setting('plan_cache_mode') FROM pg_prepared_statements
		WHERE statement LIKE '-- name: StatesOf%'`).Scan(&generic, &custom, &mode); err != nil {
		t.Fatal(err)
	}
	if generic == 0 || custom != 0 || mode != "auto" {
		t.Errorf("%d generic plans and %d others, and the mode is %q", generic, custom, mode)
	}
	before := w.sent.Load()
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if sent := w.sent.Load() - before; sent != 1 {
		t.Errorf("sent %d times for one answer", sent)
	}
	refused := errors.New("refused")
	if err := db.Alone(w.Context(), w.pool, func(*db.Queries) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	w.wantIDs(1)
}
