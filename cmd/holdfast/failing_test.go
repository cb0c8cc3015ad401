package main

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	dto "github.com/prometheus/client_model/go"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// A full disk and damaged data are counted, whether a statement is sent alone or with others; what anybody can bring
// about is not.
func TestADatabaseThatFailsIsCounted(t *testing.T) {
	t.Parallel()
	s := assemble(t)
	if _, err := s.pool.Exec(t.Context(), `CREATE FUNCTION fail(code text) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'failed' USING ERRCODE = code; END $$`); err != nil {
		t.Fatal(err)
	}
	refused := func(err error, code string) {
		t.Helper()
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	_, err := s.pool.Exec(t.Context(), "SELECT fail('53100')")
	refused(err, "53100")
	refused(db.InTransaction(t.Context(), s.pool, func(tx *db.Transaction) error {
		var none int64
		return tx.QueryRow(t.Context(), "SELECT fail('XX001')").Scan(&none)
	}), "XX001")
	_, err = s.pool.Exec(t.Context(), "SELECT fail('23505')")
	refused(err, "23505")

	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "holdfast_database_failures_total" && f.GetType() == dto.MetricType_COUNTER {
			for _, m := range f.Metric {
				counted[m.Label[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if len(counted) != len(failing) || counted["53100"] != 1 || counted["XX001"] != 1 || counted["58030"] != 0 {
		t.Errorf("%v", counted)
	}
}
