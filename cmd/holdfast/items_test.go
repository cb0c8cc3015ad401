package main

import (
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// What somebody with a key of the author's has forwarded to themselves, an operator gives back to the author once the
// author can change it no more. Other items stay as they are.
func TestAnItemForwardsToNobody(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO usr (name, created_at) VALUES ('author', now()), ('thief', now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			VALUES ('ITEM_CREATE', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, 1000, now(), now(), '{}', '{}');
		INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at)
			SELECT 1, 1, 'PAID', '{}', 'title', 'body', now() FROM generate_series(1, 3);
		INSERT INTO item_forward (item_id, user_id, pct) VALUES (1, 2, 60), (2, 2, 40)`); err != nil {
		t.Fatal(err)
	}
	do := byCarol(t, pool)
	for _, refused := range []string{"3", "4"} { // it forwards to nobody; there is no such item
		if out := do(exitFailed, "items", "unforward", refused); out != "" {
			t.Errorf("of item %s: %s", refused, out)
		}
	}
	if out := do(exitOK, "items", "unforward", "1"); strings.Join(strings.Fields(out), "") != `[{"user":"thief","pct":60}]` {
		t.Errorf("what has ended: %s", out)
	}
	var left string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(item_id || ' ' || pct, ', ') FROM item_forward`).Scan(&left); err != nil || left != "2 40" {
		t.Errorf("there is left %s, %v", left, err)
	}
	if noted := do(exitOK, "commands"); !strings.Contains(noted, `"items unforward"`) {
		t.Errorf("it is not noted: %s", noted)
	}
}
