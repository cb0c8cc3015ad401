package relay_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A receiver was paid and the payer's payment taken, and the database was restored to before it was held: the action counts, and the receiver is not paid again.
func TestAForwardThatWasMadeBeforeARestoreCounts(t *testing.T) {
	for name, later := range map[string]time.Duration{"at once": 0, "once its invoice has expired": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			pa := b.zap()
			restore := pgtest.Backup(t, b.Pool)
			b.pay(pa)
			if claimed, err := b.Relay.Step(b.Ctx, "two", b.Engine.Advance); !claimed || err != nil {
				t.Fatalf("claimed: %t, error %v", claimed, err)
			}
			b.WantState(pa.ID, paidaction.Paid)
			restore()
			b.WantState(pa.ID, paidaction.PendingHeld)
			b.Clock.Advance(later)
			if _, err := b.Engine.Sweep(b.Ctx); err != nil {
				t.Fatal(err)
			}
			defer b.Run(b.NewRelay())()
			b.Await(pa.ID, paidaction.Paid)
			b.AwaitStage(pa.ID, "completed")
			b.wantReceived(pa, 70_000)
			b.WantBalance(ledger.RoutingSats, 0)
			b.wantSound()
		})
	}
}
