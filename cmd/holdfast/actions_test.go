package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
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

// Whoever sees how an invite was redeemed cannot take the gifts that are left of it.
func TestAnInvitesCodeIsNotShown(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO usr (name, created_at) VALUES ('inviter', now()), ('newcomer', now());
		ALTER TABLE paid_action DISABLE TRIGGER refuse_beginning;
		INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, result)
			VALUES ('INVITE_GIFT', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, 1000, now(), now(), '{"code": "c0dec0dec0dec0dec0dec0dec0dec0de", "user": 2}', '{}')`); err != nil {
		t.Fatal(err)
	}
	for _, inJSON := range []bool{false, true} {
		var out strings.Builder
		e := &environment{out: &out, json: inJSON, log: slog.New(slog.DiscardHandler),
			config: &config.Config{DatabaseURL: config.Database(pool.Config().ConnString()), DatabasePool: 4}}
		if err := (actionsShow{ID: 1}).Run(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "c0de") || !strings.Contains(out.String(), "user") {
			t.Errorf("in JSON %t:\n%s", inJSON, &out)
		}
	}
}

// What payers say is shown to operators, but their terminals do not obey it: neither its control characters nor those
// that turn a line around.
func TestATerminalDoesNotObeyWhatAPayerSays(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	said := "é \x1b[2J\u009b2J\u202e\U000e0041"
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, deadline, args)
			VALUES ('RECEIVE', 'PESSIMISTIC', 'PESSIMISTIC', 'PENDING_HELD', 1000, now(), now(), now(), to_jsonb($1::text))`, said); err != nil {
		t.Fatal(err)
	}
	for _, inJSON := range []bool{false, true} {
		var out strings.Builder
		e := &environment{out: &out, json: inJSON, log: slog.New(slog.DiscardHandler),
			config: &config.Config{DatabaseURL: config.Database(pool.Config().ConnString()), DatabasePool: 4}}
		if err := (actionsShow{ID: 1}).Run(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || !strings.Contains(out.String(), "é") {
			t.Errorf("in JSON %t: at %d of\n%q", inJSON, i, &out)
		}
		var whole operator.WholeAction
		var shown string
		if inJSON && (json.Unmarshal([]byte(out.String()), &whole) != nil || json.Unmarshal(whole.Args, &shown) != nil || shown != said) {
			t.Errorf("it says something else: %q", shown)
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
