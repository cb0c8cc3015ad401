package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// The bound of these tests, and less than that: enough for each payment of them.
const (
	leastOutbound = 1_000_000
	lowOutbound   = 900_000
)

// bounded has nodes used only while they can send as much as the bound, as the pool does.
func bounded(c *relay.Config) {
	c.Settings.MinOutbound, c.Leases = leastOutbound, poolLeases{c.Leases, c.Nodes}
}

// poolLeases refuse nodes that can send less than the bound.
type poolLeases struct {
	relay.Leases
	nodes relay.Nodes
}

func (l poolLeases) Lease(ctx context.Context, name string) (relay.Lease, error) {
	node, err := l.nodes.Sender(name)
	if err != nil {
		return nil, err
	}
	if sendable, err := node.Sendable(ctx); err != nil || sendable < leastOutbound {
		return nil, errors.Join(relay.ErrNoNode, err)
	}
	return l.Leases.Lease(ctx, name)
}

// bounding has a new relay keep to the bound.
func (b *bundle) bounding(change ...func(*relay.Config)) {
	b.Helper()
	b.Relay = b.NewRelay(append(change, bounded)...)
	b.Engine.Relay = b.Relay
}

// dries has a node be able to send too little from now on, and lets the time pass for which its last answer counts.
func (b *bundle) dries(node *simnode.Node) {
	node.SetSendable(lowOutbound)
	b.Clock.Advance(2 * time.Second)
}

// A node that can send less than the bound is given nothing, so nothing is wrapped that only it could send: no wallet is
// asked, and another method is taken. Once it can send enough, zaps are wrapped again.
func TestWhatOnlyANodeBelowTheBoundCouldSendIsNotWrapped(t *testing.T) {
	b := setup(t)
	registry := prometheus.NewRegistry()
	b.bounding(func(c *relay.Config) { c.Metrics = relay.NewMetrics(registry) })
	b.Node.SetSendable(lowOutbound)
	asks := func() paidaction.Method {
		t.Helper()
		return b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 300}, "").Method
	}
	for range 2 {
		if m := asks(); m != paidaction.Optimistic || len(b.wallet.Issued) != 0 {
			t.Errorf("a zap is paid by %s, and the wallet gave %d invoices", m, len(b.wallet.Issued))
		}
	}
	if n := b.Node.Count(simnode.MethodSendable, paidaction.Hash{}); n != 1 {
		t.Errorf("the node is asked %d times in the same moment", n)
	}
	if n := locktest.Metric(t, registry, "holdfast_relay_refused_total", "LOW_OUTBOUND"); n != 2 {
		t.Errorf("counted %v times", n)
	}
	b.Node.SetSendable(leastOutbound)
	b.Clock.Advance(2 * time.Second)
	if m := asks(); m != paidaction.P2P {
		t.Errorf("it can send enough, and a zap is paid by %s", m)
	}
}

// Where another node can send enough, that one alone looks for a route.
func TestNoProbeLeavesANodeBelowTheBound(t *testing.T) {
	b := setup(t, "one", "two")
	b.bounding()
	b.Node.SetSendable(lowOutbound)
	pa := b.zap()
	if one, two := b.Node.Count(simnode.MethodEstimate, pa.Invoice.Hash), b.Nodes[1].Count(simnode.MethodEstimate, pa.Invoice.Hash); one != 0 || two != 1 {
		t.Errorf("%d probes leave the one below the bound, %d the other", one, two)
	}
}

// What the node can send drops below the bound once the payer's payment is held. It goes back at once, and not when the
// receiver's invoice has expired; no wallet is blamed, and the next attempt is paid by another method.
func TestAForwardThatOnlyANodeBelowTheBoundCouldSendGoesBack(t *testing.T) {
	b := setup(t)
	registry := prometheus.NewRegistry()
	b.bounding(func(c *relay.Config) { c.Metrics = relay.NewMetrics(registry) })
	pa := b.zap()
	b.pay(pa)
	b.dries(b.Node)
	if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); claimed || !errors.Is(err, relay.ErrNoNode) {
		t.Fatalf("claimed: %t, error %v", claimed, err)
	}
	b.rounds(3)
	if failed := b.WantState(pa.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodePaymentFailed {
		t.Errorf("%v", failed.Failure)
	}
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantReceived(pa, 0)
	b.wantSent(pa.Invoice.Hash, 0)
	if n := locktest.Metric(t, registry, "holdfast_relay_failed_total", "LOW_OUTBOUND"); n != 1 || b.Wallets.Failures(b.wallet.ID, pa.ID) != 0 {
		t.Errorf("counted %v times, %d failures of the wallet", n, b.Wallets.Failures(b.wallet.ID, pa.ID))
	}
	b.Drain()
	if again := b.Look(*b.WantState(pa.ID, paidaction.Retrying).Successor); again.Method != paidaction.Optimistic {
		t.Errorf("the next attempt is paid by %s", again.Method)
	}
	b.wantSound()
}

