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

// Nobody checks the number of rows that these write. If a row is missing they fail by themselves, each with its own
// code, and so does the commit that they travel with.
func TestWhatMustBeThereAndIsNotFails(t *testing.T) {
	t.Parallel()
	pool, now := pgtest.New(t), time.Now()
	codes := map[string]string{"MoveActions": "HF003", "RelaysPaid": "HF003", "DebitUnseen": "HF004", "InsertAction": "HF005",
		"BoundPayer": "HF006", "BoundClient": "HF006", "BoundWallet": "HF007"}
	begun := db.InsertActionParams{ID: 1, Kind: "TEST", Flow: "BALANCE", Method: "ZERO_COST", State: "PAID", Attempt: 1, At: now, Args: json.RawMessage("{}"),
		IdempotencyKey: new("key"), ArgsHash: []byte{1}, Fact: "REQUESTED"}
	if err := db.New(pool).InsertAction(t.Context(), begun); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(q *db.Queries) error{
		"MoveActions": func(q *db.Queries) error {
			return q.MoveActions(t.Context(), db.MoveActionsParams{Ids: []int64{1}, Heights: []int32{0}, Results: []json.RawMessage{nil}, Received: []int64{0},
				FromState: "PENDING", ToState: "PAID", Fact: "INVOICE_SETTLED", At: now})
		},
		"RelaysPaid": func(q *db.Queries) error {
			return q.RelaysPaid(t.Context(), db.RelaysPaidParams{ActionIds: []int64{1}, Preimages: [][]byte{{1}}, At: now})
		},
		"InsertAction": func(q *db.Queries) error {
			again := begun
			again.ID = 2
			return q.InsertAction(t.Context(), again)
		},
		"BoundPayer": func(q *db.Queries) error {
			return q.BoundPayer(t.Context(), db.BoundPayerParams{PayerID: new(int64(1))})
		},
		"BoundClient": func(q *db.Queries) error {
			return q.BoundClient(t.Context(), db.BoundClientParams{ClientHash: []byte{1}})
		},
		"BoundWallet": func(q *db.Queries) error { return q.BoundWallet(t.Context(), db.BoundWalletParams{WalletID: 1}) },
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
	var failed *pgconn.PgError
	if _, err := pool.Exec(t.Context(), `SELECT must_be(3, 2, 'rows')`); !errors.As(err, &failed) || failed.Code != "HF003" {
		t.Errorf("three of two rows: %v", err)
	}
	if _, err := pool.Exec(t.Context(), `SELECT must_be(2, 2, 'rows'), must_begin(1), must_be_below(1, 2, 'HF006')`); err != nil {
		t.Errorf("two of two rows, one that begins, and one where two are too many: %v", err)
	}
}
