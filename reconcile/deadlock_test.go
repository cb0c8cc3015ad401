package reconcile_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

func TestADeadlockIsCounted(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewForDeadlocks(t)
	look := func() *reconcile.Report {
		t.Helper()
		report, err := reconcile.Run(t.Context(), reconcile.Config{Pool: pool, Nodes: simnode.Nodes{}})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := look(); !report.OK {
		t.Errorf("%+v", report)
	}
	deadlock(t, pool)
	pgtest.Deadlocks(t, pool) // waits until it is counted
	report := look()
	for _, k := range reconcile.Kinds() {
		if k.Invariant == 10 {
			wantBroken(t, report, k, nil)
		}
	}
	if report.Invariants[9].Broken != 1 {
		t.Errorf("%+v", report.Invariants[9])
	}
}

// deadlock has two transactions wait for each other.
func deadlock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var txs [2]pgx.Tx
	lock := func(tx pgx.Tx, account int) error {
		_, err := tx.Exec(t.Context(), `UPDATE account SET balance = balance WHERE id = $1`, account)
		return err
	}
	for i := range txs {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if err := lock(tx, i); err != nil {
			t.Fatal(err)
		}
		txs[i] = tx
	}
	broken := make(chan error, 2)
	for i, tx := range txs {
		go func() {
			err := lock(tx, 1-i)
			if err != nil {
				err = tx.Rollback(t.Context()) // the other goes on
				broken <- err
				return
			}
			broken <- tx.Rollback(t.Context())
		}()
	}
	for range txs {
		if err := <-broken; err != nil {
			t.Fatal(err)
		}
	}
}