// It waits for another node only where that one may yet send it.
func TestAForwardThatANodeBelowTheBoundCannotSendWaitsForAnother(t *testing.T) {
	for name, c := range map[string]struct {
		other func(b *bundle, two *simnode.Node)
		waits bool
	}{
		"that can send enough": {func(*bundle, *simnode.Node) {}, true},
		"that does not say":    {func(_ *bundle, two *simnode.Node) { two.FailBefore(simnode.MethodSendable, 1<<30) }, true},
		"that is low as well":  {func(b *bundle, two *simnode.Node) { b.dries(two) }, false},
		"that is drained": {func(b *bundle, _ *simnode.Node) {
			if _, err := b.Pool.Exec(b.Ctx, `INSERT INTO lightning_node (name, draining, changed_at) VALUES ('two', true, now())`); err != nil {
				b.Fatal(err)
			}
		}, false},
		"that found no route": {func(b *bundle, two *simnode.Node) {
			two.SetIsolated(true)
			if claimed, err := b.Relay.Step(b.Ctx, "two", b.Engine.Advance); !claimed || err != nil {
				b.Fatal(claimed, err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			b.bounding()
			pa := b.zap()
			b.pay(pa)
			c.other(b, b.Nodes[1])
			b.dries(b.Node)
			b.rounds(3)
			if !c.waits {
				b.WantState(pa.ID, paidaction.Failed)
				b.wantOuter(pa, paidaction.InvoiceCanceled)
				b.wantReceived(pa, 0)
				b.wantSound()
				return
			}
			b.WantState(pa.ID, paidaction.Forwarding)
			b.Nodes[1].FailBefore(simnode.MethodSendable, 0)
			if claimed, err := b.Relay.Step(b.Ctx, "two", b.Engine.Advance); !claimed || err != nil {
				t.Fatal(claimed, err)
			}
			b.Await(pa.ID, paidaction.Paid)
			b.wantReceived(pa, 70_000)
			b.wantSound()
		})
	}
}

// What may have been sent is not given up, however little its node can send by now.
func TestWhatMayHaveBeenSentIsNotGivenUpByANodeBelowTheBound(t *testing.T) {
	b := setup(t)
	b.bounding()
	step := func() {
		t.Helper()
		if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
			t.Fatal(claimed, err)
		}
	}
	pa := b.zap()
	b.pay(pa)
	b.Node.FailBefore(simnode.MethodPay, 1)
	step()
	b.dries(b.Node)
	b.rounds(1)
	b.AwaitStage(pa.ID, "in_work") // its send may still be on the way
	b.Clock.Advance(over)
	b.rounds(3)
	if row := b.AwaitStage(pa.ID, "incoming"); row.Node == nil {
		t.Error("it is not kept for the node that may have been given it")
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	b.wantOuter(pa, paidaction.InvoiceAccepted)
	b.Node.SetSendable(leastOutbound)
	step()
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.wantSound()
}

// A node that can send enough again, and takes it in the very moment in which it is to be given up, goes on with it.
func TestWhatANodeTakesThatWasBelowTheBoundIsNotGivenUp(t *testing.T) {
	b := setup(t)
	b.bounding()
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	b.dries(b.Node)
	b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { // whoever gives it up has asked every node
		b.Node.SetSendable(leastOutbound)
		b.Run(b.Relay)
		b.AwaitStage(pa.ID, "in_work")
	})
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.awaitHeld(pa)
	if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.wantSound()
}

// Nor does what a crowded node is not given wait for one below the bound: it goes back at once, before any sweep.
func TestACrowdedNodeLeavesNothingToOneBelowTheBound(t *testing.T) {
	b := setup(t, "one", "two")
	r := b.watching(bounded)
	b.Node.SetSlots(4)
	b.fill(b.Node, 3)
	pa := b.zap()
	b.hang(r)
	b.dries(b.Nodes[1])
	b.pay(pa)
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	b.Await(pa.ID, paidaction.Failed)
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantSent(pa.Invoice.Hash, 0)
	b.wantSound()
}
