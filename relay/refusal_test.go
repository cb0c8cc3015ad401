package relay_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// labels are all reasons for which a payment can be given up.
func labels() []string {
	all := []string{
		"", "CROWDED", "DIFFERS", "EXPIRED", "GIVEN_UP", "INVOICE_ENDED", "LOW_OUTBOUND", "NO_NODE", "PAID_OTHERWISE", "UNKNOWN",
		"WALLET_GONE",
		"CANCELED", "ERROR", "INCORRECT_PAYMENT_DETAILS", "INSUFFICIENT_BALANCE", "NONE", "NO_ROUTE", "TIMEOUT",
	}
	for _, rule := range wrap.Rules {
		if rule.At&wrap.Held != 0 {
			all = append(all, string(rule.Code))
		}
	}
	return all
}

// What a payer is told is stored when the payment to the receiver is given up. The money goes back after that, and
// later if their node is away.
func TestNobodyIsToldThatMoneyIsBackBeforeItIs(t *testing.T) {
	t.Parallel()
	for _, label := range labels() {
		if _, told := relay.ReasonOf(label); regexp.MustCompile(`is back|went back`).MatchString(told.Message) {
			t.Errorf("a payer is told: %s", told.Message)
		}
	}
}

// Alarms and dashboards go by the labels: each is one short name, as listed here, and no sentence.
func TestReasonsAreCountedByShortNames(t *testing.T) {
	t.Parallel()
	all := labels()
	for _, label := range relay.Told() {
		if !slices.Contains(all, label) {
			t.Errorf("%s is not listed", label)
		}
	}
	for _, label := range all {
		counted, _ := relay.ReasonOf(label)
		if !regexp.MustCompile(`^[A-Z]+(_[A-Z]+){0,3}$`).MatchString(counted) || (label != "" && counted != label) {
			t.Errorf("%q is counted as %q", label, counted)
		}
	}
	if counted, _ := relay.ReasonOf(""); counted != "UNKNOWN" {
		t.Errorf("what the node does not name is counted as %q", counted)
	}
}

// counting has a new relay count what is given up, by reason.
func (b *bundle) counting() (counted func(reason string) float64) {
	registry := prometheus.NewRegistry()
	b.Relay = b.NewRelay(func(c *relay.Config) { c.Metrics = relay.NewMetrics(registry) })
	b.Engine.Relay = b.Relay
	return func(reason string) float64 {
		return locktest.Metric(b, registry, "holdfast_relay_failed_total", reason)
	}
}

// What an operator gives up counts like everything else, once.
func TestWhatAnOperatorGivesUpIsCounted(t *testing.T) {
	b := setup(t).rich(100)
	counted := b.counting()
	pa := b.held()
	b.Node.Wipe()
	b.Clock.Advance(22 * 24 * time.Hour)
	b.wantGivenUp(pa.ID)
	if n := counted("GIVEN_UP"); n != 1 {
		t.Errorf("counted %v times", n)
	}
}

// An invoice that expired is told and counted in one way, whoever finds it out.
func TestAnExpiredInvoiceIsToldInOneWay(t *testing.T) {
	for name, before := range map[string]func(b *bundle){
		"no node took it": func(*bundle) {},
		"its node was never given it": func(b *bundle) {
			b.Node.FailBefore(simnode.MethodPay, 1)
			if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
				b.Fatalf("claimed: %t, error %v", claimed, err)
			}
		},
		"it expires before it is sent": func(b *bundle) {
			b.Clock.Advance(time.Hour - 10*time.Second)
			if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); !claimed || err != nil {
				b.Fatalf("claimed: %t, error %v", claimed, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			counted := b.counting()
			pa := b.zap()
			b.pay(pa)
			before(b)
			b.Clock.Advance(2 * time.Hour)
			b.rounds(3)
			const told = "The receiver's invoice expired before it could be paid."
			if pa := b.WantState(pa.ID, paidaction.Failed); pa.Failure.Message != told {
				t.Errorf("its payer is told %+v", pa.Failure)
			}
			if n := counted("EXPIRED"); n != 1 {
				t.Errorf("counted %v times", n)
			}
		})
	}
}

// What has failed at the one node that is given payments waits for no node that an operator drains.
func TestWhatFailedElsewhereWaitsForNoDrainedNode(t *testing.T) {
	for name, begin := range map[string]func(b *bundle) *paidaction.PaidAction{
		"a forward": func(b *bundle) *paidaction.PaidAction {
			pa := b.zap()
			b.pay(pa)
			return pa
		},
		"a withdrawal": func(b *bundle) *paidaction.PaidAction {
			return b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two").rich(100)
			pa := begin(b)
			b.Node.SetIsolated(true)
			if _, err := b.Pool.Exec(b.Ctx, `INSERT INTO lightning_node (name, draining, changed_at) VALUES ('two', true, now())`); err != nil {
				t.Fatal(err)
			}
			if claimed, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			b.rounds(1)
			b.WantState(pa.ID, paidaction.Failed)
			b.wantSound()
		})
	}
}
