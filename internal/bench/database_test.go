package bench

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// When the contenders begin, the log that they will write is prepared.
func TestTheLogLiesReady(t *testing.T) {
	t.Parallel()
	d := databases(t, scratch(t))
	connection, err := pgx.Connect(t.Context(), d.DSN(holdfastDB))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	var ready int
	err = connection.QueryRow(t.Context(), "SELECT count(*) FROM pg_ls_waldir() WHERE name > pg_walfile_name(pg_current_wal_insert_lsn())").Scan(&ready)
	if err != nil {
		t.Fatal(err)
	}
	if filled := small(t).Segments; ready < filled/2 {
		t.Errorf("%d segments lie ready, after %d were filled", ready, filled)
	}
}
