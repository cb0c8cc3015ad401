package wrap

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sound are facts that break no rule: 1,000 sat pass through us, and 900 go to the receiver.
func sound() Facts {
	hash := paidaction.Preimage{1}.Hash()
	return Facts{
		Inner: paidaction.Bolt11{
			Hash: hash, Amount: 900 * sat, Created: now, Expires: now.Add(time.Hour), CLTVDelta: 80,
			Features: []paidaction.Feature{
				{Bit: 8, Required: true, Known: true}, {Bit: 14, Required: true, Known: true}, {Bit: 17, Known: true}, {Bit: 149},
			},
		},
		Requested: 900 * sat, Outer: 1_000 * sat, Now: now,
		Chain: paidaction.Chain{Height: 900_000, Synced: true}, Route: paidaction.Route{Fee: 5 * sat, Height: 900_200},
		Held: paidaction.NodeInvoice{Hash: hash, State: paidaction.InvoiceAccepted, Received: 1_000 * sat, ExpiryHeight: 900_283}, OuterCLTV: 280,
		Budget: 30 * sat,
	}
}

// broken has, for every rule, facts that break it and no other.
var broken = map[Code][]func(*Facts){
	"NO_AMOUNT": {func(f *Facts) { f.Inner.Amount, f.Requested = 0, 999 }},
	"AMP": {
		feature(paidaction.Feature{Bit: 30, Required: true, Known: true}), feature(paidaction.Feature{Bit: 31, Known: true}),
	},
	"UNKNOWN_FEATURE":     {feature(paidaction.Feature{Bit: 1000, Required: true}), feature(paidaction.Feature{Bit: 1001})},
	"FEATURES_INCOMPLETE": {func(f *Facts) { f.Inner.Incomplete = true }},
	"TOO_SMALL":           {func(f *Facts) { f.Inner.Amount, f.Requested = 699, 699 }},
	"TOO_LARGE": {func(f *Facts) {
		f.Inner.Amount, f.Requested = 700_000*sat+1, 700_000*sat+1
		f.Outer, f.Held.Received = 800_000*sat, 800_000*sat
	}},
	"ABOVE_REQUEST": {func(f *Facts) { f.Requested-- }},
	"BELOW_REQUEST": {func(f *Facts) { f.Requested += sat }},
	"ABOVE_OUTER": {func(f *Facts) {
		f.Outer, f.Held.Received = f.Inner.Amount-1, f.Inner.Amount-1
		f.Route.Fee = 0
	}},
	"OURS":      {func(f *Facts) { f.Own = true }},
	"HASH_USED": {func(f *Facts) { f.HashUsed = true }},
	"LOCKS_TOO_LONG": {
		func(f *Facts) { f.Inner.CLTVDelta, f.Inner.HintsCLTV = 500, 421 },
		func(f *Facts) { f.Inner.HintsCLTV = math.MaxUint32 },
	},
	"BLINDED":          {func(f *Facts) { f.Inner.Blinded = true }},
	"NO_SECRET":        {func(f *Facts) { f.Inner.Secretless = true }},
	"HINT_NOWHERE":     {func(f *Facts) { f.Inner.HintsNowhere = true }},
	"ZERO_PREIMAGE":    {func(f *Facts) { f.Inner.Hash, f.Held.Hash = paidaction.Preimage{}.Hash(), paidaction.Preimage{}.Hash() }},
	"LOCKS_BEYOND_LND": {func(f *Facts) { f.Inner.CLTVDelta, f.Inner.HintsCLTV = 1013, 1000 }},
	"EXPIRES_LATE": {
		func(f *Facts) { f.Inner.Expires = now.Add(90*24*time.Hour + time.Second) },
		func(f *Facts) { f.Inner.Expires = now.AddDate(1000, 0, 0) },
	},
	"HINTS_TOO_DEAR":  {func(f *Facts) { f.Inner.HintsFee = 30*sat + 1 }},
	"EXPIRES_SOON":    {func(f *Facts) { f.Inner.Expires = now.Add(240*time.Second - 1) }},
	"OUTER_TOO_SHORT": {func(f *Facts) { f.Inner.Expires = now.Add(180*time.Second - 1) }},
	"NODE_BEHIND":     {func(f *Facts) { f.Chain.Synced = false }},
	"ROUTE_IMPOSSIBLE": {
		func(f *Facts) { f.Route = paidaction.Route{} },
		func(f *Facts) { f.Route.Height = f.Chain.Height + 79 },
		func(f *Facts) { f.Route.Fee = -1 },
	},
	"ROUTE_TOO_DEAR":  {func(f *Facts) { f.Route.Fee = 30*sat + 1 }},
	"LOCKED_TOO_LONG": {func(f *Facts) { f.Route.Height = f.Chain.Height + 921 }},
	"NOT_HELD": {
		func(f *Facts) { f.Held.State = paidaction.InvoiceOpen },
		func(f *Facts) { f.Held.State = paidaction.InvoiceSettled },
		func(f *Facts) { f.Held.State = paidaction.InvoiceCanceled },
	},
	"ANOTHER_HASH":     {func(f *Facts) { f.Held.Hash[0]++ }},
	"UNDERPAID":        {func(f *Facts) { f.Held.Received-- }},
	"KEYSEND":          {func(f *Facts) { f.Held.Keysend = 1 }, func(f *Facts) { f.Held.Keysend = f.Held.Received }},
	"BUDGET_TOO_LARGE": {func(f *Facts) { f.Budget = 100*sat + 1 }, func(f *Facts) { f.Budget = -1 }},
	"BLOCKS_SHORT": {
		func(f *Facts) { f.Held.ExpiryHeight = f.Chain.Height + 80 + 80 + 3 },
		func(f *Facts) { f.Held.ExpiryHeight = 0 },
	},
	"EXPIRED": {func(f *Facts) { f.Inner.Expires = now.Add(30 * time.Second) }},
}

