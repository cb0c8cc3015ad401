package reconcile_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// What makes an action do its work once is a key: reconcile misses every key of a table whose rows belong to actions.
func TestEveryKeyOfAnEffectIsMissedOnceItIsGone(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.New(t).Query(t.Context(), `SELECT k.relname::text FROM pg_index i JOIN pg_class k ON k.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
		WHERE i.indisunique AND t.relkind = 'r' AND NOT t.relispartition AND t.relnamespace = 'public'::regnamespace AND t.relname <> 'paid_action' AND EXISTS (
			SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND (a.attname = 'action_id'
				OR EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = t.oid AND a.attnum = ANY(c.conkey) AND c.confrelid = 'paid_action'::regclass)))
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
