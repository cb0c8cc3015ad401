package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// watching is the engine's relay from now on. Its nodes answer at once.
func (b *bundle) watching(change ...func(*relay.Config)) *relay.Relay {
	b.Helper()
	r := b.NewRelay(append(change, func(c *relay.Config) {
		c.Beside = func(do func()) func() { do(); return func() {} }
	})...)
	b.Engine.Relay = r
	return r
}

// fill lets so many payments hang in a node's channel, which are none of ours.
func (b *bundle) fill(node *simnode.Node, payments int) (held []simnode.Issued) {
	b.Helper()
	for range payments {
		inv, sent := b.issue(simnode.Ask{Amount: 1_000, Act: simnode.Holds}), errors.New("sent")
		err := node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 5_000, Timeout: time.Minute}, func(paidaction.PaymentUpdate) error { return sent })
		if !errors.Is(err, sent) {
			b.Fatal(err)
		}
		held = append(held, inv)
	}
	return held
}

// empty ends what hangs.
func (b *bundle) empty(held []simnode.Issued) {
	b.Helper()
	for _, inv := range held {
		if err := b.wallet.Receiver.Cancel(inv.Hash); err != nil {
			b.Fatal(err)
		}
	}
}

// wraps reports whether an invoice of the author's wallet is wrapped now.
func (b *bundle) wraps(r *relay.Relay) bool {
	b.Helper()
	asked := len(b.wallet.Issued)
	_, err := r.Wrap(b.Ctx, b.wrapping())
	if err != nil && (!errors.Is(err, paidaction.ErrNoReceiver) || len(b.wallet.Issued) != asked) {
		b.Fatalf("%v, and the wallet was asked %d times", err, len(b.wallet.Issued)-asked)
	}
	return err == nil
}

// hang lets the time pass in which a node says that it is crowded.
func (b *bundle) hang(r *relay.Relay) {
	b.Helper()
	b.wraps(r)
	b.Clock.Advance(10 * time.Second)
	b.wraps(r)
}

// While more than half of a node's slots hang, nothing more is wrapped: receivers get credits. What is paid by then
// goes back at once, no wallet is blamed, and withdrawals leave all the same.
func TestACrowdedNodeIsGivenNoForward(t *testing.T) {
	b := setup(t)
	registry := prometheus.NewRegistry()
	r := b.watching(func(c *relay.Config) { c.Metrics = relay.NewMetrics(registry) })
	crowded := func() float64 { return locktest.Metric(t, registry, "holdfast_relay_crowded", "one") }
	b.Node.SetSlots(4)
	held := b.fill(b.Node, 2)
	b.hang(r)
	if !b.wraps(r) {
		t.Error("half of the slots hang, and nothing is wrapped")
	}
	held = append(held, b.fill(b.Node, 1)...)
	b.Clock.Advance(2 * time.Second)
	late := b.zap()
	b.Clock.Advance(9 * time.Second)
	if !b.wraps(r) {
		t.Error("nothing is wrapped, though what is under way may be over in a moment")
	}
	b.Clock.Advance(2 * time.Second)
	b.wraps(r)
	if b.wraps(r) {
		t.Error("three of four slots hang, and more is wrapped")
	}
	if m := b.asks(); m != paidaction.Optimistic {
		t.Errorf("a zap is paid by %s", m)
	}

	b.pay(late)
	b.Run(r)
	b.await("the node is shown as crowded", func() bool { return crowded() == 1 })
	if failed := b.Await(late.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodePaymentFailed {
		t.Errorf("%v", failed.Failure)
	}
	b.wantOuter(late, paidaction.InvoiceCanceled)
	b.wantReceived(late, 0)
	b.wantSent(late.Invoice.Hash, 0)
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'NOT_SENT' AND reason = 'CROWDED'`); n != 1 || b.Wallets.Failures(b.wallet.ID, late.ID) != 0 {
		t.Errorf("%d claims ended by it, %d failures of the wallet", n, b.Wallets.Failures(b.wallet.ID, late.ID))
	}
	b.Drain()
	if again := b.Look(*b.WantState(late.ID, paidaction.Retrying).Successor); again.Method != paidaction.Optimistic {
		t.Errorf("the next attempt is paid by %s", again.Method)
	}

	b.rich(1_000)
	out := b.withdraw(b.issue(simnode.Ask{Amount: 20_000}).Bolt11)
	b.Await(out.ID, paidaction.Paid)

	b.empty(held[2:])
	b.Clock.Advance(2 * time.Second)
	b.await("the node is asked by itself", func() bool { return crowded() == 0 })
	again := b.zap()
	b.pay(again)
	b.Await(again.ID, paidaction.Paid)
	b.empty(held[:2])
	b.wantSound()
}

// A forward goes to another node that has room, and back to its payer where none has.
func TestACrowdedNodeLeavesForwardsToAnother(t *testing.T) {
	b := setup(t, "one", "two")
	r := b.watching()
	step := func(node string) {
		t.Helper()
		if claimed, err := r.Step(b.Ctx, node, b.Engine.Advance); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
	}
	one, two := b.Node, b.Nodes[1]
	one.SetSlots(4)
	two.SetSlots(4)
	b.fill(one, 3)
	b.hang(r)
	before := two.Count(simnode.MethodEstimate, b.wallet.Last().Hash)
	pa := b.zap()
	if one.Count(simnode.MethodEstimate, pa.Invoice.Hash) != 0 || two.Count(simnode.MethodEstimate, pa.Invoice.Hash) != 1 || before != 1 {
		t.Error("a probe leaves the crowded node, or none leaves the other")
	}
	b.pay(pa)
	step("one")
	step("two")
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE node = 'one' AND outcome = 'FAILED' AND reason = 'CROWDED'`); n != 1 || b.Wallets.Failures(b.wallet.ID, pa.ID) != 0 {
		t.Errorf("%d claims ended by it, %d failures of the wallet", n, b.Wallets.Failures(b.wallet.ID, pa.ID))
	}

	back := b.zap()
	b.fill(two, 3)
	b.Clock.Advance(3 * time.Second)
	b.hang(r)
	if b.wraps(r) {
		t.Error("both are crowded, and more is wrapped")
	}
	b.pay(back)
	step("one")
	b.Await(back.ID, paidaction.Failed)
	b.wantOuter(back, paidaction.InvoiceCanceled)
}

