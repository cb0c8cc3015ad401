package main

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

var advised = regexp.MustCompile("`(holdfast [^`]*)`")

// The commands that reconcile recommends are valid: the program's own parser accepts them.
func TestTheAdviceCanBeFollowed(t *testing.T) {
	t.Parallel()
	commands := 0
	for _, k := range reconcile.Kinds() {
		if k.Means == "" || k.Mend == "" || k.Checked == "" {
			t.Errorf("invariant %d, %s says too little", k.Invariant, k.Name)
		}
		advice := strings.NewReplacer("{action}", "42", "{other}", "43", "{node}", "alice").Replace(k.Mend)
		for _, m := range advised.FindAllStringSubmatch(advice, -1) {
			commands++
			var c cli
			parser, err := kong.New(&c, kong.Name("holdfast"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(words(m[1])[1:]); err != nil {
				t.Errorf("invariant %d, %s advises %s: %v", k.Invariant, k.Name, m[1], err)
			}
		}
	}
	if commands < 50 {
		t.Errorf("%d commands were found: does this test still look at the right place?", commands)
	}
}

// words are a command's words, as a shell splits them.
func words(command string) (all []string) {
	for i, part := range strings.Split(command, `"`) {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// The JSON keeps its form, and says of each break what it is, whom it concerns and how to mend it.
func TestReconcileTellsWhatIsBroken(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	type answer struct {
		OK         bool
		Invariants []struct {
			ID              int
			Checked, Broken *int64
			Breaks          []map[string]any
		}
	}
	look := func(want int) (got answer) {
		t.Helper()
		code, out, said := command(t, env, "reconcile", "--json", "--again=0s")
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != want || len(got.Invariants) != 10 || strings.Count(out, "\n") != 1 {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
		}
		for i, v := range got.Invariants {
			if v.ID != i+1 || v.Checked == nil || v.Broken == nil {
				t.Errorf("%+v", v)
			}
		}
		return got
	}
	if got := look(exitOK); !got.OK {
		t.Errorf("%+v", got)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE account SET balance = 5 WHERE id = $1`, ledger.LossSats); err != nil {
		t.Fatal(err)
	}
	got := look(exitFound)
	if broken := got.Invariants[0]; got.OK || *broken.Broken != 1 || len(broken.Breaks) != 1 || broken.Breaks[0]["kind"] != "balance" ||
		!strings.Contains(broken.Breaks[0]["explanation"].(string), "loss sats") || broken.Breaks[0]["mend"] == "" {
		t.Errorf("%+v", got)
	}
}

// The worker reconciles by itself, and exposes the result.
func TestTheServiceReconciles(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `UPDATE account SET balance = 5 WHERE id = $1`, ledger.LossSats); err != nil {
		t.Fatal(err)
	}
	s := serve(t, settings(pool, "HOLDFAST_RECONCILE_EVERY=1s"))
	s.await("the metrics", func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(body, `holdfast_reconcile_broken{invariant="1",kind="total"} 1`) && strings.Contains(body, `holdfast_reconcile_broken{invariant="9",kind="settled"} 0`) &&
			strings.Contains(body, "holdfast_reconcile_last_run_timestamp_seconds ") && strings.Contains(body, "holdfast_reconcile_duration_seconds ")
	})
	s.await("the log", func() bool {
		return strings.Contains(s.said(), "an invariant is broken") && strings.Contains(s.said(), `"level":"ERROR"`)
	})
}

// What the nodes have taken and paid is compared as far back as is wanted, and where one cannot be asked nobody is told
// that all is well.
func TestReconcileAsksTheNodes(t *testing.T) {
	t.Parallel()
	node, nodes := newNodeAt(t, func() time.Time { return time.Now().Add(-72 * time.Hour) })
	env := settings(pgtest.New(t), nodes)
	look := func(env []string, want int, kinds ...string) (said string) {
		t.Helper()
		code, out, said := command(t, env, "reconcile", "--again=0s", "--since=168h")
		var found []string
		for _, m := range regexp.MustCompile(`"kind":"([a-z-]+)"`).FindAllStringSubmatch(out, -1) {
			found = append(found, m[1])
		}
		if code != want || !slices.Equal(found, kinds) {
			t.Errorf("exit code %d, want %d, found %v, want %v\n%s%s", code, want, found, kinds, out, said)
		}
		return said
	}
	look(env, exitOK)
	taken := paidaction.Preimage{9}
	_, err := node.Node.OpenInvoice(t.Context(), paidaction.InvoiceRequest{Preimage: taken, Hash: taken.Hash(), Amount: 5_000, Memo: "forgotten", Expiry: time.Hour, CLTVDelta: 80})
	if err := errors.Join(err, node.Node.PayHash(taken.Hash(), simnode.Payment{})); err != nil {
		t.Fatal(err)
	}
	look(env, exitFound, "not-issued")
	node.ScriptWasPaid(paidaction.Preimage{8}, 5_000, 1)
	look(env, exitFound, "not-recorded", "not-issued")
	if code, out, _ := command(t, env, "reconcile", "--again=0s"); strings.Contains(out, `"kind":"not-issued"`) {
		t.Errorf("what was taken three days ago is told of the last day: exit code %d\n%s", code, out)
	}
	away := settings(pgtest.New(t), regexp.MustCompile(`localhost:[0-9]+`).ReplaceAllString(nodes, "localhost:1"))
	if said := look(away, exitFailed); !strings.Contains(said, "not everything could be looked at: node sim does not answer") {
		t.Error(said)
	}
}

// A span that lies in the future has nothing in it: what a node took or paid would go unseen, and all would seem well.
func TestReconcileRefusesToLookAtNothing(t *testing.T) {
	t.Parallel()
	env := settings(pgtest.New(t))
	for _, wrong := range []string{"--since=-168h", "--since=0", "--grace=-1s", "--again=-1s"} {
		flag, _, _ := strings.Cut(wrong, "=")
		if code, out, said := command(t, env, "reconcile", wrong); code != exitUsage || out != "" || !strings.Contains(said, flag) {
			t.Errorf("%s: exit code %d\n%s%s", wrong, code, out, said)
		}
	}
}

// What an operator books as lost by hand is listed with the reason that was given.
func TestALossBookedByHandSaysWhy(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES
			(NULL, 8, 0, 500000, 'paid before the restore', now()), (NULL, 8, 0, 1000, 'a fee that was not booked', now());
		UPDATE account SET balance = balance - 501000 WHERE id = 8;
		UPDATE account SET balance = balance + 501000 WHERE id = 0`); err != nil {
		t.Fatal(err)
	}
	code, out, said := command(t, settings(pool), "reconcile", "--again=0s")
	var report reconcile.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitOK || len(report.Losses) != 2 ||
		report.Losses[0] != (reconcile.Loss{Msat: 1_000, Reason: "a fee that was not booked"}) || report.Losses[1] != (reconcile.Loss{Msat: 500_000, Reason: "paid before the restore"}) {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
}