func feature(added paidaction.Feature) func(*Facts) {
	return func(f *Facts) { f.Inner.Features = append(f.Inner.Features, added) }
}

// ask has the question of each stage.
var ask = map[Stage]func(Settings, Facts) error{
	Asked:  Settings.CheckInner,
	Routed: func(s Settings, f Facts) error { _, err := s.Wrap(f); return err },
	Held:   func(s Settings, f Facts) error { _, err := s.Forward("lnbc1", f); return err },
	Alone:  func(s Settings, f Facts) error { return s.CheckAlone(f.Inner, f.Now) },
}

func code(err error) Code {
	var v *Violation
	if errors.As(err, &v) {
		return v.Code
	}
	return ""
}

func TestSoundFactsPassEveryStage(t *testing.T) {
	t.Parallel()
	for stage, ask := range ask {
		if err := ask(Settings{}, sound()); err != nil {
			t.Errorf("stage %b: %v", stage, err)
		}
	}
	way := Settings{}.Probe("lnbc1", sound())
	if want := (paidaction.RouteRequest{Bolt11: "lnbc1", FeeLimit: 30 * sat, CLTVLimit: 920}); way != want {
		t.Errorf("%+v", way)
	}
	terms, err := Settings{}.Wrap(sound())
	if want := (Terms{Expires: now.Add(480 * time.Second), CLTVDelta: 280, Budget: 30 * sat}); err != nil || terms != want {
		t.Errorf("%+v, %v", terms, err)
	}
	pay, err := Settings{}.Forward("lnbc1", sound())
	want := paidaction.PaymentRequest{Bolt11: "lnbc1", FeeLimit: 30 * sat, Timeout: 30 * time.Second, CLTVLimit: 203}
	if err != nil || pay != want {
		t.Errorf("%+v, %v", pay, err)
	}
}

