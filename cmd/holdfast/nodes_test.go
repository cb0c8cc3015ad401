package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// listNodes runs holdfast nodes.
func listNodes(t *testing.T, env []string) []shownNode {
	t.Helper()
	code, out, said := command(t, env, "nodes")
	var list []shownNode
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	return list
}

func TestNodes(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	_, node := newNode(t)
	const away = ",away=127.0.0.1:1"
	_, files, _ := strings.Cut(node, ";")
	env := settings(database, node+";slots=2"+away+";"+files+";send=no", "HOLDFAST_NODE_PROBE_TIMEOUT=2s", "HOLDFAST_NODE_MIN_OUTBOUND=0")

	store, err := postgres.Open(t.Context(), postgres.Options{DSN: database.Config().ConnString()})
	if err != nil {
		t.Fatal(err)
	}
	locker, err := lock.New(store, lock.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	for _, key := range []string{pool.Key("sim", 1), pool.Key("simon", 0), "payer:1"} {
		if _, err := locker.Acquire(t.Context(), key, lock.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	list := listNodes(t, env)
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	if n := list[0]; n.Name != "sim" || !n.Eligible || n.Reason != "" || n.InFlight == nil || *n.InFlight != 1 || n.Slots != 2 || !n.Synced || len(n.PublicKey) != 66 {
		t.Errorf("%+v", n)
	}
	if n := list[1]; n.Name != "away" || n.Eligible || n.Reason != pool.Receives || n.Slots != 0 || n.Synced || !strings.Contains(n.Why, "it does not answer") {
		t.Errorf("%+v", n)
	}
	var known int
	if err := database.QueryRow(t.Context(), `SELECT count(*) FROM lightning_node`).Scan(&known); err != nil || known != 0 {
		t.Errorf("the list has written down %d nodes, %v", known, err)
	}
	// A node is known once a paying process has met it.
	if _, err := database.Exec(t.Context(), `INSERT INTO lightning_node (name, public_key, changed_at) VALUES ('sim', $1, now())`, list[0].PublicKey); err != nil {
		t.Fatal(err)
	}
	if n := listNodes(t, append(env, "HOLDFAST_LOCK_STRATEGY=memory"))[0]; n.InFlight != nil {
		t.Errorf("leases that cannot be seen were counted: %+v", n)
	}

	for _, c := range []struct {
		args   []string
		reason pool.Reason
	}{
		{[]string{"drain", "sim"}, pool.Draining}, {[]string{"undrain", "sim"}, ""},
		{[]string{"disable", "sim", "--reason", "it smokes"}, pool.Disabled}, {[]string{"enable", "sim"}, ""},
	} {
		code, out, said := command(t, env, append([]string{"nodes"}, c.args...)...)
		if want := fmt.Sprintf("%q: %q", c.args[0]+map[bool]string{true: "d", false: "ed"}[strings.HasSuffix(c.args[0], "e")], "sim"); code != exitOK || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d\n%s%s", c.args, code, out, said)
		}
		if n := listNodes(t, env)[0]; n.Reason != c.reason || n.Eligible != (c.reason == "") || (c.reason == pool.Disabled) != strings.Contains(n.Disabled, "it smokes") {
			t.Errorf("after %v: %+v", c.args, n)
		}
	}
	if code, out, _ := command(t, env, "nodes", "disable", "sim", "--reason", " "); code != exitUsage || out != "" || listNodes(t, env)[0].Disabled != "" {
		t.Errorf("a node was disabled without a reason: exit code %d\n%s", code, out)
	}
	for _, lever := range [][]string{{"drain", "mallory"}, {"undrain", "mallory"}, {"enable", "mallory"}, {"disable", "mallory", "--reason", "none"}} {
		if code, _, said := command(t, env, append([]string{"nodes"}, lever...)...); code != exitFailed || !strings.Contains(said, `There is no node "mallory"`) {
			t.Errorf("%v: exit code %d\n%s", lever, code, said)
		}
	}
}

// If an operator's shell has another node's address under the name of a node, the operator is told so, and the service
// goes on paying through its own.
func TestTheListOfNodesOnlyReads(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	_, node := newNode(t)
	const ours = "02aa"
	if _, err := database.Exec(t.Context(), `INSERT INTO lightning_node (name, public_key, changed_at) VALUES ('sim', $1, '2026-01-01')`, ours); err != nil {
		t.Fatal(err)
	}
	n := listNodes(t, settings(database, node, "HOLDFAST_NODE_MIN_OUTBOUND=0"))[0]
	if n.Reason != pool.Stranger || n.Eligible || n.PublicKey != ours || !strings.Contains(n.Disabled, "was known as "+ours) {
		t.Errorf("%+v", n)
	}
	var untouched bool
	if err := database.QueryRow(t.Context(), `SELECT public_key = $1 AND other_key IS NULL AND disabled_reason IS NULL AND changed_at = '2026-01-01'
		FROM lightning_node`, ours).Scan(&untouched); err != nil || !untouched {
		t.Errorf("the list has changed what is known of the node, %v", err)
	}
}

// What is paid to another node that answers under a name may not be ours: it is asked for no invoice, by no process, until an
// operator says that it is the right one.
func TestNoInvoiceIsAskedOfAnotherNode(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	_, node := newNode(t)
	if _, err := database.Exec(t.Context(), `INSERT INTO lightning_node (name, public_key, changed_at) VALUES ('sim', '02aa', '2026-01-01')`); err != nil {
		t.Fatal(err)
	}
	s := serve(t, settings(database, node, "HOLDFAST_ROLES=api"))
	s.awaitReady(http.StatusOK)
	post := func() string {
		return s.graphql(http.Header{}, `mutation { createPost(title: "Hello") { id invoice { bolt11 } } }`, nil)
	}
	if body := post(); strings.Contains(body, `"bolt11"`) || !strings.Contains(body, "LIGHTNING_UNAVAILABLE") {
		t.Error(body)
	}
	var key string
	if err := database.QueryRow(t.Context(), `SELECT other_key FROM lightning_node WHERE disabled_reason IS NOT NULL`).Scan(&key); err != nil {
		t.Fatal(err)
	}
	if code, out, said := command(t, settings(database, node), "nodes", "enable", "sim", "--key", key); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, said)
	}
	s.await("it is asked for an invoice", func() bool { return strings.Contains(post(), `"bolt11"`) })
}

