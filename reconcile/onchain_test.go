package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// A payment out of a channel that was closed by force is told at once, and until somebody says what became of it. Its
// action is not past its deadline meanwhile. Of one that was lost is told what came through open channels: its payer is to have that back.
func TestWhatArrivedOfALostPaymentIsTold(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]paidaction.Msat{"nothing of it": 0, "400 msat": 400} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			pa := w.Pay(w.User("payer", 0, 0), community.KindItemCreate, community.ItemCreateArgs{Title: "a post"}, paidaction.Optimistic)
			if open > 0 {
				if _, err := w.Node.AddPart(pa.Invoice.Hash, open, 0, 0); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Node.AddPartByForce(pa.Invoice.Hash, pa.Cost-open, 0); err != nil {
				t.Fatal(err)
			}
			var nine reconcile.Invariant
			for _, later := range []time.Duration{0, time.Hour, 2 * time.Hour} {
				w.Clock.Advance(later)
				w.Drain()
				report := run(t, w)
				if nine = report.Invariants[8]; len(nine.Breaks) != 1 || nine.Breaks[0].Kind != "on-chain" {
					t.Errorf("after a further %s: %+v", later, nine)
				}
				for _, b := range report.Invariants[6].Breaks {
					if b.Kind == "overdue" {
						t.Errorf("after a further %s: %+v", later, b)
					}
				}
			}
			if err := w.Engine.NeverArrived(w.Ctx, pa.ID, "Your payment did not arrive."); err != nil {
				t.Fatal(err)
			}
			w.Drain()
			nine = run(t, w).Invariants[8]
			switch {
			case open == 0 && len(nine.Breaks) == 0:
			case open > 0 && len(nine.Breaks) == 1 && nine.Breaks[0].Kind == "settled" && strings.Contains(nine.Breaks[0].What, name):
			default:
				t.Errorf("once it is lost: %+v", nine)
			}
		})
	}
}
