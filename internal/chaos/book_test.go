package chaos

import (
	"maps"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// story is a small run in which everything goes well: bob buys credits and zaps with them, zaps alice directly,
// withdraws, tries something twice, and is refused once.
func story() (*book, facts) {
	b := newBook()
	bob := &person{name: "bob"}
	f := facts{records: map[string]record{}, paid: map[string]devnet.Payment{}, received: map[string]devnet.Invoice{},
		credits: map[string]int64{"bob": 150_000}}
	act := func(key string, shown action, r record) {
		b.asks(bob, "something", key)
		b.answered(bob, key, shown)
		r.id, r.genesis, r.key, r.kind, r.state = shown.ID, shown.ID, key, shown.Kind, shown.State
		f.records[r.id] = r
	}
	act("k1", action{ID: "1", Kind: "BUY_CREDITS", State: paidaction.Paid, Method: paidaction.Pessimistic, Cost: 200_000}, record{hash: "h1", received: 200_000})
	f.paid["h1"] = devnet.Payment{Settled: true, AmountMsat: 200_000}
	act("k2", action{ID: "2", Kind: "ZAP", State: paidaction.Paid, Method: paidaction.FeeCredit, Cost: 50_000}, record{})
	act("k3", action{ID: "3", Kind: "ZAP", State: paidaction.Paid, Method: paidaction.P2P, Cost: 10_000},
		record{hash: "h3", received: 10_000, leaving: "h3", left: 7_000, completed: true})
	f.paid["h3"] = devnet.Payment{Settled: true, AmountMsat: 10_000}
	f.received["h3"] = devnet.Invoice{State: "SETTLED", PaidMsat: 7_000}
	act("k4", action{ID: "4", Kind: "WITHDRAW", State: paidaction.Paid, Method: paidaction.Outgoing, Cost: 30_000},
		record{leaving: "h4", left: 20_000, completed: true})
	f.received["h4"] = devnet.Invoice{State: "SETTLED", PaidMsat: 20_000}
	act("k5", action{ID: "5", Kind: "ZAP", State: paidaction.Retrying, Method: paidaction.Optimistic}, record{hash: "h5"})
	b.saw(bob, action{ID: "6", Kind: "ZAP", State: paidaction.Paid, Method: paidaction.Optimistic, Cost: 10_000})
	f.records["6"] = record{id: "6", genesis: "5", kind: "ZAP", state: paidaction.Paid, hash: "h6", received: 10_000}
	f.paid["h5"] = devnet.Payment{Failure: "FAILURE_REASON_INCORRECT_PAYMENT_DETAILS", AmountMsat: 10_000}
	f.paid["h6"] = devnet.Payment{Settled: true, AmountMsat: 10_000}
	f.received["h7"] = devnet.Invoice{State: "OPEN", Msat: 10_000} // nobody withdrew to it
	b.asks(bob, "something", "k8")
	b.refused("k8", paidaction.CodeInsufficientFunds)
	return b, f
}

// with is a map with one entry changed.
func with[K comparable, V any](m map[K]V, key K, change func(*V)) {
	v := m[key]
	change(&v)
	m[key] = v
}

func TestTheBookFindsWhatIsLost(t *testing.T) {
	t.Parallel()
	bob := &person{name: "bob"}
	for name, c := range map[string]struct {
		change func(b *book, f *facts)
		want   []string
	}{
		"nothing": {func(*book, *facts) {}, nil},
		"an action that was answered is gone": {func(_ *book, f *facts) { delete(f.records, "2") },
			[]string{"became action 2", "shown to bob as PAID, and is gone"}},
		"an action that was shown as PAID is not": {func(_ *book, f *facts) { with(f.records, "2", func(r *record) { r.state = paidaction.Failed }) },
			[]string{"shown to bob as PAID, and is FAILED"}},
		"an action was PAID for a while": {func(b *book, f *facts) {
			b.saw(bob, action{ID: "2", Kind: "ZAP", State: paidaction.Failed})
			with(f.records, "2", func(r *record) { r.state = paidaction.Failed })
			f.credits["bob"] += 50_000
		}, []string{"shown as PAID, and later as FAILED", "shown to bob as FAILED, and is FAILED"}},
		"a number was given to another action": {func(_ *book, f *facts) { with(f.records, "2", func(r *record) { r.kind = "DONATE" }) },
			[]string{"shown to bob as ZAP, and is DONATE"}},
		"one key has two actions": {func(_ *book, f *facts) {
			with(f.records, "2", func(r *record) { r.key = "k9" })
		}, []string{`became action 2, and the database has "" under its key`, "action 2 (ZAP) was asked for by nobody"}},
		"a request was never answered": {func(b *book, _ *facts) { b.asks(bob, "donation", "k9") }, []string{"donation of bob was never answered"}},
		"what was refused was paid for": {func(b *book, f *facts) {
			b.saw(bob, action{ID: "8", Kind: "ZAP", State: paidaction.Paid})
			f.records["8"] = record{id: "8", genesis: "8", key: "k8", kind: "ZAP", state: paidaction.Paid}
		}, []string{"was refused with INSUFFICIENT_FUNDS, and action 8 is PAID"}},
		"what was refused failed": {func(_ *book, f *facts) {
			f.records["8"] = record{id: "8", genesis: "8", key: "k8", kind: "ZAP", state: paidaction.Failed}
		}, nil},
		"nobody was told of a payment": {func(_ *book, f *facts) {
			f.records["8"] = record{id: "8", genesis: "2", kind: "ZAP", state: paidaction.Paid}
		}, []string{"action 8 (ZAP) is PAID, and nobody was told"}},
		"paid by nobody": {func(_ *book, f *facts) { delete(f.paid, "h1") }, []string{"is PAID, and the payer's node has not paid it"}},
		"paid, and failed": {func(_ *book, f *facts) {
			with(f.paid, "h5", func(p *devnet.Payment) { *p = devnet.Payment{Settled: true, AmountMsat: 10_000} })
		},
			[]string{"has paid 10000 msat for action 5 (ZAP), which is RETRYING"}},
		"booked less than was paid": {func(_ *book, f *facts) { with(f.records, "1", func(r *record) { r.received-- }) },
			[]string{"was paid with 200000 msat, and 199999 are booked"}},
		"a payment hangs": {func(_ *book, f *facts) { with(f.paid, "h5", func(p *devnet.Payment) { p.Failure = "" }) }, []string{"is still paying for action 5"}},
		"a payment that LND has forgotten": {func(_ *book, f *facts) {
			with(f.paid, "h5", func(p *devnet.Payment) { p.Failure = "" })
			f.forgotten = map[string]bool{"h5": true}
		}, nil},
		"a PAID action's payment that LND has forgotten": {func(_ *book, f *facts) {
			with(f.paid, "h1", func(p *devnet.Payment) { p.Settled = false })
			f.forgotten = map[string]bool{"h1": true}
		}, []string{"is PAID, and the payer's node has not paid it"}},
		"a payment of nobody's":    {func(_ *book, f *facts) { f.paid["h9"] = devnet.Payment{Settled: true, AmountMsat: 1} }, []string{"belongs to no action"}},
		"left, and did not arrive": {func(_ *book, f *facts) { delete(f.received, "h4") }, []string{"20000 msat left for action 4"}},
		"arrived in part":          {func(_ *book, f *facts) { with(f.received, "h3", func(i *devnet.Invoice) { i.PaidMsat-- }) }, []string{"7000 msat left for action 3"}},
		"arrived, and was given up": {func(_ *book, f *facts) { with(f.records, "4", func(r *record) { r.completed = false }) },
			[]string{"has 20000 msat of action 4"}},
		"arrived from nowhere": {func(_ *book, f *facts) { f.received["h9"] = devnet.Invoice{State: "SETTLED", PaidMsat: 1} }, []string{"left for no action"}},
		"held by the receiver": {func(_ *book, f *facts) { f.received["h9"] = devnet.Invoice{State: "ACCEPTED", PaidMsat: 1} }, []string{"holds 1 msat"}},
		"credits are missing":  {func(_ *book, f *facts) { f.credits["bob"]-- }, []string{"bob has 149999 msat of credits, and was told of 150000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, f := story()
			c.change(b, &f)
			found := b.compare(f)
			if len(found) != len(c.want) {
				t.Errorf("found %q, want %d", found, len(c.want))
			}
			for _, want := range c.want {
				if !strings.Contains(strings.Join(found, "\n"), want) {
					t.Errorf("found %q, not %q", found, want)
				}
			}
		})
	}
}

func TestTheBookRemembersWhatHasFailed(t *testing.T) {
	t.Parallel()
	b := newBook()
	nobody := &person{name: "nobody"}
	b.saw(nobody, action{ID: "1", State: paidaction.Pending, Secret: "s"})
	b.saw(nobody, action{ID: "1", State: paidaction.Failed})
	b.saw(nobody, action{ID: "2", State: paidaction.Paid})
	if failed := b.unended(); len(failed) != 1 || failed[0].last.ID != "1" || failed[0].secret != "s" {
		t.Errorf("failed: %+v", failed)
	}
	if counts := b.counts(); !maps.Equal(counts, map[paidaction.State]int{paidaction.Failed: 1, paidaction.Paid: 1}) {
		t.Errorf("counts: %v", counts)
	}
}
