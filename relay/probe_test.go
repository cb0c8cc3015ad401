package relay_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// probes are how often the nodes together were asked for a route.
func (b *bundle) probes() (n int) {
	for _, node := range b.Nodes {
		for _, c := range node.Calls() {
			if c.Method == simnode.MethodEstimate {
				n++
			}
		}
	}
	return n
}

// wrapping asks for an invoice around one of the author's.
func (b *bundle) wrapping() paidaction.WrapRequest {
	return paidaction.WrapRequest{Receiver: b.author, Node: "one", Outer: 100_000, Share: 70_000, Memo: "a zap", Calling: func() {}}
}

// asks has somebody ask for a zap, and says how it is to be paid.
func (b *bundle) asks() paidaction.Method {
	b.Helper()
	return b.Pay(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "").Method
}

// Spec 03 §3.2: a receiver whose node lets probes hang holds a bounded number of them too, over all nodes and however many ask at once.
// They count among what is under way to them, until their HTLCs have expired.
func TestAReceiverWhoLetsProbesHangIsBounded(t *testing.T) {
	b := setup(t, "one", "two")
	b.wallet.Ask.Act = simnode.HangsProbes
	at(6, func() (*paidaction.PaidAction, error) {
		return b.Try(0, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, paidaction.P2P, "")
	})
	for range 3 {
		if m := b.asks(); m == paidaction.P2P {
			t.Error("wrapped, though nobody knows a way")
		}
	}
	if n := b.probes(); n != 3 {
		t.Errorf("%d probes, want 3", n)
	}
	b.wallet.Ask.Act = simnode.Pays
	if m := b.asks(); m == paidaction.P2P || b.probes() != 3 {
		t.Errorf("%s, %d probes: three hang", m, b.probes())
	}
	b.Clock.Advance(23 * time.Hour) // blocks may come slowly, and the way to the receiver locks the money for longer than they ask
	if m := b.asks(); m == paidaction.P2P || b.probes() != 3 {
		t.Errorf("%s, %d probes: three may still hang", m, b.probes())
	}
	b.Clock.Advance(2 * time.Hour)
	if m := b.asks(); m != paidaction.P2P || b.Count(`SELECT count(*) FROM route_probe WHERE until > $1`, b.Clock.Now()) != 0 {
		t.Errorf("%s: those that hung have expired, the one after them came back", m)
	}
}

// slowNodes are nodes whose probes are out until back is closed, whatever their time limit.
type slowNodes struct {
	relay.Nodes
	out, back chan struct{}
}

type slowNode struct {
	paidaction.SendingNode
	nodes slowNodes
}

func (n slowNodes) Sender(name string) (paidaction.SendingNode, error) {
	node, err := n.Nodes.Sender(name)
	return slowNode{node, n}, err
}

func (n slowNode) EstimateRoute(ctx context.Context, r paidaction.RouteRequest) (paidaction.Route, error) {
	n.nodes.out <- struct{}{}
	<-n.nodes.back
	return n.SendingNode.EstimateRoute(ctx, r)
}

// slowly is a relay with slow probes.
func (b *bundle) slowly(change func(*relay.Config)) (*relay.Relay, slowNodes) {
	slow := slowNodes{out: make(chan struct{}, 10), back: make(chan struct{})}
	r := b.NewRelay(func(c *relay.Config) {
		slow.Nodes = c.Nodes
		c.Nodes = slow
		change(c)
	})
	return r, slow
}

// Several who pay somebody popular at the same moment wait for each other's probes, and all are wrapped.
func TestProbesThatComeBackAreWaitedFor(t *testing.T) {
	b := setup(t)
	waits := make(chan struct{}, 5)
	r, slow := b.slowly(func(c *relay.Config) {
		c.Settings.ProbeTimeout = time.Minute
		c.Wait = func(context.Context, func() bool) { waits <- struct{}{} }
	})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := r.Wrap(b.Ctx, b.wrapping()); err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		<-slow.out
	}
	for range 2 {
		<-waits
	}
	close(slow.back)
	all.Wait()
	if n := b.probes(); n != 5 || b.Count(`SELECT count(*) FROM route_probe`) != 0 {
		t.Errorf("%d probes, want 5, or one is still noted", n)
	}
}

