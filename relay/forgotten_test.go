package relay_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// forgotten is a withdrawal whose node has shown it and does not know it any more, which was noted once its claim had
// ended: nothing is sent under a later claim.
func (b *bundle) forgotten() *paidaction.PaidAction {
	b.Helper()
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
	b.Node.FailBefore(simnode.MethodPay, 1)
	if claimed, err := b.NewRelay().Step(b.Ctx, "one", nothing); !claimed || err != nil {
		b.Fatal(claimed, err)
	}
	b.Clock.Advance(over)
	b.rounds(1)
	b.AwaitStage(pa.ID, "incoming")
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_attempt SET seen = true`); err != nil {
		b.Fatal(err)
	}
	return pa
}

// What one payment waits for is no fault of the node: it does not rest, and others go on there. Once the payment's invoice
// has expired nothing could be sent anyhow, so it is claimed no more.
func TestAPaymentThatANodeHasForgottenHoldsUpNoOthers(t *testing.T) {
	b := setup(t).rich(100)
	pa := b.forgotten()
	blames := make(chan relay.Blame, 10)
	r := b.NewRelay(func(c *relay.Config) { c.Leases = blamed(blames) })
	if claimed, err := r.Step(b.Ctx, "one", nothing); !claimed || err != nil {
		t.Fatal(claimed, err)
	}
	if blame := <-blames; blame != relay.Nobody {
		t.Errorf("blamed: %d", blame)
	}
	b.Clock.Advance(3 * time.Hour)
	if claimed, err := r.Step(b.Ctx, "one", nothing); claimed || err != nil {
		t.Errorf("claimed once it has expired: %t, %v", claimed, err)
	}
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Forwarding)
}
