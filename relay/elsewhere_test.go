package relay_test

import (
	"context"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// hangsAt are nodes of which one has a payment under way, whatever its hash.
type hangsAt struct {
	relay.Nodes
	name string
}

type hangingNode struct{ paidaction.SendingNode }

func (n hangsAt) Sender(name string) (paidaction.SendingNode, error) {
	node, err := n.Nodes.Sender(name)
	if name == n.name {
		node = hangingNode{node}
	}
	return node, err
}

func (hangingNode) TrackPayment(_ context.Context, _ paidaction.Hash, update func(paidaction.PaymentUpdate) error) error {
	return update(paidaction.PaymentUpdate{State: paidaction.PaymentInFlight, Created: 1})
}

// Of two nodes that have a payment the one that has paid it goes on with it: the other one may let it hang until what is held for it has gone back.
func TestOfTwoNodesTheOneThatHasPaidIsFollowed(t *testing.T) {
	b := setup(t, "one", "two", "three").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.paidByTheSecond(inv.Bolt11)
	r := b.NewRelay(func(c *relay.Config) { c.Nodes = hangsAt{c.Nodes, "three"} })
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
	}
	if n := b.Count(`SELECT count(*) FROM relay_payment WHERE node = 'two'`); n != 1 {
		t.Error("it is not left to the node that has paid it")
	}
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}
