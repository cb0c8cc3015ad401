package bench

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// segments lie ready on the server of TestTheDatabases.
const segments = 12

// What is said of the databases without a run is said of those of one server: to start and fill one takes most of the
// time.
func TestTheDatabases(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Segments = segments
	d := databases(t, scratch(t), o)
	for _, c := range []struct {
		name string
		test func(*testing.T, *database)
	}{
		{"the log lies ready", theLogLiesReady}, // before anything else is written
		{"payments that are missing are found", paymentsThatAreMissingAreFound},
		{"the reference looks up actions by their index", theReferenceLooksUpActionsByTheirIndex},
		{"the script writes the rows of a zap", theScriptWritesTheRowsOfAZap},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, d) })
	}
}

// When the contenders begin, the log that they will write is prepared.
func theLogLiesReady(t *testing.T, d *database) {
	var ready int
	err := connect(t, d, holdfastDB).QueryRow(t.Context(),
		"SELECT count(*) FROM pg_ls_waldir() WHERE name > pg_walfile_name(pg_current_wal_insert_lsn())").Scan(&ready)
	if err != nil {
		t.Fatal(err)
	}
	if ready < segments/2 {
		t.Errorf("%d segments lie ready, after %d were filled", ready, segments)
	}
}

// Each row of the reference's ledger has its action looked up, as the foreign key does it. A connection keeps the plan.
func theReferenceLooksUpActionsByTheirIndex(t *testing.T, d *database) {
	rows, err := connect(t, d, referenceDB).Query(t.Context(), "EXPLAIN SELECT 1 FROM ONLY action x WHERE id = 1 FOR KEY SHARE OF x")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(plan, ""), "Index Scan using action_pkey") {
		t.Errorf("all actions are scanned:\n%s", strings.Join(plan, "\n"))
	}
}