// Whoever waits for probes that do not come back gives up, and so does one whose request ends. Neither probes.
func TestNobodyWaitsLongForOthersProbes(t *testing.T) {
	b := setup(t)
	ended, end := context.WithCancelCause(b.Ctx)
	gone := errors.New("gone")
	r, slow := b.slowly(func(c *relay.Config) {
		c.Settings.ProbeTimeout = 50 * time.Millisecond
		c.Wait = func(context.Context, func() bool) { end(gone) }
	})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { _, _ = r.Wrap(b.Ctx, b.wrapping()) })
	}
	for range 3 {
		<-slow.out
	}
	if _, err := r.Wrap(ended, b.wrapping()); !errors.Is(err, gone) {
		t.Errorf("of a request that ended: %v", err)
	}
	if _, err := r.Wrap(b.Ctx, b.wrapping()); !errors.Is(err, paidaction.ErrNoReceiver) {
		t.Error(err)
	}
	close(slow.back)
	all.Wait()
	if n := b.Count(`SELECT count(*) FROM route_probe`); n != 3 || len(slow.out) != 0 {
		t.Errorf("%d probes are noted as hanging and %d came later, want 3 and 0", n, len(slow.out))
	}
}

// Probes that are too slow count no more once they have come back.
func TestASlowProbeThatHasComeBackIsCountedNoMore(t *testing.T) {
	b := setup(t)
	back := make(chan bool, 3)
	r := b.NewRelay(func(c *relay.Config) { c.Nodes = openNodes{c.Nodes, back} })
	for range 3 {
		if _, err := r.Wrap(b.Ctx, b.wrapping()); !errors.Is(err, paidaction.ErrNoReceiver) {
			t.Error(err)
		}
	}
	if m := b.asks(); m == paidaction.P2P {
		t.Error("wrapped, though three probes are out")
	}
	for range 3 {
		back <- true
	}
	b.await("the probes are forgotten", func() bool { return b.Count(`SELECT count(*) FROM route_probe`) == 0 })
	if m := b.asks(); m != paidaction.P2P {
		t.Errorf("paid by %s, though they have come back", m)
	}
}

// A probe that comes back in the very moment in which nobody waits for it any more has come back, and one that its node has not come to send by then
// is not out: three would bar the receiver's wallets for a day.
func TestAProbeThatComesBackInTheLastMomentIsBack(t *testing.T) {
	b := setup(t)
	for name, err := range map[string]error{"with a route": nil, "without one": paidaction.ErrNoRoute, "never sent": paidaction.ErrNotProbed} {
		r := b.NewRelay(func(c *relay.Config) {
			c.Nodes, c.Settings.ProbeTimeout = lastMoment{c.Nodes, err}, 10*time.Millisecond
		})
		if _, wrapped := r.Wrap(b.Ctx, b.wrapping()); (wrapped == nil) != (err == nil) {
			t.Errorf("%s: %v", name, wrapped)
		}
		if n := b.Count(`SELECT count(*) FROM route_probe`); n != 0 {
			t.Errorf("%s: %d probes are noted", name, n)
		}
	}
}

// lastMoment are nodes that answer just when the time for a probe is over.
type lastMoment struct {
	relay.Nodes
	err error
}

func (n lastMoment) Sender(name string) (paidaction.SendingNode, error) {
	node, err := n.Nodes.Sender(name)
	return lastMomentNode{node, n.err}, err
}

type lastMomentNode struct {
	paidaction.SendingNode
	err error
}

func (n lastMomentNode) EstimateRoute(ctx context.Context, r paidaction.RouteRequest) (paidaction.Route, error) {
	route, err := n.SendingNode.EstimateRoute(ctx, r)
	<-ctx.Done()
	return route, cmp.Or(err, n.err)
}

