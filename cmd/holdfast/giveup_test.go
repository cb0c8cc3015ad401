package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// An operator gives up what waits at a node that was made anew: one action, or all of that node.
func TestWhatWaitsAtANodeMadeAnewIsGivenUp(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100_000, 0)
	donate := func(method paidaction.Method) int64 {
		return w.Pay(user, community.KindDonate, community.DonateArgs{Sats: 10}, method).ID
	}
	one, two, three, paid := donate(paidaction.Pessimistic), donate(paidaction.Pessimistic), donate(paidaction.Pessimistic), donate("")
	_, node := newNode(t)
	env := settings(w.Pool, node)
	args := func(more ...string) []string {
		return append([]string{"actions", "give-up", "--reason", "Our node has lost its data."}, more...)
	}
	for says, wrong := range map[string][]string{
		"--yes":                         args(number(one)),
		"--reason":                      {"actions", "give-up", number(one), "--yes"},
		"must say what":                 {"actions", "give-up", number(one), "--reason= ", "--yes"},
		"name either actions or --node": args("--yes"),
		"actions or --node":             args("--yes", "--node", "sim", number(one)),
	} {
		if code, out, said := command(t, env, wrong...); code != exitUsage || out != "" || !strings.Contains(said, says) {
			t.Errorf("%s: exit code %d\n%s%s", says, code, out, said)
		}
	}
	if code, out, said := command(t, env, args("--yes", "--node", "other")...); code != exitFailed || out != "" || !strings.Contains(said, "not configured") {
		t.Errorf("of a node that is not there: exit code %d\n%s%s", code, out, said)
	}
	w.WantState(one, paidaction.PendingHeld)
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO lightning_node (name, public_key, changed_at) VALUES ('sim', '02aa', now())
		ON CONFLICT (name) DO UPDATE SET public_key = '02aa'`); err != nil {
		t.Fatal(err)
	}
	if code, out, said := command(t, env, args("--yes", number(one))...); code != exitFailed || out != "" || !strings.Contains(said, "--replaced sim") {
		t.Errorf("at another node: exit code %d\n%s%s", code, out, said)
	}
	w.WantState(one, paidaction.PendingHeld)

	type result struct {
		GivenUp []int64 `json:"given_up"`
		Left    []struct {
			ID  int64
			Why string
		}
	}
	code, out, said := command(t, env, args("--yes", "--replaced", "sim", "999", number(paid))...)
	var got result
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFailed || len(got.GivenUp) != 0 || len(got.Left) != 2 ||
		!strings.HasPrefix(said, "holdfast: there is no action 999") {
		t.Errorf("of none that can be given up: exit code %d, %v\n%s%s", code, err, out, said)
	}
	code, out, said = command(t, env, args("--yes", "--replaced", "sim", number(one), number(paid), "999")...)
	got = result{}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFound || !reflect.DeepEqual(got.GivenUp, []int64{one}) ||
		len(got.Left) != 2 || got.Left[0].ID != paid || !strings.Contains(got.Left[1].Why, "there is no action 999") {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	w.WantState(two, paidaction.PendingHeld)
	code, out, said = command(t, env, args("--yes", "--replaced", "sim", "--node", "sim")...)
	got = result{}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK || !reflect.DeepEqual(got.GivenUp, []int64{two, three}) || len(got.Left) != 0 {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	for _, id := range []int64{one, two, three} {
		if pa := w.WantState(id, paidaction.Failed); pa.Failure.Message != "Our node has lost its data." {
			t.Errorf("its payer is told %+v", pa.Failure)
		}
	}
	_, out, _ = command(t, env, "commands", "--limit", "3")
	var noted []commandShown
	if err := json.Unmarshal([]byte(out), &noted); err != nil || len(noted) != 3 ||
		noted[0].Failure != nil || noted[1].Failure == nil || noted[2].Failure == nil ||
		*noted[1].Failure != "1 of 3 actions were given up: something is left that its output tells of" ||
		!strings.HasPrefix(*noted[2].Failure, "there is no action 999") {
		t.Errorf("noted, the newest first: %v\n%s", err, out)
	}
	code, out, said = command(t, env, "reconcile")
	var report reconcile.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitOK || !report.OK {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
}
