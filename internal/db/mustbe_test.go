package db_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// Nobody waits for the number of rows that these write: where one is missing they fail by themselves, each with the code that it is known by, and so does
// the commit that they travel with.
func TestWhatMustBeThereAndIsNotFails(t *testing.T) {
	t.Parallel()
	pool, now := pgtest.New(t), time.Now()
	codes := map[string]string{"MoveActions": "HF003", "RelaysPaid": "HF003", "DebitUnseen": "HF004"}
	for name, write := range map[string]func(q *db.Queries) error{
		"MoveActions": func(q *db.Queries) error {
			return q.MoveActions(t.Context(), db.MoveActionsParams{Ids: []int64{1}, Heights: []int32{0}, Results: []json.RawMessage{nil}, Received: []int64{0},
				FromState: "PENDING", ToState: "PAID", Fact: "INVOICE_SETTLED", At: now})
		},
		"RelaysPaid": func(q *db.Queries) error {
			return q.RelaysPaid(t.Context(), db.RelaysPaidParams{ActionIds: []int64{1}, Preimages: [][]byte{{1}}, At: now})
		},
		"DebitUnseen": func(q *db.Queries) error {
			return q.DebitUnseen(t.Context(), db.DebitUnseenParams{Ids: []int64{160}, Msats: []int64{1}})
		},
	} {
		noted := false
		err := db.InTransaction(t.Context(), pool, func(tx *db.Transaction) error {
			err := write(db.New(tx))
			noted = err == nil
			return err
		})
		var failed *pgconn.PgError
		if !noted || !errors.As(err, &failed) || failed.Code != codes[name] {
			t.Errorf("%s: noted %t, %v", name, noted, err)
		}
	}
	if _, err := pool.Exec(t.Context(), `SELECT must_be(2, 2, 'rows')`); err != nil {
		t.Errorf("two of two rows: %v", err)
	}
}
