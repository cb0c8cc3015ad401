package wrap_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const sat paidaction.Msat = 1000

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sound are facts that break no rule: 1,000 sat pass through us, and 900 go to the receiver.
func sound() wrap.Facts {
	hash := paidaction.Preimage{1}.Hash()
	return wrap.Facts{
		Inner: paidaction.Bolt11{
			Hash: hash, Amount: 900 * sat, Created: now, Expires: now.Add(time.Hour), CLTVDelta: 80,
			Features: []paidaction.Feature{
				{Bit: 8, Required: true, Known: true}, {Bit: 14, Required: true, Known: true}, {Bit: 17, Known: true}, {Bit: 149},
			},
		},
		Requested: 900 * sat, Outer: 1_000 * sat, Now: now,
		Chain: paidaction.Chain{Height: 900_000, Synced: true}, Route: paidaction.Route{Fee: 5 * sat, Height: 900_200},
		Held:   paidaction.NodeInvoice{Hash: hash, State: paidaction.InvoiceAccepted, Received: 1_000 * sat, ExpiryHeight: 900_283},
		Budget: 30 * sat,
	}
}

// broken has, for every rule, facts that break this one and no other.
var broken = map[wrap.Code][]func(*wrap.Settings, *wrap.Facts){
	"NO_AMOUNT": {func(_ *wrap.Settings, f *wrap.Facts) { f.Inner.Amount, f.Requested = 0, 999 }},
	"AMP": {
		feature(paidaction.Feature{Bit: 30, Required: true, Known: true}), feature(paidaction.Feature{Bit: 31, Known: true}),
	},
	"UNKNOWN_FEATURE": {feature(paidaction.Feature{Bit: 1000, Required: true}), feature(paidaction.Feature{Bit: 1001})},
	"TOO_SMALL":       {func(_ *wrap.Settings, f *wrap.Facts) { f.Inner.Amount, f.Requested = 699, 699 }},
	"TOO_LARGE": {func(_ *wrap.Settings, f *wrap.Facts) {
		f.Inner.Amount, f.Requested = 700_000*sat+1, 700_000*sat+1
		f.Outer, f.Held.Received = 800_000*sat, 800_000*sat
	}},
	"ABOVE_REQUEST": {func(_ *wrap.Settings, f *wrap.Facts) { f.Requested-- }},
	"BELOW_REQUEST": {func(_ *wrap.Settings, f *wrap.Facts) { f.Requested += sat }},
	"ABOVE_OUTER": {func(_ *wrap.Settings, f *wrap.Facts) {
		f.Outer, f.Held.Received = f.Inner.Amount-1, f.Inner.Amount-1
		f.Route.Fee = 0
	}},
	"OURS":            {func(_ *wrap.Settings, f *wrap.Facts) { f.Own = true }},
	"HASH_USED":       {func(_ *wrap.Settings, f *wrap.Facts) { f.HashUsed = true }},
	"EXPIRES_SOON":    {func(_ *wrap.Settings, f *wrap.Facts) { f.Inner.Expires = now.Add(240*time.Second - 1) }},
	"OUTER_TOO_SHORT": {func(_ *wrap.Settings, f *wrap.Facts) { f.Inner.Expires = now.Add(180*time.Second - 1) }},
	"NODE_BEHIND":     {func(_ *wrap.Settings, f *wrap.Facts) { f.Chain.Synced = false }},
	"ROUTE_IMPOSSIBLE": {
		func(_ *wrap.Settings, f *wrap.Facts) { f.Route = paidaction.Route{} },
		func(_ *wrap.Settings, f *wrap.Facts) { f.Route.Height = f.Chain.Height + 79 },
		func(_ *wrap.Settings, f *wrap.Facts) { f.Route.Fee = -1 },
	},
	"ROUTE_TOO_DEAR":  {func(_ *wrap.Settings, f *wrap.Facts) { f.Route.Fee = 30*sat + 1 }},
	"LOCKED_TOO_LONG": {func(_ *wrap.Settings, f *wrap.Facts) { f.Route.Height = f.Chain.Height + 921 }},
	"NOT_HELD": {
		func(_ *wrap.Settings, f *wrap.Facts) { f.Held.State = paidaction.InvoiceOpen },
		func(_ *wrap.Settings, f *wrap.Facts) { f.Held.State = paidaction.InvoiceSettled },
		func(_ *wrap.Settings, f *wrap.Facts) { f.Held.State = paidaction.InvoiceCanceled },
	},
	"ANOTHER_HASH":     {func(_ *wrap.Settings, f *wrap.Facts) { f.Held.Hash[0]++ }},
	"UNDERPAID":        {func(_ *wrap.Settings, f *wrap.Facts) { f.Held.Received-- }},
	"BUDGET_TOO_LARGE": {func(_ *wrap.Settings, f *wrap.Facts) { f.Budget = 100*sat + 1 }, func(_ *wrap.Settings, f *wrap.Facts) { f.Budget = -1 }},
	"BLOCKS_SHORT": {
		func(_ *wrap.Settings, f *wrap.Facts) { f.Held.ExpiryHeight = f.Chain.Height + 80 + 80 + 3 },
		func(_ *wrap.Settings, f *wrap.Facts) { f.Held.ExpiryHeight = 0 },
	},
	"EXPIRED": {func(_ *wrap.Settings, f *wrap.Facts) { f.Inner.Expires = now.Add(30 * time.Second) }},
}

