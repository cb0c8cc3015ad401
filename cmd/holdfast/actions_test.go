package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/operator"
)

// A deadline is shown as long as it binds. An action that has ended has none, though its row keeps it.
func TestAnActionThatHasEndedHasNoDeadline(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `
		ALTER TABLE paid_action DISABLE TRIGGER refuse_beginning;
		INSERT INTO usr (name, created_at) VALUES ('alice', now());
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, deadline_height, args, failure_code)
			SELECT 'ITEM_CREATE', 'PESSIMISTIC', 'PESSIMISTIC', state::action_state, 1, 1000, now(), now(), now(), 100, '{}', CASE WHEN state = 'FAILED' THEN 'EXPIRED' END
			FROM unnest(ARRAY['PENDING_HELD', 'FAILED']) AS state`); err != nil {
		t.Fatal(err)
	}
	env := settings(pool)
	for _, state := range []string{"", "PENDING_HELD", "FAILED"} {
		args := []string{"actions", "list"}
		if state != "" {
			args = append(args, "--state", state)
		}
		code, out, said := command(t, env, args...)
		var list []operator.Action
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK || len(list) == 0 {
			t.Errorf("%s: exit code %d, %v\n%s%s", state, code, err, out, said)
		}
		for _, a := range list {
			if (a.Deadline != nil) != (a.State == "PENDING_HELD") || (state != "" && a.State != state) {
				t.Errorf("%s: %+v", state, a)
			}
		}
	}
	for id, open := range map[string]bool{"1": true, "2": false} {
		code, out, said := command(t, env, "actions", "show", id)
		var whole operator.WholeAction
		if err := json.Unmarshal([]byte(out), &whole); err != nil || code != exitOK || (whole.Deadline != nil) != open || (whole.DeadlineHeight != nil) != open {
			t.Errorf("%s: exit code %d, %v\n%s%s", id, code, err, out, said)
		}
	}
}

// Numbers that would make a list look empty or full, and names that would not be seen, are told in words.
func TestOddArgumentsAreRefusedInWords(t *testing.T) {
	t.Parallel()
	env := settings(pgtest.New(t))
	for _, odd := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"actions", "list", "--before=-1"}, exitUsage, "--before"},
		{[]string{"relay", "list", "--before=-1"}, exitUsage, "--before"},
		{[]string{"actions", "stuck", "--grace=-1h"}, exitUsage, "--grace"},
		{[]string{"locks", "--waiters=-1"}, exitUsage, "--waiters"},
		{[]string{"actions", "write-off", "1", "--reason= ", "--yes"}, exitUsage, "--reason"},
		{[]string{"users", "keys", ""}, exitFailed, `no user ""`},
	} {
		if code, out, said := command(t, env, odd.args...); code != odd.code || out != "" || !strings.Contains(said, odd.says) || strings.Contains(said, "SQLSTATE") {
			t.Errorf("%v: exit code %d\n%s%s", odd.args, code, out, said)
		}
	}
}