// The figures of spec 03 §3.2, to the last millisatoshi and second.
func TestFiguresAreExact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ outer, inner, budget paidaction.Msat }{
		"3 %":                  {1_000 * sat, 900 * sat, 30 * sat},
		"3 %, rounded down":    {33_399, sat, 1_001},
		"a sat at least":       {10 * sat, 7 * sat, sat},
		"no more than is left": {10 * sat, 9_500, 500},
	} {
		if got := budget(c.outer, c.inner); got != c.budget {
			t.Errorf("%s: %d msat, want %d", name, got, c.budget)
		}
	}
	if got := outerExpiry(now.Add(301*time.Second-1), now); got != 180*time.Second {
		t.Errorf("the payer has %s", got)
	}
	// The budget set when the outer was made is smaller than its share if the rest is promised to others.
	f := sound()
	f.Budget = 7
	if pay, err := (Settings{}).Forward("lnbc1", f); err != nil || pay.FeeLimit != 7 {
		t.Errorf("a fee limit of %d msat, %v", pay.FeeLimit, err)
	}
}

// Every rule is broken alone at every stage at which it is checked, and the answer names it.
func TestEveryRuleViolatedAlone(t *testing.T) {
	t.Parallel()
	for _, rule := range Rules {
		cases := broken[rule.Code]
		if len(cases) == 0 || rule.Why == "" || rule.At == 0 {
			t.Errorf("%s has no case, no reason or no stage", rule.Code)
		}
		for i, spoil := range cases {
			f := sound()
			spoil(&f)
			for stage, ask := range ask {
				if rule.At&stage == 0 {
					continue
				}
				if got := code(ask(Settings{}, f)); got != rule.Code {
					t.Errorf("%s, case %d, stage %b: the answer is %q", rule.Code, i, stage, got)
				}
				for _, other := range Rules {
					if other.At&stage != 0 && other.Code != rule.Code && !other.Holds(Settings{}, f) {
						t.Errorf("%s, case %d, stage %b breaks %s too", rule.Code, i, stage, other.Code)
					}
				}
			}
		}
	}
}

// Every rule is checked again with fresh facts before we pay, except those that only shape the outer: it has been made
// by then, and the limits of the payment bind the node.
func TestRulesAreCheckedAgainBeforePaying(t *testing.T) {
	t.Parallel()
	shapes := []Code{"HINTS_TOO_DEAR", "LOCKS_BEYOND_LND", "EXPIRES_LATE", "LOCKS_TOO_LONG", "EXPIRES_SOON", "OUTER_TOO_SHORT", "ROUTE_IMPOSSIBLE", "ROUTE_TOO_DEAR", "LOCKED_TOO_LONG"}
	for _, rule := range Rules {
		if slices.Contains(shapes, rule.Code) {
			continue
		}
		for i, spoil := range broken[rule.Code] {
			f := sound()
			spoil(&f)
			if pay, err := (Settings{}).Forward("lnbc1", f); err == nil || pay != (paidaction.PaymentRequest{}) {
				t.Errorf("%s, case %d, is paid: %+v", rule.Code, i, pay)
			}
		}
	}
}

func TestOuterCLTVIsNeverLessThanTheEngineNeeds(t *testing.T) {
	t.Parallel()
	s := Settings{MinOuterCLTV: 100}
	for _, c := range []struct{ route, want uint32 }{{899_999, 100}, {900_000, 100}, {900_001, 101}, {math.MaxUint32, math.MaxUint32 - 900_000 + 100}} {
		if got := s.OuterCLTV(paidaction.Route{Height: c.route}, 900_000); got != c.want {
			t.Errorf("a route to %d: %d, not %d", c.route, got, c.want)
		}
	}
	if got := s.OuterCLTV(paidaction.Route{Height: math.MaxUint32}, 0); got != math.MaxUint32 {
		t.Errorf("%d", got)
	}
}