func feature(added paidaction.Feature) func(*wrap.Settings, *wrap.Facts) {
	return func(_ *wrap.Settings, f *wrap.Facts) { f.Inner.Features = append(f.Inner.Features, added) }
}

// stages are what is asked at each stage.
var stages = map[wrap.Stage]func(wrap.Settings, wrap.Facts) error{
	wrap.Asked:  wrap.Settings.CheckInner,
	wrap.Routed: func(s wrap.Settings, f wrap.Facts) error { _, err := s.Wrap(f); return err },
	wrap.Held:   func(s wrap.Settings, f wrap.Facts) error { _, err := s.Forward("lnbc1", f); return err },
}

func code(err error) wrap.Code {
	var v *wrap.Violation
	if errors.As(err, &v) {
		return v.Code
	}
	return ""
}

func TestSoundFactsPassEveryStage(t *testing.T) {
	t.Parallel()
	for stage, ask := range stages {
		if err := ask(wrap.Settings{}, sound()); err != nil {
			t.Errorf("stage %b: %v", stage, err)
		}
	}
	terms, err := wrap.Settings{}.Wrap(sound())
	if want := (wrap.Terms{Expiry: 480 * time.Second, CLTVDelta: 280, Budget: 30 * sat}); err != nil || terms != want {
		t.Errorf("%+v, %v", terms, err)
	}
	pay, err := wrap.Settings{}.Forward("lnbc1", sound())
	want := paidaction.PaymentRequest{Bolt11: "lnbc1", FeeLimit: 30 * sat, Timeout: 30 * time.Second, CLTVLimit: 203}
	if err != nil || pay != want {
		t.Errorf("%+v, %v", pay, err)
	}
}

// Every rule is broken alone, at every stage at which it is checked, and at no other.
func TestEveryRuleViolatedAlone(t *testing.T) {
	t.Parallel()
	for _, rule := range wrap.Rules {
		cases := broken[rule.Code]
		if len(cases) == 0 {
			t.Errorf("%s: nothing breaks this rule", rule.Code)
		}
		if rule.Why == "" || rule.At == 0 {
			t.Errorf("%s has no reason, or no stage", rule.Code)
		}
		for i, spoil := range cases {
			var s wrap.Settings
			f := sound()
			spoil(&s, &f)
			for stage, ask := range stages {
				want := rule.Code
				if rule.At&stage == 0 {
					want = ""
				}
				if got := code(ask(s, f)); got != want && !excused(want, got, rule.Code) {
					t.Errorf("%s, case %d, stage %b: %q", rule.Code, i, stage, got)
				}
			}
		}
	}
}
