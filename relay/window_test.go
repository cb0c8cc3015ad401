package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// lateTurns come only after some time.
type lateTurns struct{ pass func() }

func (l lateTurns) Queue(int64) paidaction.Turn            { return l }
func (l lateTurns) Wait(context.Context, bool) (err error) { l.pass(); return nil }
func (lateTurns) Leave()                                   {}

// lateNodes find a route only after some time.
type lateNodes struct {
	relay.Nodes
	pass func()
}

type lateNode struct {
	paidaction.SendingNode
	pass func()
}

func (n lateNodes) Sender(name string) (paidaction.SendingNode, error) {
	node, err := n.Nodes.Sender(name)
	return lateNode{node, n.pass}, err
}

func (n lateNode) EstimateRoute(ctx context.Context, r paidaction.RouteRequest) (paidaction.Route, error) {
	n.pass()
	return n.SendingNode.EstimateRoute(ctx, r)
}

// slowZap asks for a wrapped zap where the probe and the payer's turn take this long, and the receiver's invoice is good
// for so long.
func (b *bundle) slowZap(good, probe, turn time.Duration) (*paidaction.PaidAction, error) {
	b.Helper()
	b.wallet.Ask = simnode.Ask{Expiry: good}
	config := b.Engine.Config
	config.Turns = lateTurns{func() { b.Clock.Advance(turn) }}
	config.Relay = b.NewRelay(func(c *relay.Config) { c.Nodes = lateNodes{c.Nodes, func() { b.Clock.Advance(probe) }} })
	e, err := paidaction.New(config)
	if err != nil {
		b.Fatal(err)
	}
	return e.Pay(b.Ctx, paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: b.item, Sats: 100},
		Terms: paidaction.Terms{Method: paidaction.P2P}, Caller: enginetest.Caller(b.payer)})
}

// Spec 03 §3.2: the payer's invoice expires 120 s before the receiver's, also where finding a route or the payer's own
// earlier requests took long: that time is the payer's loss.
func TestTheReceiversInvoiceOutlivesThePayersHoweverLongThatTook(t *testing.T) {
	b := setup(t)
	for name, late := range map[string]struct{ probe, turn, left time.Duration }{
		"at once":     {0, 0, 180 * time.Second},
		"slow probe":  {10 * time.Second, 0, 170 * time.Second},
		"slow turn":   {0, 30 * time.Second, 150 * time.Second},
		"both slow":   {10 * time.Second, 30 * time.Second, 140 * time.Second},
		"just enough": {60 * time.Second, 60 * time.Second, 60 * time.Second},
	} {
		inner := b.Clock.Now().Add(300 * time.Second)
		pa, err := b.slowZap(300*time.Second, late.probe, late.turn)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ends := b.outer(pa).Expires()
		if left := ends.Sub(b.Clock.Now()); left != late.left || !pa.Invoice.ExpiresAt.Equal(ends) || !pa.Deadline.Equal(ends) {
			t.Errorf("%s: the payer has %s, want %s (%s and %s by the row)", name, left, late.left, pa.Invoice.ExpiresAt, pa.Deadline)
		}
		if inner.Sub(ends) != 120*time.Second {
			t.Errorf("%s: the receiver's invoice outlives the payer's by %s", name, inner.Sub(ends))
		}
	}
}

// Whoever would be left less than 60 s for paying gets no invoice.
func TestAWrappedInvoiceThatComesTooLateIsNotMade(t *testing.T) {
	b := setup(t)
	if _, err := b.slowZap(300*time.Second, 121*time.Second, 0); !errors.Is(err, paidaction.Refused(paidaction.CodeMethodUnavailable)) {
		t.Errorf("a slow probe: %v", err)
	}
	if _, err := b.slowZap(300*time.Second, 0, 121*time.Second); !errors.Is(err, paidaction.Refused(paidaction.CodeTryAgain)) {
		t.Errorf("a slow turn: %v", err)
	}
	if n := b.Count(`SELECT count(*) FROM paid_action WHERE method = 'P2P'`); n != 0 {
		t.Errorf("%d actions were begun", n)
	}
}
