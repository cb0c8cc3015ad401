package main

import (
	"errors"
	"log/slog"
	"maps"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// A user who withdraws more than nodes can really send, although their balances suggest it, and again once the money is
// back, delays nobody else.
func TestAWithdrawalOfTooMuchKeepsNoNodeFromOthers(t *testing.T) {
	t.Parallel()
	w := enginetest.NewNodes(t, []string{"one", "two"}, paidaction.Settings{})
	var members []pool.Member
	for _, n := range w.Nodes {
		n.SetSendable(100_000_000)
		n.SetReserved(50_000_000)
		members = append(members, pool.Member{Name: n.Name(), Node: n, Slots: 10})
	}
	locker, err := lock.New(lock.NewMemory(0), lock.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close() })
	nodes, err := pool.New(pool.Config{Nodes: members, Locker: locker, Register: pool.NewRegister(w.Pool, w.Clock.Now), Settings: pool.DefaultSettings(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nodes.Close)
	w.Run(w.NewRelay(func(c *relay.Config) { c.Leases = leases{nodes} }))

	carol := w.Network.AddReceiver("carol")
	withdraw := func(user int64, amount paidaction.Msat) *paidaction.PaidAction {
		return w.Pay(user, community.KindWithdraw, community.WithdrawArgs{To: carol.Issue(simnode.Ask{Amount: amount}).Bolt11, MaxFeeSats: 5}, "")
	}
	rich, other := w.User("rich", 0, 90_000_000), w.User("other", 0, 1_000_000)
	w.Await(withdraw(rich, 60_000_000).ID, paidaction.Failed)
	w.Await(withdraw(other, 20_000).ID, paidaction.Paid) // and the clock has stood still
	again := withdraw(rich, 60_000_000)
	w.Await(withdraw(other, 20_000).ID, paidaction.Paid)
	w.WantState(again.ID, paidaction.Forwarding)
	all, err := nodes.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if !s.Eligible {
			t.Errorf("node %s gets no payments: %s", s.Name, s.Why)
		}
	}
}

// The relay keeps withdrawals from taking all of a node's slots, so it has to know how many these are.
func TestTheRelayKnowsHowManySlotsANodeHas(t *testing.T) {
	t.Parallel()
	if got := assemble(t, "HOLDFAST_NODE_SLOTS=3").relay.Places; !maps.Equal(got, map[string]int{"sim": 3}) {
		t.Errorf("%v", got)
	}
}

// What hangs at a node when it is switched to sending no more is followed to its end, though no node of the process sends.
func TestWhatIsUnderWayIsFollowedWhereNoNodeSends(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{MaxForwards: 10})
	author := w.User("author", 100_000, 0)
	w.Wallets.Add(author).Ask.Act = simnode.Splits
	zap := w.Pay(w.User("zapper", 0, 0), community.KindZap, community.ZapArgs{Item: w.Post(author, "a post"), Sats: 100}, paidaction.P2P)
	if err := w.Node.PayHash(zap.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(zap.ID)
	stop := w.Run(w.Relay)
	w.Await(zap.ID, paidaction.Paid)
	row := w.AwaitStage(zap.ID, "pending_confirmation")
	stop()
	node, setting := newNode(t)
	node.ScriptWasPaid(paidaction.Preimage(row.Preimage), 70_000, 1_000)
	serve(t, settings(w.Pool, setting+";send=no"))
	w.AwaitStage(zap.ID, "completed")
}

// While the store of the locks is away no node is leased, so no payment leaves, though the nodes look eligible: that calls
// somebody. That payers wait in vain for their turn, because a node is slow, does not.
func TestNothingIsSentWhileTheStoreOfTheLocksIsAway(t *testing.T) {
	t.Parallel()
	s := assemble(t, "HOLDFAST_LOCK_STRATEGY=redis", "HOLDFAST_LOCK_REDIS_URL=redis://127.0.0.1:1", "HOLDFAST_NODE_MIN_OUTBOUND=0")
	health, err := s.places.Health(t.Context())
	if err != nil || len(health) != 1 || !health[0].Eligible {
		t.Fatalf("%+v, %v", health, err)
	}
	if _, err := s.relay.Leases.Lease(t.Context(), health[0].Name); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("the node is leased, %v", err)
	}
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      struct{ Severity string }
			}
		}
	}
	if err := yaml.Unmarshal(ops(t, "alerts.yml"), &file); err != nil {
		t.Fatal(err)
	}
	var counts *regexp.Regexp // what the alert counts
	for _, rule := range file.Groups[0].Rules {
		if rule.Alert == "HoldfastLockStoreAway" {
			if rule.Labels.Severity != "page" {
				t.Errorf("it is a %s", rule.Labels.Severity)
			}
			counts = regexp.MustCompile(regexp.MustCompile(`status=~"([^"]+)"`).FindStringSubmatch(rule.Expr)[1])
		}
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if status := m.GetLabel(); f.GetName() == "holdfast_lock_acquisitions_total" && !counts.MatchString(status[0].GetValue()) {
				t.Errorf("%s is not counted", m)
			}
		}
	}
	if counts.MatchString("timeout") {
		t.Errorf("the alert counts %s", counts)
	}
}
