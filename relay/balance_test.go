package relay_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// A node counts reserves and channels whose peers are away among what it can send. What it so fails for want of balance it is not given again for a while, nor
// more; what is less it sends.
func TestANodeThatLacksTheBalanceIsGivenSmallerPayments(t *testing.T) {
	b := setup(t, "one", "two").rich(1_000)
	for _, n := range b.Nodes {
		n.SetSendable(200_000)
		n.SetReserved(150_000)
	}
	blames := make(chan relay.Blame, 1000)
	b.Run(b.NewRelay(func(c *relay.Config) { c.Leases = blamed(blames) }))
	much := b.issue(simnode.Ask{Amount: 60_000})
	pa := b.withdraw(much.Bolt11)
	b.Await(pa.ID, paidaction.Failed)
	b.wantSent(much.Hash, 2)

	as, more := b.issue(simnode.Ask{Amount: 60_000}), b.issue(simnode.Ask{Amount: 100_000})
	waits := []*paidaction.PaidAction{b.withdraw(as.Bolt11), b.withdraw(more.Bolt11)}
	less := b.issue(simnode.Ask{Amount: 40_000})
	b.Await(b.withdraw(less.Bolt11).ID, paidaction.Paid)
	b.wantPaidOut(less.Hash, 40_000)
	b.wantSent(as.Hash, 0)
	b.wantSent(more.Hash, 0)

	for _, n := range b.Nodes {
		n.SetReserved(0) // the peers are back
	}
	b.Clock.Advance(19 * time.Second)
	less = b.issue(simnode.Ask{Amount: 20_000})
	b.Await(b.withdraw(less.Bolt11).ID, paidaction.Paid)
	b.wantSent(as.Hash, 0)
	b.wantSent(more.Hash, 0)
	b.Clock.Advance(time.Second)
	for _, pa := range waits {
		b.Await(pa.ID, paidaction.Paid)
	}
	b.wantPaidOut(as.Hash, 60_000)
	b.wantPaidOut(more.Hash, 100_000)
	b.wantSound()
	for len(blames) > 0 {
		if <-blames == relay.TheNode {
			t.Fatal("a node rests for all")
		}
	}
}