// Room at a node that is given no payments is none: nobody waits for it.
func TestACrowdedNodeLeavesNothingToADrainedOne(t *testing.T) {
	b := setup(t, "one", "two")
	r := b.watching()
	b.Node.SetSlots(4)
	b.fill(b.Node, 3)
	b.hang(r)
	pa := b.zap()
	b.pay(pa)
	if _, err := b.Pool.Exec(b.Ctx, `INSERT INTO lightning_node (name, draining, changed_at) VALUES ('two', true, now())`); err != nil {
		t.Fatal(err)
	}
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	b.Await(pa.ID, paidaction.Failed)
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantSent(pa.Invoice.Hash, 0)
	b.wantSound()
}

// That a node is crowded is no try: however many are, the payment goes on to one that has room.
func TestACrowdedNodeIsNoTry(t *testing.T) {
	b := setup(t, "one", "two", "three", "four")
	r := b.watching()
	for _, n := range b.Nodes[:3] {
		n.SetSlots(4)
		b.fill(n, 3)
	}
	b.hang(r)
	pa := b.zap()
	b.pay(pa)
	for _, n := range b.Nodes {
		if claimed, err := r.Step(b.Ctx, n.Name(), b.Engine.Advance); err != nil || !claimed {
			t.Fatal(n.Name(), claimed, err)
		}
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
}

// Room at a node that cannot send the payment is none: it goes back at once.
func TestACrowdedNodeLeavesNothingToOneThatCannotSendIt(t *testing.T) {
	b := setup(t, "one", "two")
	r := b.watching()
	b.Node.SetSlots(4)
	b.fill(b.Node, 3)
	pa := b.zap()
	b.hang(r)
	b.Nodes[1].SetSendable(10_000)
	b.Clock.Advance(2 * time.Second) // then it is asked again
	b.pay(pa)
	if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	b.Await(pa.ID, paidaction.Failed)
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantSent(pa.Invoice.Hash, 0)
}

// What may have been sent is not given up, however crowded its node is.
func TestWhatMayHaveBeenSentIsSentByACrowdedNode(t *testing.T) {
	b := setup(t)
	r := b.watching()
	step := func() {
		t.Helper()
		if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); err != nil || !claimed {
			t.Fatal(claimed, err)
		}
	}
	pa := b.zap()
	b.pay(pa)
	b.Node.FailBefore(simnode.MethodPay, 1)
	step()
	b.Clock.Advance(over)
	b.Advance(pa.ID)
	if row := b.AwaitStage(pa.ID, "incoming"); row.Node == nil {
		t.Error("it is not kept for the node that may have been given it")
	}
	b.Node.SetSlots(4)
	held := b.fill(b.Node, 3)
	b.hang(r)
	if b.wraps(r) {
		t.Error("the node is not crowded")
	}
	step()
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.empty(held)
	b.wantSound()
}

// takesLong is a node that lists its channels only when it is told to.
type takesLong struct {
	paidaction.SendingNode
	asked  chan struct{}
	answer chan error
}

