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
	clock, pass := byItself()
	b.Run(b.NewRelay(clock, func(c *relay.Config) { c.Leases = blamed(blames) }))
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
	pass(19 * time.Second)
	less = b.issue(simnode.Ask{Amount: 20_000})
	b.Await(b.withdraw(less.Bolt11).ID, paidaction.Paid)
	b.wantSent(as.Hash, 0)
	b.wantSent(more.Hash, 0)
	pass(time.Second)
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

// For as long, whatever becomes of the clock by which payments are stored: it may be set back.
func TestANodeIsGivenLessForAWhileAlsoIfTheClockIsSetBack(t *testing.T) {
	b := setup(t).rich(1_000)
	b.Node.SetSendable(200_000)
	b.Node.SetReserved(150_000)
	var back time.Duration
	clock, pass := byItself()
	r := b.NewRelay(clock, func(c *relay.Config) { c.Now = func() time.Time { return b.Clock.Now().Add(-back) } })
	step := func() {
		t.Helper()
		if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
			t.Fatal(claimed, err)
		}
	}
	lacked := b.withdraw(b.issue(simnode.Ask{Amount: 60_000}).Bolt11)
	step()
	b.WantState(lacked.ID, paidaction.Failed)
	b.Node.SetReserved(0)
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 60_000}).Bolt11)
	back = time.Hour
	pass(30 * time.Second)
	step()
	b.WantState(pa.ID, paidaction.Paid)
	b.wantSound()
}
