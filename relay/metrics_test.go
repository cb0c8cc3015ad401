package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// spec 04 §4.3: what becomes of payments is counted, once each, and what has not ended is shown by stage.
func TestPaymentsAreCountedByWhatBecomesOfThem(t *testing.T) {
	b := setup(t)
	registry := prometheus.NewRegistry()
	r := b.NewRelay(func(c *relay.Config) { c.Metrics = relay.NewMetrics(registry) })
	b.Engine.Relay, b.Engine.Hooks.Moved = r, r.Metrics.Moved
	value := func(name string, label ...string) float64 {
		return locktest.Metric(t, registry, "holdfast_relay_"+name, label...)
	}
	want := func(want float64, name string, label ...string) {
		t.Helper()
		if got := value(name, label...); got != want {
			t.Errorf("%s%v is %v, want %v", name, label, got, want)
		}
	}

	stop := b.Run(r)
	zap := b.zap()
	b.pay(zap)
	b.Await(zap.ID, paidaction.Paid)
	b.rich(1_000)
	paid := b.withdraw(b.issue(simnode.Ask{Amount: 20_000}).Bolt11)
	b.Await(paid.ID, paidaction.Paid)
	refused := b.withdraw(b.issue(simnode.Ask{Amount: 20_000, Act: simnode.Refuses}).Bolt11)
	b.Await(refused.ID, paidaction.Failed)
	if _, err := b.tryWithdraw(b.issue(simnode.Ask{Amount: 20_000, Blinded: true}).Bolt11); err == nil {
		t.Error("an invoice that breaks a rule is taken")
	}
	stop() // what is counted after a commit is counted by now
	want(3, "sent_total", "one")
	want(2, "succeeded_total", "one")
	want(1, "confirmed_total", "WRAPPED")
	want(1, "confirmed_total", "OUTGOING")
	want(1, "failed_total", "INCORRECT_PAYMENT_DETAILS")
	want(1, "refused_total", "BLINDED")
	want(2, "seconds")
	want(0, "already_given_total")

	// A node has paid what nothing here tells of.
	known := b.issue(simnode.Ask{Amount: 20_000})
	err := b.Node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: known.Bolt11, FeeLimit: 5_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.tryWithdraw(known.Bolt11); !errors.Is(err, paidaction.Refused(paidaction.CodeDuplicate)) {
		t.Errorf("what the node has paid: %v", err)
	}
	want(1, "already_given_total")

	// One part is taken and the others hang: the receiver is paid, and nothing is confirmed.
	hangs := b.withdraw(b.issue(simnode.Ask{Amount: 20_000, Act: simnode.Splits, Parts: 2}).Bolt11)
	waits := b.issue(simnode.Ask{Amount: 20_000, Act: simnode.Holds})
	b.withdraw(waits.Bolt11)
	b.Run(r)
	b.Await(hangs.ID, paidaction.Forwarded)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(waits.Hash).Held == 20_000 }) // or its claim would be over unsent
	b.Clock.Advance(time.Minute)
	b.await("both are shown", func() bool {
		return value("payments", "pending_confirmation") == 1 && value("oldest_seconds", "pending_confirmation") >= 60 &&
			value("payments", "in_work") == 1 && value("oldest_seconds", "in_work") >= 60
	})
	want(0, "payments", "incoming")
	b.await("it is counted", func() bool { return value("succeeded_total", "one") == 3 })
	want(1, "confirmed_total", "OUTGOING")
}

// A payment counts as made in whichever process commits that it was, once: not in the one that has sent it and ended before.
func TestAPaymentIsCountedWhereItIsFinished(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 20_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	stop := b.Run(b.Relay)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 20_000 })
	stop()
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	b.Engine.Relay = b.NewRelay(func(c *relay.Config) { c.Metrics = relay.NewMetrics(registry) })
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	for _, name := range []string{"succeeded_total", "seconds"} {
		label := map[string][]string{"succeeded_total": {"one"}}[name]
		if got := locktest.Metric(t, registry, "holdfast_relay_"+name, label...); got != 1 {
			t.Errorf("%s is %v, want 1", name, got)
		}
	}
}

// The alarm is an increase, and Prometheus sees none in a number that is first shown with the first loss.
func TestANodeThatHasLostNothingIsShownWithZero(t *testing.T) {
	c := setup(t).Relay.Config
	registry := prometheus.NewRegistry()
	c.Metrics = relay.NewMetrics(registry)
	if _, err := relay.New(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, family := range families {
		if family.GetName() != "holdfast_relay_lost_by_node_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetCounter().GetValue() != 0 {
				t.Errorf("%v", m)
			}
			shown[m.GetLabel()[0].GetValue()] = true
		}
	}
	for _, name := range c.Nodes.Names() {
		if !shown[name] {
			t.Errorf("node %s is not shown", name)
		}
	}
}