// A payment that its receiver lets hang no longer has a slot. An operator who stopped the node as soon as no slot is
// used would lose this payment, and what is held for it.
func TestANodeIsNeededForWhatHangs(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{MaxForwards: 10})
	author := w.User("author", 100_000, 0)
	post, wallet := w.Post(author, "a post"), w.Wallets.Add(author)
	wallet.Ask.Act = simnode.Holds
	pa := w.Pay(w.User("payer", 0, 0), community.KindZap, community.ZapArgs{Item: post, Sats: 100}, paidaction.P2P)
	if err := w.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	stop := w.Run(w.Relay)
	(&server{t: t}).await("the receiver to hold the payment", func() bool { return wallet.Receiver.Receipt(pa.Invoice.Hash).Held > 0 })
	stop()
	_, node := newNode(t)
	if n := listNodes(t, settings(w.Pool, node))[0]; *n.InFlight != 0 || n.UnderWay != 1 || n.Holds != 1 {
		t.Errorf("%d in flight, %d under way, %d hold invoices", *n.InFlight, n.UnderWay, n.Holds)
	}
	// What may have been lost on its way to the node waits for this node, and for no other.
	for _, c := range []struct {
		waitsFor string
		underWay int
	}{{"'sim'", 1}, {"NULL", 0}, {"'other'", 0}} {
		if _, err := w.Pool.Exec(w.Ctx, `UPDATE relay_payment SET stage = 'incoming', node = `+c.waitsFor); err != nil {
			t.Fatal(err)
		}
		if n := listNodes(t, settings(w.Pool, node))[0]; n.UnderWay != c.underWay {
			t.Errorf("%d under way while a payment waits for %s, want %d", n.UnderWay, c.waitsFor, c.underWay)
		}
	}
}

func TestNodesForPeople(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := printNodes(&environment{out: &out}, []shownNode{
		{Name: "alice", Eligible: true, InFlight: new(int64(3)), Slots: 10, UnderWay: 4, Holds: 7, Outbound: 5_000_000, Height: 144},
		{Name: "bob", Why: "it is being drained", Slots: 1, Height: 143, CoolingUntil: new(time.Unix(0, 0))},
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"alice  yes    3          10     4          7      5000000", "bob    no     -          1      0          0", "143     it is being drained"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