// openNodes are nodes whose probes come back when back says so, long after whoever asked.
type openNodes struct {
	relay.Nodes
	back chan bool
}

func (n openNodes) Sender(name string) (paidaction.SendingNode, error) {
	node, err := n.Nodes.Sender(name)
	return openNode{node, n.back}, err
}

type openNode struct {
	paidaction.SendingNode
	back chan bool
}

func (n openNode) EstimateRoute(context.Context, paidaction.RouteRequest) (paidaction.Route, error) {
	return paidaction.Route{}, fmt.Errorf("a slow node: %w", &paidaction.OpenProbe{Back: n.back})
}

// Whoever asked for the invoice may hang up while a probe is out. It is seen to come back all the same: otherwise three
// payers who hang up would bar a receiver's wallets for a day.
func TestAProbeOfARequestThatEndedIsSeenToComeBack(t *testing.T) {
	b := setup(t)
	ctx, hangUp := context.WithCancel(b.Ctx)
	r, slow := b.slowly(func(c *relay.Config) { c.Settings.ProbeTimeout = time.Minute })
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := r.Wrap(ctx, b.wrapping()); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for range 3 {
		<-slow.out
	}
	hangUp()
	close(slow.back)
	all.Wait()
	if n := b.Count(`SELECT count(*) FROM route_probe`); n != 0 {
		t.Errorf("%d probes that have come back are noted as hanging", n)
	}
	if m := b.asks(); m != paidaction.P2P {
		t.Errorf("the next payer pays by %s", m)
	}
}

// Whoever lets probes hang chooses for how long, by what their invoices say: until then they count.
func TestAProbeCountsForAsLongAsItsReceiverCanKeepIt(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act, b.wallet.Ask.CLTVDelta = simnode.HangsProbes, 837 // with the route and the padding as long as any may be
	for range 3 {
		b.asks()
	}
	b.wallet.Ask.Act = simnode.Pays
	b.Clock.Advance(138 * time.Hour)
	if m := b.asks(); m == paidaction.P2P || b.probes() != 3 {
		t.Errorf("%s, %d probes: three hang", m, b.probes())
	}
	b.Clock.Advance(2 * time.Hour)
	b.wallet.Ask.CLTVDelta = 921 // and for longer than any route may: it is not even tried
	if m := b.asks(); m == paidaction.P2P || b.probes() != 3 {
		t.Errorf("%s, %d probes", m, b.probes())
	}
	b.wallet.Ask.CLTVDelta = 80
	if m := b.asks(); m != paidaction.P2P {
		t.Errorf("%s: those that hung have expired", m)
	}
}

// A probe is forgotten once it has certainly come back, by whatever clock, and not before: until then it counts.
func TestAProbeIsNotForgottenTooSoon(t *testing.T) {
	b := setup(t)
	now := b.Clock.Now()
	for _, until := range []time.Time{now.Add(time.Hour), now.Add(-59 * time.Minute), now.Add(-61 * time.Minute)} {
		if _, err := b.Pool.Exec(b.Ctx, `INSERT INTO route_probe (receiver_id, amount_msat, hangs_at, until) VALUES ($1, 1, $2, $2)`, b.author, until); err != nil {
			t.Fatal(err)
		}
	}
	if more, err := relay.SweepProbes(b.Ctx, db.New(b.Pool), now); more || err != nil {
		t.Errorf("more is left: %t, error %v", more, err)
	}
	if n := b.Count(`SELECT count(*) FROM route_probe WHERE until > $1`, now.Add(-time.Hour)); n != 2 || b.Count(`SELECT count(*) FROM route_probe`) != n {
		t.Errorf("%d of the two that count are left", n)
	}
}

