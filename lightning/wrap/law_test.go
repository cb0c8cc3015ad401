package wrap

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// facts draws facts around the limits of the rules.
func facts(t *rapid.T) Facts {
	// near is mostly from 0 to width, and sometimes beyond.
	near := func(name string, width int64) paidaction.Msat {
		within := rapid.Int64Range(0, width)
		return paidaction.Msat(rapid.OneOf(within, within, within, rapid.Int64Range(-10, width+10)).Draw(t, name))
	}
	blocks := func(name string, to uint32) uint32 { return rapid.Uint32Range(0, to).Draw(t, name) }
	hash := paidaction.Preimage{1}.Hash()
	f := Facts{
		Inner: paidaction.Bolt11{
			Hash: hash, Amount: 700 + near("inner", 700_000*1000-700), CLTVDelta: blocks("cltv", 300),
			// Small numbers are drawn more often than large ones, and most invoices that expire soon break a rule. So
			// this draws how much earlier than in 1,000 s it expires: otherwise hardly anything would pass.
			Expires: now.Add(1_000*time.Second - time.Duration(rapid.Int64Range(0, 970e9).Draw(t, "expires before"))),
		},
		Now: now, Chain: paidaction.Chain{Height: blocks("height", 1_000_000), Synced: true},
		Held: paidaction.NodeInvoice{Hash: hash, State: paidaction.InvoiceAccepted},
	}
	f.Requested = f.Inner.Amount + near("truncated", 999)
	f.Outer = f.Inner.Amount + near("above inner", 50_000_000)
	f.Route.Fee = near("fee", int64(budget(f.Outer, f.Inner.Amount)))
	f.Route.Height = f.Chain.Height + f.Inner.CLTVDelta + blocks("route", 700)
	f.Held.Received = f.Outer + near("received", 1_000)
	f.Held.ExpiryHeight = f.Chain.Height + f.Inner.CLTVDelta + 60 + blocks("held for", 1_000)
	f.OuterCLTV = f.Inner.CLTVDelta + 60 + blocks("the outer asks for", 1_000)
	f.Budget = near("budget", max(0, int64(f.Outer-f.Inner.Amount)))
	return f
}

// law checks what must be true of all facts that pass.
func law(t *testing.T, holds func(t *rapid.T, f Facts) (passed bool)) {
	t.Helper()
	t.Parallel()
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		if holds(t, facts(t)) {
			passed++
		}
	})
	if passed == 0 {
		t.Error("nothing passed")
	}
}

func TestBudgetIsNeverMoreThanIsThere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		outer := paidaction.Msat(rapid.Int64Range(0, 1<<62).Draw(t, "outer"))
		inner := paidaction.Msat(rapid.Int64Range(0, 1<<62).Draw(t, "inner"))
		budget := budget(outer, inner)
		if budget < 0 || inner <= outer && inner+budget > outer || inner > outer && budget != 0 {
			t.Fatalf("%d of %d above %d", budget, outer, inner)
		}
		if budget > max(outer/100*3+3, sat) {
			t.Fatalf("%d is more than 3 %% of %d", budget, outer)
		}
	})
}

// No receiver gets more than was asked for, and no payment costs us more than the payer pays.
func TestNoPaymentIsMadeAtALoss(t *testing.T) {
	law(t, func(t *rapid.T, f Facts) bool {
		terms, err := Settings{}.Wrap(f)
		if err == nil && (f.Inner.Amount > f.Requested || f.Inner.Amount+terms.Budget > f.Outer || f.Route.Fee > terms.Budget) {
			t.Fatalf("%+v", terms)
		}
		return err == nil
	})
}

func TestNoPaymentIsForwardedAtALoss(t *testing.T) {
	law(t, func(t *rapid.T, f Facts) bool {
		pay, err := Settings{}.Forward("lnbc1", f)
		if err == nil && (f.Inner.Amount > f.Requested || f.Inner.Amount+pay.FeeLimit > f.Held.Received || pay.FeeLimit < 0 || pay.Amount != 0) {
			t.Fatalf("%+v", pay)
		}
		return err == nil
	})
}

// The inner outlives the outer; the outer's HTLCs outlive the inner's.
func TestWindowsNestWhenWrapped(t *testing.T) {
	law(t, func(t *rapid.T, f Facts) bool {
		terms, err := Settings{}.Wrap(f)
		if err != nil {
			return false
		}
		life := terms.Expires.Sub(f.Now)
		if f.Inner.Expires.Sub(terms.Expires) < 120*time.Second || life > 480*time.Second || life < time.Minute || life%time.Second != 0 {
			t.Fatalf("%+v, and the inner expires at %v", terms, f.Inner.Expires)
		}
		if f.Chain.Height+terms.CLTVDelta < f.Route.Height+80 || terms.CLTVDelta > 1_000 || terms.CLTVDelta < 54 {
			t.Fatalf("%+v, and the route ends at %d of %d", terms, f.Route.Height, f.Chain.Height)
		}
		// If paid at once, the outer leaves what the route needs.
		f.Held.ExpiryHeight, f.OuterCLTV = f.Chain.Height+terms.CLTVDelta, terms.CLTVDelta
		if left := (Settings{}).innerCLTV(f); left < f.Route.Height-f.Chain.Height {
			t.Fatalf("%d blocks are left of %d", left, f.Route.Height-f.Chain.Height)
		}
		return true
	})
}

func TestWindowsNestWhenForwarded(t *testing.T) {
	law(t, func(t *rapid.T, f Facts) bool {
		pay, err := Settings{}.Forward("lnbc1", f)
		if err != nil {
			return false
		}
		if f.Chain.Height+pay.CLTVLimit+80 > f.Held.ExpiryHeight || pay.CLTVLimit <= f.Inner.CLTVDelta+3 {
			t.Fatalf("%+v at %d, and the outer is held until %d", pay, f.Chain.Height, f.Held.ExpiryHeight)
		}
		// A part that is added later expires no sooner than the outer asks for. Senders add 3 blocks to that, but
		// others need not.
		if pay.CLTVLimit+80-3 > f.OuterCLTV {
			t.Fatalf("%+v, and the outer asks for %d blocks", pay, f.OuterCLTV)
		}
		if !f.Inner.Expires.After(f.Now.Add(pay.Timeout)) {
			t.Fatalf("attempts go on after %v", f.Inner.Expires)
		}
		return true
	})
}