// The engine's node gives the outer back HoldExpiryDelta blocks before it expires. By then the inner has ended,
// whatever an operator has set.
func TestTheInnerEndsBeforeTheOuterIsGivenBack(t *testing.T) {
	t.Parallel()
	for least, margin := range map[uint32]uint32{0: 80, 54: 80, 80: 80, 136: 136} {
		s := Settings{MinOuterCLTV: least}
		outer := s.OuterCLTV(paidaction.Route{Height: 900_200}, 900_000)
		if inner := s.innerCLTV(Facts{Held: paidaction.NodeInvoice{ExpiryHeight: 900_000 + outer}, OuterCLTV: outer, Chain: paidaction.Chain{Height: 900_000}}); outer != 200+margin || inner != 200 {
			t.Errorf("with at least %d: the outer is held for %d blocks and the inner for %d", least, outer, inner)
		}
	}
}

// Values just within each bound pass.
func TestBoundsAreExact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stage Stage
		set   func(*Facts)
	}{
		"the smallest amount":     {Asked, func(f *Facts) { f.Inner.Amount, f.Requested = 700, 700 }},
		"the largest amount":      {Asked, func(f *Facts) { f.Inner.Amount, f.Requested, f.Outer = 700_000*sat, 700_000*sat, 800_000*sat }},
		"short by a truncation":   {Asked, func(f *Facts) { f.Requested += sat - 1 }},
		"no fee for us":           {Asked, func(f *Facts) { f.Outer = f.Inner.Amount }},
		"the dearest hint":        {Asked, func(f *Facts) { f.Inner.HintsFee = 30 * sat }},
		"the longest lock of LND": {Alone, func(f *Facts) { f.Inner.CLTVDelta, f.Inner.HintsCLTV = 1012, 1000 }},
		"90 days to its expiry":   {Alone, func(f *Facts) { f.Inner.Expires = now.Add(90 * 24 * time.Hour) }},
		"the longest hint":        {Asked, func(f *Facts) { f.Inner.HintsCLTV = 840 }},
		"240 s to its expiry":     {Asked, func(f *Facts) { f.Inner.Expires = now.Add(240 * time.Second) }},
		"an outer of 60 s":        {Routed, func(f *Facts) { f.Inner.Expires = now.Add(180 * time.Second) }},
		"all of the budget":       {Routed, func(f *Facts) { f.Route.Fee = 30 * sat }},
		"1,000 blocks":            {Routed, func(f *Facts) { f.Route.Height = f.Chain.Height + 920 }},
		"the invoice's CLTV":      {Routed, func(f *Facts) { f.Route.Height = f.Chain.Height + 80 }},
		"one block above padding": {Held, func(f *Facts) { f.Held.ExpiryHeight = f.Chain.Height + 80 + 80 + 3 + 1 }},
		"all above the inner":     {Held, func(f *Facts) { f.Budget = 100 * sat }},
		"just before its expiry":  {Held, func(f *Facts) { f.Inner.Expires = now.Add(30*time.Second + 1) }},
	} {
		f := sound()
		c.set(&f)
		if err := ask[c.stage](Settings{}, f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A share fits if an invoice for it can keep to the rules: one for the share itself, or for its whole sats.
func TestWhatFitsCanKeepToTheRules(t *testing.T) {
	t.Parallel()
	holds := func(amount paidaction.Msat) bool {
		for _, r := range Rules {
			if (r.Code == "NO_AMOUNT" || r.Code == "TOO_SMALL" || r.Code == "TOO_LARGE") && !r.Holds(Settings{}, Facts{Inner: paidaction.Bolt11{Amount: amount}}) {
				return false
			}
		}
		return true
	}
	for _, share := range []paidaction.Msat{0, 1, 699, 700, 999, 1000, 700_000*sat - 1, 700_000 * sat, 700_000*sat + 999, 700_001 * sat, 1_000_000 * sat} {
		if can := holds(share) || holds(share-share%sat); Fits(share) != can {
			t.Errorf("%d msat fit: %v", share, !can)
		}
	}
}