// What hangs leaves that much less for payments.
func TestHangingProbesCountAmongWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	b := newBundle(t, paidaction.Settings{MaxForwards: 2}, "one")
	b.wallet.Ask.Act = simnode.HangsProbes
	for range 2 {
		b.asks()
	}
	b.wallet.Ask.Act = simnode.Pays
	pa := b.zap()
	if err := b.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(5 * time.Second) // by now they should have come back
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	if failed := b.WantState(pa.ID, paidaction.Failed); failed.Failure.Code != paidaction.CodeReceiverBusy {
		t.Errorf("%v", failed.Failure)
	}
	other := b.User("other", 100_000, 0)
	b.item, b.wallet = b.Post(other, "another post"), b.Wallets.Add(other)
	b.Run(b.Relay)
	pa = b.zap()
	b.pay(pa)
	b.Await(pa.ID, paidaction.Paid)
}

// Probes that are out and do not hang take nothing from payments: otherwise somebody who asks for invoices, and pays
// none, could have whatever others pay to a receiver go back.
func TestProbesThatAreOutRefuseNoPayment(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	r, slow := b.slowly(func(c *relay.Config) { c.Settings.ProbeTimeout = 20 * time.Second })
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			request := b.wrapping()
			request.Outer, request.Share = 700_000_000, 490_000_000
			_, _ = r.Wrap(b.Ctx, request)
		})
	}
	for range 3 {
		<-slow.out
	}
	if n := b.Count(`SELECT count(*) FROM route_probe WHERE until > $1`, b.Clock.Now().Add(23*time.Hour)); n != 3 {
		t.Errorf("%d probes would count if the process died now", n)
	}
	b.pay(pa)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	close(slow.back)
	all.Wait()
}

// A route that costs more than the budget is not tried: what is tried has it locked.
func TestAProbeKeepsToTheBudget(t *testing.T) {
	b := setup(t)
	b.Node.SetRoute(simnode.Route{Fee: 3_001, Blocks: 80})
	b.wallet.Ask.Act = simnode.HangsProbes
	if m := b.asks(); m == paidaction.P2P || b.Count(`SELECT count(*) FROM route_probe`) != 0 {
		t.Errorf("%s, or a probe that was sent hangs", m)
	}
	b.Node.SetRoute(simnode.Route{Fee: 3_000, Blocks: 80})
	if m := b.asks(); m == paidaction.P2P || b.Count(`SELECT count(*) FROM route_probe`) != 1 {
		t.Errorf("%s, or no probe hangs", m)
	}
}

// A node that does not answer at all: nobody waits for longer than a probe may take.
func TestANodeThatHangsWithAProbeIsNotWaitedFor(t *testing.T) {
	b := setup(t)
	r := b.NewRelay(func(c *relay.Config) { c.Settings.ProbeTimeout = 50 * time.Millisecond })
	b.Node.Before(simnode.MethodEstimate, func(paidaction.Hash) { b.Node.SetHung(true) })
	defer b.Node.SetHung(false)
	_, err := r.Wrap(b.Ctx, b.wrapping())
	if err == nil || b.Count(`SELECT count(*) FROM route_probe`) != 1 {
		t.Errorf("got %v", err)
	}
}

