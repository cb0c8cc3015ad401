package reconcile_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// That an action makes one row of a kind, and not two, is a key's doing: reconcile misses every one of these keys.
func TestReconcileMissesTheKeysOfActions(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.New(t).Query(t.Context(), `SELECT k.relname::text FROM pg_index i JOIN pg_class k ON k.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
		JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
		WHERE i.indisunique AND i.indnkeyatts = 1 AND t.relkind = 'r' AND NOT t.relispartition AND t.relnamespace = 'public'::regnamespace AND (a.attname = 'action_id'
			OR EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = t.oid AND c.conkey = ARRAY[a.attnum] AND c.confrelid = 'paid_action'::regclass))
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !slices.Contains(reconcile.Guards(), key) {
			t.Errorf("reconcile does not miss %s: add it to present in reconcile/whole.go", key)
		}
	}
}