func (n takesLong) Channels(ctx context.Context) ([]paidaction.Channel, error) {
	n.asked <- struct{}{}
	if err := <-n.answer; err != nil {
		return nil, err
	}
	return n.SendingNode.Channels(ctx)
}

// Nobody waits until a node has listed its channels, and while it does not, payments go on. It is not asked again all the
// time: after an answer that took long, it rests for long.
func TestNobodyWaitsForTheListOfChannels(t *testing.T) {
	b := setup(t)
	asked, answer, log := make(chan struct{}, 100), make(chan error), &enginetest.Log{}
	defer close(answer)
	r := b.NewRelay(func(c *relay.Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		c.Nodes = replaced{c.Nodes, []string{"one"}, "one", func(n paidaction.SendingNode) paidaction.SendingNode { return takesLong{n, asked, answer} }}
	})
	b.Engine.Relay = r
	b.Run(r)
	b.Node.SetSlots(1)
	held := b.fill(b.Node, 1)
	paid := func() {
		t.Helper()
		pa := b.zap()
		b.pay(pa)
		b.Await(pa.ID, paidaction.Paid)
	}
	paid()
	<-asked
	b.Clock.Advance(15 * time.Second)
	paid()
	if len(asked) != 0 {
		t.Error("it is asked twice at once")
	}
	answer <- errors.New("it lists nothing")
	b.await("the answer is there", func() bool { return strings.Contains(log.String(), "it lists nothing") })
	b.Clock.Advance(19 * time.Second)
	paid()
	if len(asked) != 0 {
		t.Error("it does not rest after an answer that took long")
	}
	b.Clock.Advance(time.Second)
	b.await("it is asked again", func() bool { b.wraps(r); return len(asked) == 1 })
	b.empty(held)
}

// A bound of 100 % is none, and nobody is asked.
func TestWithoutABoundNoNodeIsAskedForItsChannels(t *testing.T) {
	b := setup(t)
	r := b.watching(func(c *relay.Config) { c.Settings.CrowdedAt = 100 })
	b.Node.SetSlots(1)
	b.fill(b.Node, 3)
	b.hang(r)
	if n := b.Node.Count(simnode.MethodChannels, paidaction.Hash{}); !b.wraps(r) || n != 0 {
		t.Errorf("asked %d times", n)
	}
}

func TestTooLittleLeft(t *testing.T) {
	t.Parallel()
	const btc = 100_000_000_000
	wide := func(local, locked paidaction.Msat, leaving int64) paidaction.Channel {
		return paidaction.Channel{Local: local, Locked: locked, Leaving: leaving, MostLeaving: 483, MostLocked: local + locked}
	}
	for name, c := range map[string]struct {
		channels []paidaction.Channel
		percent  int64
		want     bool
	}{
		"no channel":                        {nil, 50, false},
		"an empty one":                      {[]paidaction.Channel{wide(0, 0, 0)}, 50, false},
		"half of the slots":                 {[]paidaction.Channel{wide(btc, 0, 241)}, 50, false},
		"more than that":                    {[]paidaction.Channel{wide(btc, 0, 242)}, 50, true},
		"another share":                     {[]paidaction.Channel{wide(btc, 0, 242)}, 60, false},
		"half of the balance":               {[]paidaction.Channel{wide(btc, btc, 1)}, 50, false},
		"more than half":                    {[]paidaction.Channel{wide(btc, btc+1000, 1)}, 50, true},
		"one of three is full":              {[]paidaction.Channel{wide(btc, 0, 483), wide(btc, 0, 0), wide(btc, 0, 0)}, 50, false},
		"two of three":                      {[]paidaction.Channel{wide(btc, 0, 483), wide(btc, 0, 483), wide(btc, 0, 0)}, 50, true},
		"slots where nothing can be sent":   {[]paidaction.Channel{wide(btc, 0, 483), wide(0, 0, 0), wide(0, 0, 0)}, 50, true},
		"few slots":                         {[]paidaction.Channel{{Local: btc, Leaving: 16, MostLeaving: 30, MostLocked: btc}}, 50, true},
		"as much as the peer lets be on it": {[]paidaction.Channel{{Local: btc, Locked: btc / 10, Leaving: 1, MostLeaving: 483, MostLocked: btc / 10}}, 50, true},
		"all bitcoin there are":             {[]paidaction.Channel{wide(21_000_000*btc, 0, 0)}, 70, false},
	} {
		if left, enough := relay.LeftIn(c.channels, c.percent); enough == c.want {
			t.Errorf("%s: %d msat are left, enough: %t", name, left, enough)
		}
	}
}