// PostgreSQL that hangs while a probe is noted keeps nobody for long, though a probe does not end with its request. That
// it came back is noted before the next one: three would bar their receiver's wallets for a day.
func TestNobodyWaitsLongUntilAProbeIsNoted(t *testing.T) {
	b := setup(t)
	r := b.NewRelay(func(c *relay.Config) { c.Settings.NoteTimeout = 2 * time.Second })
	inTime := func(what string) {
		t.Helper()
		wrapped := make(chan error, 1)
		go func() { _, err := r.Wrap(b.Ctx, b.wrapping()); wrapped <- err }()
		select {
		case err := <-wrapped:
			t.Logf("%s: %v", what, err)
		case <-time.After(20 * time.Second):
			t.Errorf("%s is waited for", what)
		}
	}
	hang := func() (goOn func()) {
		tx, err := b.Pool.Begin(b.Ctx)
		if err == nil {
			_, err = tx.Exec(b.Ctx, "LOCK TABLE route_probe IN ACCESS EXCLUSIVE MODE")
		}
		if err != nil {
			t.Error(err)
		}
		return func() { _ = tx.Rollback(b.Ctx) }
	}
	goOn := hang()
	inTime("the note that a probe is out")
	goOn()
	b.Node.Before(simnode.MethodEstimate, func(paidaction.Hash) { goOn = hang() })
	inTime("the note that it is back")
	goOn()
	if n := b.Count(`SELECT count(*) FROM route_probe`); n != 1 {
		t.Fatalf("%d probes are noted", n)
	}
	inTime("the next one")
	if n := b.Count(`SELECT count(*) FROM route_probe`); n != 0 {
		t.Errorf("%d probes are out for ever", n)
	}
}

// Nor do three bar them whose return could not be noted at all, as while PostgreSQL restarts: whoever asks next makes up for it before they count.
func TestProbesWhoseReturnCouldNotBeNotedBarNobody(t *testing.T) {
	b := setup(t)
	r, slow := b.slowly(func(c *relay.Config) { c.Settings.ProbeTimeout = time.Minute })
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { _, _ = r.Wrap(b.Ctx, b.wrapping()) })
	}
	for range 3 {
		<-slow.out
	}
	rename := func(from, to string) {
		if _, err := b.Pool.Exec(b.Ctx, "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
			t.Error(err)
		}
	}
	rename("route_probe", "away")
	close(slow.back)
	all.Wait()
	rename("away", "route_probe")
	if n := b.Count(`SELECT count(*) FROM route_probe`); n != 3 {
		t.Fatalf("%d probes are noted, this test is about three", n)
	}
	if _, err := r.Wrap(b.Ctx, b.wrapping()); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if n := b.Count(`SELECT count(*) FROM route_probe`); n != 0 {
		t.Errorf("%d probes that have come back are still noted", n)
	}
}

// While our node cannot be asked for the chain nothing can be wrapped. That is no fault of the service: whoever asks is told to try again.
func TestWhileOurNodeIsAwayWhoeverAsksIsToldSo(t *testing.T) {
	b := setup(t)
	b.Node.SetAway(true)
	_, err := b.Relay.Wrap(b.Ctx, b.wrapping())
	b.WantRefusal(err, paidaction.CodeLightningUnavailable)
}

