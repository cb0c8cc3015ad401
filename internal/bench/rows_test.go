package bench

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
)

// volatile are the columns that differ from zap to zap: users, times, keys, hashes, row numbers, and the expiry of
// invoices.
var volatile = []string{"id", "action_id", "payer_id", "user_id", "author_id", "item_id", "created_at", "changed_at", "at", "last_zap_at",
	"scheduled_at", "account_id", "from_account", "idempotency_key", "args_hash", "deadline", "expires_at", "payment_hash", "preimage", "bolt11"}

// contents are all rows written since, of all tables, as text without the volatile columns, with how often each occurs.
func contents(t *testing.T, connection *pgx.Conn) map[string]int {
	t.Helper()
	names, err := connection.Query(t.Context(), "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, table := range tables {
		if strings.HasPrefix(table, "river_") && table != "river_job" || strings.HasPrefix(table, "lock_") || table == "lightning_node" {
			continue // how processes find each other, whose turn it is, and the nodes, noted whenever a process first meets one
		}
		without := "'{" + strings.Join(volatile, ",") + "}'::text[]"
		found, err := connection.Query(t.Context(), "SELECT (to_jsonb(r) - "+without+")::text FROM "+table+" AS r")
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			all[table+" "+line]++
		}
	}
	return all
}

// written is which rows there are more of than before, and which fewer.
func written(before, after map[string]int) map[string]int {
	difference := map[string]int{}
	for row, n := range after {
		if d := n - before[row]; d != 0 {
			difference[row] = d
		}
	}
	for row, n := range before {
		if _, ok := after[row]; !ok {
			difference[row] = -n
		}
	}
	return difference
}

func connect(t *testing.T, d *database, name string) *pgx.Conn {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), d.DSN(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close(t.Context()) })
	return connection
}

// The script for Holdfast's own rows writes the same rows, in the same tables, as a real zap.
func theScriptWritesTheRowsOfAZap(t *testing.T, d *database) {
	// Without workers there is only what the payment's own transaction leaves, not what jobs add.
	s, err := newService(scratch(t), program(t), d.DSN(holdfastDB), "HOLDFAST_ROLES=api")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	ours, theirs := connect(t, d, holdfastDB), connect(t, d, rowsDB)
	before := contents(t, ours)
	r, err := load.Run(t.Context(), load.Plan{Addresses: []string{s.address}, Keys: d.keys, Items: int64(d.items), Item: hotItem, Sats: sats,
		Prefix: "one", Clients: 1, Rate: 1, Measure: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Paid != 1 {
		t.Fatalf("one zap was asked for: %s", r)
	}
	want := written(before, contents(t, ours))

	before = contents(t, theirs)
	one, err := d.scriptRun(t.Context(), rowsDB, "rows/hot.sql", "-t", "1")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := one.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := written(before, contents(t, theirs))
	if !maps.Equal(got, want) {
		for _, row := range slices.Sorted(maps.Keys(want)) {
			t.Errorf("a zap: %+d %s", want[row], row)
		}
		for _, row := range slices.Sorted(maps.Keys(got)) {
			t.Errorf("the script: %+d %s", got[row], row)
		}
	}
}
