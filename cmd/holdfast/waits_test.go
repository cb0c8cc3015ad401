package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// An operator is told of each node why a payment has not left through it, as far as the database knows.
func TestRelayShowSaysWhyAPaymentWaits(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 100_000)
	carol := w.Network.AddReceiver("carol")
	withdraw := func() *paidaction.PaidAction {
		inv := carol.Issue(simnode.Ask{Amount: 20_000, Act: simnode.Pays})
		return w.Pay(user, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	}
	waiting, hanging := withdraw(), withdraw()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := w.Pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	slot, err := lock.Normalise(pool.Key("taken", 0))
	if err != nil {
		t.Fatal(err)
	}
	exec(`DELETE FROM lightning_node`)
	exec(`INSERT INTO lightning_node (name, draining, disabled_reason, cooling_until, cooling_reason, changed_at) VALUES
		('draining', true, NULL, NULL, '', now()), ('broken', false, 'its disk is full', NULL, '', now()), ('tired', false, NULL, now() + interval '5 minutes', 'a payment failed there', now()), ('ahead', false, NULL, now() + interval '1 day', 'by a clock that was ahead', now()),
		('full', false, NULL, NULL, '', now()), ('taken', false, NULL, NULL, '', now()), ('failed', false, NULL, NULL, '', now()), ('free', false, NULL, NULL, '', now())`)
	exec(`UPDATE relay_payment SET expires_at = now() + interval '1 hour', not_before = NULL`)
	exec(`UPDATE relay_payment SET stage = 'in_work', node = 'full', changed_at = now() WHERE action_id = $1`, hanging.ID)
	exec(`INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until, outcome, ended_at)
		SELECT id, 'failed', '', 1, now(), now(), 'FAILED', now() FROM relay_payment WHERE action_id = $1`, waiting.ID)
	exec(`INSERT INTO lock_key (key, ticket, since, expires_at, hold_until) VALUES ($1, 'a', now(), now() + interval '1 hour', now() + interval '1 hour')`, slot)
	nodes := "HOLDFAST_NODES="
	for _, node := range []string{"draining", "broken", "tired", "ahead", "full", "taken", "failed", "free", "unused"} {
		nodes += node + "=localhost:1;tls=x;macaroon=x;slots=" + map[bool]string{true: "1", false: "2"}[node == "taken"] + " "
	}
	env := settings(w.Pool, nodes+"issuer=localhost:1;tls=x;macaroon=x;send=no", "HOLDFAST_NODE_FAILURE_COOLDOWN=10m")

	why := func(action int64) map[string]string {
		t.Helper()
		code, out, said := command(t, env, "relay", "show", number(action))
		var whole wholePayment
		if err := json.Unmarshal([]byte(out), &whole); err != nil || code != exitOK {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
		}
		got := map[string]string{}
		for _, w := range whole.Waits {
			name := "any"
			if w.Node != nil {
				name = *w.Node
			}
			got[name] = w.Why
		}
		return got
	}
	got := why(waiting.ID)
	for node, want := range map[string]string{"draining": "drained", "broken": "disabled: its disk is full", "tired": "a payment failed there", "full": "withdrawals hold all that they may of its slots: 1 of 2",
		"taken": "all of its 1 slots", "failed": "it has failed there", "free": "nothing in the database is against it", "ahead": "nothing in the database is against it", "unused": "ever used this node"} {
		if !strings.Contains(got[node], want) {
			t.Errorf("%s: %q", node, got[node])
		}
	}
	if len(got) != 9 {
		t.Errorf("%v", got)
	}
	if got := why(hanging.ID); len(got) != 0 {
		t.Errorf("it was given to a node, and waits: %v", got)
	}

	exec(`UPDATE relay_payment SET not_before = now() + interval '10 minutes' WHERE action_id = $1`, waiting.ID)
	if got := why(waiting.ID); got["any"] != "" {
		t.Errorf("by a clock that was ahead: %v", got)
	}
	exec(`UPDATE relay_payment SET not_before = now() + interval '1 minute', node = 'full' WHERE action_id = $1`, waiting.ID)
	if got := why(waiting.ID); !strings.Contains(got["any"], "not sent before") || !strings.Contains(got["free"], "only through full") {
		t.Errorf("%v", got)
	}
	exec(`UPDATE relay_payment SET expires_at = now() WHERE action_id = $1`, waiting.ID)
	if got := why(waiting.ID); len(got) != 1 || !strings.Contains(got["any"], "has expired") || !strings.Contains(got["any"], "once full says") {
		t.Errorf("%v", got)
	}
}
