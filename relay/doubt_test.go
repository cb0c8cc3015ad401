package relay_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// While the database may lack claims, nothing is sent, and nothing given up, as long as another node is silent that may
// have the payment.
func TestAPaymentWaitsForASilentNodeThatMayHaveIt(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.paidByTheSecond(inv.Bolt11)
	b.Nodes[1].SetAway(true)
	r := b.NewRelay(func(c *relay.Config) { c.Doubted = func() (time.Time, bool) { return time.Time{}, true } })
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
	}
	for _, c := range b.Nodes[0].Calls() {
		if c.Method == simnode.MethodPay {
			t.Error("the first node sent it as well")
		}
	}
	b.Clock.Advance(2 * time.Hour)
	if out, err := r.Proceed(b.Ctx, pa.ID); err == nil || out.Failure != nil {
		t.Errorf("once its invoice has expired: %+v, %v", out, err)
	}
	b.AwaitStage(pa.ID, "incoming")
	b.Nodes[1].SetAway(false)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// Nor does the failure at the node that was given it end it.
func TestAFailedPaymentWaitsForASilentNodeThatMayHaveIt(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.paidByTheSecond(inv.Bolt11)
	b.wallet.Receiver.Change(inv.Hash, simnode.Refuses) // what comes a second time
	b.Nodes[1].SetAway(true)
	r := b.NewRelay(func(c *relay.Config) {
		asked := false // as if the timeline were doubted since it was sent
		c.Doubted = func() (time.Time, bool) { was := asked; asked = true; return time.Time{}, was }
	})
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
	}
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE node = 'one' AND outcome IS NULL`); n != 1 {
		t.Error("the claim was ended")
	}
	b.Nodes[1].SetAway(false)
	b.Clock.Advance(time.Minute)
	b.Advance(pa.ID) // hears of the failure, and finds the second node
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// Nor is a node believed that does not have it at once: a process that claimed it before the fail-over may be about to
// send it, by a claim that the database has lost.
func TestAPaymentWaitsForWhoMayYetSendIt(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	since := time.Now()
	passed := time.Duration(0)
	r := b.NewRelay(func(c *relay.Config) {
		c.Doubted = func() (time.Time, bool) { return since, true }
		c.Monotonic = func() time.Time { return since.Add(passed) }
	})
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
	}
	b.AwaitStage(pa.ID, "incoming")
	b.paidByTheSecond(inv.Bolt11) // now it does
	b.Clock.Advance(time.Minute)
	passed = 2 * relay.MaxSendWindow
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
		t.Fatalf("claimed by the first node again: %t, error %v", claimed, err)
	}
	for _, c := range b.Nodes[0].Calls() {
		if c.Method == simnode.MethodPay {
			t.Error("the first node sent it as well")
		}
	}
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// What another process has claimed it may send for as long as any settings allow, whatever one's own do, and its node may be slow to say that it was given
// it.
func TestAPaymentWaitsForTheLongestSendWindow(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	since, passed := time.Now(), time.Duration(0)
	r := b.NewRelay(func(c *relay.Config) {
		c.Settings.SendWindow = time.Second
		c.Doubted = func() (time.Time, bool) { return since, true }
		c.Monotonic = func() time.Time { return since.Add(passed) }
	})
	for _, passed = range []time.Duration{0, relay.MaxSendWindow, relay.MaxSendWindow + relay.DefaultSettings().Grace, 2 * relay.MaxSendWindow} {
		if n := b.Node.Count(simnode.MethodPay, inv.Hash); n != 0 {
			t.Fatalf("before %s it was sent", passed)
		}
		if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
			t.Fatalf("after %s it is claimed: %t, error %v", passed, claimed, err)
		}
		b.Clock.Advance(time.Minute) // it pauses after each claim
	}
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}
