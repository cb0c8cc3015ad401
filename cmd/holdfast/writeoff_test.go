package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// An operator writes off what a node has lost: the node that now answers under its name has never heard of it.
func TestWhatANodeHasLostIsWrittenOff(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 100_000)
	inv := w.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 20_000, Act: simnode.Splits})
	pa := w.Pay(user, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	stop := w.Run(w.Relay)
	w.Await(pa.ID, paidaction.Forwarded)
	stop()
	_, nodes := newNode(t)
	env := settings(w.Pool, nodes)
	id := number(pa.ID)

	if code, _, said := command(t, env, "actions", "write-off", id, "--yes"); code != exitUsage || !strings.Contains(said, "--reason") {
		t.Errorf("without a reason: exit code %d, %s", code, said)
	}
	if code, _, said := command(t, env, "actions", "write-off", id, "--reason", "the disk is gone"); code != exitUsage || !strings.Contains(said, "--yes") {
		t.Errorf("without --yes: exit code %d, %s", code, said)
	}
	for name, c := range map[string]struct {
		nodes []string
		says  string
	}{
		"no node":                     {nil, "no node is configured"},
		"only a node of another name": {[]string{strings.Replace(nodes, "=sim=", "=other=", 1)}, "not configured"},
		"a node that is away":         {[]string{regexp.MustCompile(`localhost:[0-9]+`).ReplaceAllString(nodes, "localhost:1")}, "cannot be reached"},
	} {
		code, out, said := command(t, settings(w.Pool, c.nodes...), "actions", "write-off", id, "--reason", "the disk is gone", "--yes")
		if code != exitFailed || out != "" || !strings.Contains(said, c.says) {
			t.Errorf("with %s: exit code %d\n%s%s", name, code, out, said)
		}
	}
	// To settings that lead to another node everything looks lost.
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO lightning_node (name, public_key, changed_at) VALUES ('sim', '02aa', now())
		ON CONFLICT (name) DO UPDATE SET public_key = '02aa'`); err != nil {
		t.Fatal(err)
	}
	for _, replaced := range [][]string{nil, {"--replaced", "other"}} {
		code, out, said := command(t, env, append([]string{"actions", "write-off", id, "--reason", "the disk is gone", "--yes"}, replaced...)...)
		if code != exitFailed || out != "" || !strings.Contains(said, "was known as 02aa") || !strings.Contains(said, "--replaced sim") {
			t.Errorf("at another node, %v: exit code %d\n%s%s", replaced, code, out, said)
		}
	}
	w.WantState(pa.ID, paidaction.Forwarded)
	// The service goes on meanwhile, with a lock that only one process may have.
	locks, err := postgres.OpenMemory(w.Ctx, w.Pool.Config().ConnString(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close() }()
	env = append(env, "HOLDFAST_LOCK_STRATEGY=memory")
	code, out, said := command(t, env, "actions", "write-off", id, "--reason", "the disk is gone", "--replaced", "sim", "--yes")
	var done map[string]int64
	if err := json.Unmarshal([]byte(out), &done); err != nil || code != exitOK || done["written_off"] != pa.ID || done["lost_msat"] != 5_000 {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	w.WantState(pa.ID, paidaction.Paid)
	code, _, said = command(t, env, "actions", "write-off", id, "--reason", "the disk is gone", "--replaced", "sim", "--yes")
	if code != exitFailed || !strings.Contains(said, "is PAID") {
		t.Errorf("once more: exit code %d, %s", code, said)
	}
	code, out, said = command(t, env, "reconcile")
	var report reconcile.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitOK || !report.OK || report.LostMsat != 5_000 || len(report.Losses) != 1 ||
		report.Losses[0].Reason != "the disk is gone" {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	if code, _, said = command(t, env, "actions", "write-off", "999", "--reason", "the disk is gone", "--replaced", "sim", "--yes"); code != exitFailed || !strings.Contains(said, "there is no action 999") {
		t.Errorf("exit code %d, %s", code, said)
	}
}

// held is a donation whose payment its node holds.
func held(w *enginetest.World) *paidaction.PaidAction {
	w.Helper()
	pa := w.Pay(w.User("payer", 0, 0), community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.Pessimistic)
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		w.Fatal(err)
	}
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	return pa
}

// What was done for a payment that a lost node held counts, and its operator finds the reason again.
func TestWriteOffOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := held(w)
	_, nodes := newNode(t)
	env, id := settings(w.Pool, nodes), number(pa.ID)
	code, out, said := command(t, env, "actions", "write-off", id, "--reason", "the disk is gone", "--replaced", "sim", "--yes")
	var done map[string]int64
	if err := json.Unmarshal([]byte(out), &done); err != nil || code != exitOK || done["lost_msat"] != int64(pa.Cost) {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	code, out, said = command(t, env, "actions", "show", id)
	var shown operator.WholeAction
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != exitOK || shown.State != string(paidaction.Paid) ||
		shown.FailureMessage == nil || *shown.FailureMessage != "the disk is gone" {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
}

// Who a node is is remembered also where it sends nothing: else settings that lead to another one would do.
func TestANodeThatDoesNotSendIsKnown(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	node, nodes := newNode(t)
	key, err := node.Client().PublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, settings(w.Pool, nodes+";send=no"))
	s.await("the node's key", func() bool {
		return w.Count(`SELECT count(*) FROM lightning_node WHERE name = 'sim' AND public_key = $1`, key) == 1
	})
}

// A node that does not say who it is may be another than the one that holds the payment.
func TestANodeThatDoesNotSayWhoItIsProvesNothing(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := held(w)
	node, nodes := newNode(t)
	for says, unsaid := range map[string]func(){
		"the macaroon does not allow this": func() { node.Deny("/lnrpc.Lightning/GetInfo") },
		"Loading block index":              func() { node.Deny(); node.SetChainless(true) },
	} {
		unsaid()
		code, out, said := command(t, settings(w.Pool, nodes), "actions", "write-off", number(pa.ID), "--reason", "the disk is gone", "--yes")
		if code != exitFailed || out != "" || !strings.Contains(said, says) || !strings.Contains(said, "--replaced sim") {
			t.Errorf("exit code %d\n%s%s", code, out, said)
		}
		w.WantState(pa.ID, paidaction.Held)
	}
}

// Settings that are refused leave nothing behind: least of all the print of a secret that is none, to which the database
// would then be bound.
func TestWritingOffWithoutASecretChangesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, nodes := newNode(t)
	code, _, said := command(t, append(settings(pool, nodes), "HOLDFAST_DEVELOPMENT=0"), "actions", "write-off", "1", "--reason", "the disk is gone", "--yes")
	if code != exitUsage || !strings.Contains(said, "HOLDFAST_SECRET") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	var kept int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM secret_print`).Scan(&kept); err != nil || kept != 0 {
		t.Errorf("%d prints of a secret are kept, %v", kept, err)
	}
}