// What goes wrong at our end while an invoice is looked at is not its wallet's failure: a fault of the database is told as one, and of a node that cannot
// be asked for the way the wallet's owner is told so, which counts for nothing.
func TestWhatFailsAtOurEndIsNoWalletsFailure(t *testing.T) {
	b := setup(t)
	request := b.wrapping()
	if _, err := b.Pool.Exec(b.Ctx, `ALTER TABLE route_probe RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Relay.Wrap(b.Ctx, request); err == nil || errors.Is(err, paidaction.ErrNoReceiver) {
		t.Errorf("without the table of probes: %v", err)
	}
	if _, err := b.Pool.Exec(b.Ctx, `ALTER TABLE away RENAME TO route_probe`); err != nil {
		t.Fatal(err)
	}
	b.Node.Before(simnode.MethodEstimate, func(paidaction.Hash) { b.Node.SetAway(true) })
	if _, err := b.Relay.Wrap(b.Ctx, request); !errors.Is(err, paidaction.ErrNoReceiver) {
		t.Errorf("without an answer of the node: %v", err)
	}
	b.WantRefusal(b.wallet.Said[len(b.wallet.Said)-1], paidaction.CodeLightningUnavailable)
}

// What would have our node lock money beyond what was agreed to is refused before the node is asked to do anything with it.
func TestInvoicesThatOurNodeIsNotAskedAbout(t *testing.T) {
	for name, spoil := range map[string]func(*simnode.Ask){
		"blinded": func(a *simnode.Ask) { a.Blinded = true }, "without a secret": func(a *simnode.Ask) { a.Secretless = true },
		"dear hints": func(a *simnode.Ask) { a.HintsFee = 4_294_967_295 },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			spoil(&b.wallet.Ask)
			_, err := b.Relay.Wrap(b.Ctx, b.wrapping())
			if !errors.Is(err, paidaction.ErrNoReceiver) || b.probes() != 0 {
				t.Errorf("%v after %d probes", err, b.probes())
			}
		})
	}
}

// died notes, as of now, what a process has left that was killed while it probed: what its node was given has this hash.
func (b *bundle) died(hash paidaction.Hash, now time.Time) {
	b.Helper()
	if _, err := b.Pool.Exec(b.Ctx, `INSERT INTO route_probe (receiver_id, node, hash, amount_msat, hangs_at, until) VALUES ($1, 'one', $2, 1, $3, $4)`,
		b.author, hash[:], now.Add(5*time.Second), now.Add(24*time.Hour)); err != nil {
		b.Fatal(err)
	}
}

// A node is asked for the probes whose process died: those that it knows to have come back bar their receiver no longer, nor do those that it was never
// given. One that hangs does, and so do all of a node that cannot be asked.
func TestANodeIsAskedForProbesThatNobodyListensTo(t *testing.T) {
	b := setup(t)
	ask := func() error { return b.Relay.AskProbes(b.Ctx, "one") }
	out := func(when string, want int64) {
		t.Helper()
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		if n := b.Count(`SELECT count(*) FROM route_probe`); n != want {
			t.Errorf("%s: %d probes are noted, want %d", when, n, want)
		}
	}
	b.wallet.Ask.Act = simnode.HangsProbes
	for range 2 {
		b.asks() // nobody listens to these: the simulated node does not tell that they have come back
	}
	b.died(paidaction.Hash{1}, b.Clock.Now())
	out("while somebody may yet send it", 3)
	b.Clock.Advance(5 * time.Minute)
	out("while they may not have been sent", 3)
	b.Clock.Advance(6 * time.Second)
	b.Node.SetAway(true)
	if err := ask(); err == nil {
		t.Error("a node that is away answers")
	}
	if n := b.Count(`SELECT count(*) FROM route_probe`); n != 3 {
		t.Errorf("of a node that is away %d probes are noted", n)
	}
	b.Node.SetAway(false)
	out("two hang", 2)
	b.Node.ProbesComeBack()
	b.Run(b.Relay)
	b.await("they have come back", func() bool { return b.Count(`SELECT count(*) FROM route_probe`) == 0 })
	b.wallet.Ask.Act = simnode.Pays
	if m := b.asks(); m != paidaction.P2P {
		t.Errorf("the next payer pays by %s", m)
	}
}

// Every probe has a hash of its own, by which its node is asked.
func TestEveryProbeHasItsOwnHash(t *testing.T) {
	b := setup(t, "one", "two")
	b.wallet.Ask.Act = simnode.HangsProbes
	for range 3 {
		b.asks()
	}
	if n := b.Count(`SELECT count(DISTINCT hash) FROM route_probe WHERE node IN ('one', 'two')`); n != 3 {
		t.Errorf("%d hashes of three probes", n)
	}
}

// A process that stood still while it noted a probe does not send it any more: its node may have been asked meanwhile, and have said that it knows of none.
func TestAProbeIsNotSentLongAfterItWasNoted(t *testing.T) {
	b := setup(t)
	r := b.NewRelay(func(c *relay.Config) {
		c.Monotonic = func() time.Time { return time.Now().Add(-time.Minute) } // as of a minute ago, when it began
	})
	_, err := r.Wrap(b.Ctx, b.wrapping())
	if err == nil {
		t.Error("wrapped")
	}
	for _, c := range b.Node.Calls() {
		if c.Method == simnode.MethodEstimate && c.Reached {
			t.Error("it was sent")
		}
	}
}
