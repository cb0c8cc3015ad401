package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/peterldowns/pgtestdb"
)

func TestMain(m *testing.M) { Main(m) }

// oneTable is a migrator that does not depend on the product's migrations.
type oneTable struct{}

func (oneTable) Hash() (string, error) { return "pgtest one table", nil }

func (oneTable) Migrate(ctx context.Context, db *sql.DB, _ pgtestdb.Config) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL); INSERT INTO account VALUES (1, 0), (2, 0)")
	return err
}

func TestEveryTestHasADatabaseOfItsOwn(t *testing.T) {
	var name string
	t.Run("first", func(t *testing.T) {
		pool := open(t, oneTable{})
		if _, err := pool.Exec(t.Context(), "UPDATE account SET n = 7"); err != nil {
			t.Fatal(err)
		}
		if err := pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
	})
	pool := open(t, oneTable{})
	var sum int
	var exists bool
	err := pool.QueryRow(t.Context(), "SELECT (SELECT sum(n) FROM account), EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).
		Scan(&sum, &exists)
	if err != nil {
		t.Fatal(err)
	}
	if sum != 0 {
		t.Errorf("the second test sees the first one's changes: sum %d", sum)
	}
	if exists {
		t.Error("the first test's database was not dropped")
	}
}

// A copy has what was there when it was made; what either changes afterwards, the other does not see.
func TestACopyIsADatabaseOfItsOwn(t *testing.T) {
	set := func(pool *pgxpool.Pool, n int) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), "UPDATE account SET n = $1", n); err != nil {
			t.Fatal(err)
		}
	}
	pool := open(t, oneTable{})
	set(pool, 7)
	var name string
	t.Run("a copy", func(t *testing.T) {
		var least, most int
		copied := Copy(t, pool)
		name = copied.Config().ConnConfig.Database
		set(pool, 8)
		err := copied.QueryRow(t.Context(), "SELECT min(n), max(n) FROM account").Scan(&least, &most)
		if err != nil || least != 7 || most != 7 {
			t.Errorf("the copy has %d and %d, %v", least, most, err)
		}
		set(copied, 9)
	})
	var n int
	var exists bool
	err := pool.QueryRow(t.Context(), "SELECT max(n), EXISTS (SELECT FROM pg_database WHERE datname = $1) FROM account", name).
		Scan(&n, &exists)
	if err != nil {
		t.Fatal(err)
	}
	if n != 8 || exists {
		t.Errorf("the first has %d; the copy is still there: %t", n, exists)
	}
}

func TestMigrationsAreApplied(t *testing.T) {
	var tables int
	err := New(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables)
	if err != nil {
		t.Fatal(err)
	}
	if tables == 0 {
		t.Error("the database is empty")
	}
}

// deadlock makes PostgreSQL resolve exactly one deadlock.
func deadlock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	// Two transactions lock the same two rows in opposite order; the meeting ensures that each has its first.
	var meeting, over sync.WaitGroup
	meeting.Add(2)
	failures := make([]error, 2)
	for i, order := range [][2]int{{1, 2}, {2, 1}} {
		over.Go(func() {
			failures[i] = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "UPDATE account SET n = n + 1 WHERE id = $1", order[0])
				meeting.Done()
				if err != nil {
					return err
				}
				meeting.Wait()
				_, err = tx.Exec(t.Context(), "UPDATE account SET n = n + 1 WHERE id = $1", order[1])
				return err
			})
		})
	}
	over.Wait()

	var broken *pgconn.PgError
	if err := errors.Join(failures...); !errors.As(err, &broken) || broken.Code != "40P01" {
		t.Fatalf("want one deadlock, got %v", err)
	}
}

func TestDeadlocksAreCounted(t *testing.T) {
	pool := open(t, oneTable{})
	if got := Deadlocks(t, pool); got != 0 {
		t.Fatalf("%d deadlocks in a new database", got)
	}

	deadlock(t, pool)
	if got := Deadlocks(t, pool); got != 1 {
		t.Errorf("counted %d deadlocks, want 1", got)
	}
}

// record is a test that only records that it failed.
type record struct {
	testing.TB
	failed bool
}

func (r *record) Errorf(string, ...any) { r.failed = true }

func TestADeadlockFailsTheTest(t *testing.T) {
	pool := open(t, oneTable{})
	admin, err := superuser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	database := pool.Config().ConnConfig.Database
	before, after := &record{TB: t}, &record{TB: t}
	pool.Reset()
	refuseDeadlocks(before, admin, database)
	deadlock(t, pool)
	pool.Reset()
	refuseDeadlocks(after, admin, database)
	if before.failed || !after.failed {
		t.Errorf("failed without a deadlock: %t; with one: %t", before.failed, after.failed)
	}
}
