package wrap

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Whatever the numbers of a receiver's invoice, of a route and of the held outer: if all rules pass, nothing is lost in
// amounts, in time or in blocks.
func FuzzRules(f *testing.F) {
	f.Add(int64(70_000), int64(70_000), int64(100_000), uint32(80), uint32(100), uint32(220), int64(1_000), int64(3600), int64(100_000), uint32(500), int64(3_000), uint32(9))
	f.Add(int64(1)<<62, int64(1)<<62, int64(-1)<<63, uint32(1)<<31, uint32(math.MaxUint32), uint32(0), int64(-1), int64(1)<<40, int64(-5), uint32(math.MaxUint32), int64(1)<<62, uint32(30))
	f.Fuzz(func(t *testing.T, inner, requested, outer int64, cltv, height, route uint32, fee, seconds, received int64, heldUntil uint32, budget int64, feature uint32) {
		hash := paidaction.Preimage{1}.Hash()
		facts := Facts{
			Inner: paidaction.Bolt11{Hash: hash, Amount: paidaction.Msat(inner), CLTVDelta: cltv, Expires: now.Add(time.Duration(seconds%1e9) * time.Second),
				Features: []paidaction.Feature{{Bit: feature, Required: feature%2 == 0, Known: feature < 30}}},
			Requested: paidaction.Msat(requested), Outer: paidaction.Msat(outer), Now: now,
			Chain: paidaction.Chain{Height: height, Synced: true}, Route: paidaction.Route{Fee: paidaction.Msat(fee), Height: route},
			Held: paidaction.NodeInvoice{Hash: hash, State: paidaction.InvoiceAccepted, Received: paidaction.Msat(received), ExpiryHeight: heldUntil}, OuterCLTV: heldUntil,
			Budget: paidaction.Msat(budget),
		}
		var broken *Violation
		if terms, err := (Settings{}).Wrap(facts); err == nil {
			if inner <= 0 || inner > requested || inner+int64(terms.Budget) > outer || fee > int64(terms.Budget) || fee < 0 || !terms.Expires.After(now) ||
				int64(terms.CLTVDelta) < int64(route)-int64(height) || terms.CLTVDelta < cltv {
				t.Errorf("%+v was wrapped as %+v", facts, terms)
			}
		} else if !errors.As(err, &broken) {
			t.Error(err)
		}
		if p, err := (Settings{}).Forward("lnbc", facts); err == nil {
			if inner+int64(p.FeeLimit) > outer || received < outer || p.FeeLimit < 0 || int64(p.CLTVLimit) >= int64(heldUntil)-int64(height) || p.CLTVLimit <= cltv {
				t.Errorf("%+v is forwarded as %+v", facts, p)
			}
		} else if !errors.As(err, &broken) {
			t.Error(err)
		}
	})
}
