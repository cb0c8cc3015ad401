package relay_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Spec 05.16e: whatever the sending node has forgotten, nothing follows from that, and nobody else is given the payment.
func TestANodeThatForgotSaysNothing(t *testing.T) {
	for name, forget := range map[string]func(n *simnode.Node, before simnode.Backup){
		"wiped":                func(n *simnode.Node, _ simnode.Backup) { n.Wipe() },
		"replaced":             func(n *simnode.Node, _ simnode.Backup) { n.Replace() },
		"restored from before": func(n *simnode.Node, before simnode.Backup) { n.Restore(before) },
		"restored in flight":   func(n *simnode.Node, _ simnode.Backup) { n.Restore(n.Backup()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two", "three")
			b.Node.SetSendable(0) // it holds the payer's payment
			b.Nodes[2].SetSendable(0)
			b.wallet.Ask.Act = simnode.Holds
			before := b.Nodes[1].Backup()
			stop := b.Run(b.Relay)
			pa := b.zap()
			b.pay(pa)
			b.awaitHeld(pa)
			b.AwaitShown(pa.ID)
			stop()
			forget(b.Nodes[1], before)
			b.Nodes[2].SetSendable(1_000_000_000) // and this one could send
			b.Run(b.NewRelay())
			for range 5 {
				b.Clock.Advance(time.Hour)
				b.Node.Tick()
				b.rounds(2)
			}
			b.wantSent(pa.Invoice.Hash, 1)
			b.WantState(pa.ID, paidaction.Forwarding)
			b.AwaitStage(pa.ID, "in_work")
			b.wantOuter(pa, paidaction.InvoiceAccepted)
		})
	}
}

// Spec 05.16e: the process dies right after the node took the payment, and the node is wiped before anybody looks again.
func TestANodeIsWipedBeforeAnybodyLooksAgain(t *testing.T) {
	b := setup(t, "one", "two")
	b.Node.SetSendable(0)
	b.wallet.Ask.Act = simnode.Holds
	stop := b.Run(b.NewRelay(func(c *relay.Config) { c.Settings.Audit = time.Hour }))
	pa := b.zap()
	b.pay(pa)
	b.awaitHeld(pa)
	b.AwaitShown(pa.ID)
	stop()
	b.Nodes[1].Wipe()
	b.Run(b.NewRelay())
	b.Clock.Advance(over)
	b.rounds(5)
	b.Clock.Advance(2 * time.Hour)
	b.rounds(5)
	if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	b.wantSent(pa.Invoice.Hash, 1)
	b.wantReceived(pa, 70_000)
	b.WantState(pa.ID, paidaction.Forwarding)
}

// Spec 05.16e: the process dies before it could note that the node has the payment, and another node answers under the name. That it does not know the
// payment says nothing, also once the invoice has expired: its key tells the one from the other.
func TestANodeIsReplacedBeforeItWasSeenToHaveThePayment(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	b.Node.SetSendable(0)
	stop := b.Run(b.NewRelay(func(c *relay.Config) { c.Settings.Audit = time.Hour }))
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	stop()
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_attempt SET seen = false`); err != nil {
		t.Fatal(err)
	}
	b.Nodes[1].Replace()
	b.Run(b.NewRelay())
	for range 3 {
		b.Clock.Advance(2 * time.Hour)
		b.rounds(5)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	b.WantBalance(ledger.UserSats(b.payer), 45_000)
	if err := b.wallet.Receiver.Settle(inv.Hash); err != nil {
		t.Fatal(err)
	}
	b.wantPaidOut(inv.Hash, 50_000)
}

// Spec 05.16e: a node behind the chain is given nothing.
func TestANodeBehindTheChainIsGivenNothing(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	b.Node.SetSynced(false)
	b.Run(b.Relay)
	asked := func() int {
		n := 0
		for _, c := range b.Node.Calls() {
			if c.Method == simnode.MethodChain {
				n++
			}
		}
		return n
	}
	before := asked()
	b.await("the relay has asked for the chain", func() bool { b.Clock.Advance(time.Second); return asked() >= before+5 })
	b.wantSent(pa.Invoice.Hash, 0)
	b.Node.SetSynced(true)
	b.awaitPastPauses(pa, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// Spec 05.4: an error of the send, or of the stream, is no failure.
func TestNoErrorOfTheSendIsAFailure(t *testing.T) {
	for name, fault := range map[string]func(b *bundle){
		"the call does not reach the node": func(b *bundle) { b.Node.FailBefore(simnode.MethodPay, 1) },
		"the answer is lost":               func(b *bundle) { b.Node.FailAfter(simnode.MethodPay, 1) },
		"the streams end":                  func(b *bundle) { b.Node.After(simnode.MethodPay, func(paidaction.Hash) { b.Node.DropStreams() }) },
		"the node goes away": func(b *bundle) {
			b.Node.After(simnode.MethodPay, func(paidaction.Hash) { b.Node.SetAway(true); b.Node.SetAway(false) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.wallet.Ask.Act = simnode.Holds
			pa := b.zap()
			b.pay(pa)
			fault(b)
			b.Run(b.Relay)
			b.AwaitStage(pa.ID, "in_work")
			b.await("the node was asked", func() bool { return b.Node.Count(simnode.MethodTrack, pa.Invoice.Hash) > 3 })
			b.WantState(pa.ID, paidaction.Forwarding)
			b.Clock.Advance(over)
			b.awaitHeld(pa)
			if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
				t.Fatal(err)
			}
			b.Await(pa.ID, paidaction.Paid)
			b.wantReceived(pa, 70_000)
			b.AwaitStage(pa.ID, "completed")
			b.wantSound()
		})
	}
}

// Spec 05.5: two nodes, two processes: each payment is made once, over all nodes.
func TestTwoRelaysAndTwoNodesMakeEachPaymentOnce(t *testing.T) {
	b := setup(t, "one", "two")
	var all []*paidaction.PaidAction
	for range 8 {
		pa := b.zap()
		b.pay(pa)
		all = append(all, pa)
	}
	b.Run(b.Relay)
	b.Run(b.NewRelay())
	for _, pa := range all {
		b.Await(pa.ID, paidaction.Paid)
		b.AwaitStage(pa.ID, "completed")
		b.wantReceived(pa, 70_000)
		b.wantSent(pa.Invoice.Hash, 1)
	}
	b.wantSound()
}

// Spec 05.5: the second node is given the payment only when the first has said FAILED.
func TestAnotherNodeTriesWhatTheFirstCouldNotSend(t *testing.T) {
	b := setup(t, "one", "two")
	pa := b.zap()
	b.pay(pa)
	b.Node.SetIsolated(true)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	if sent, ok := b.Node.Sent(pa.Invoice.Hash); ok && sent.Present.State != paidaction.PaymentFailed {
		t.Errorf("the first node says %s", sent.Present.State)
	}
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// Whose claim was ended by another has nothing to say any more: what they hear late ends no later claim.
func TestALateFailureEndsNoOtherClaim(t *testing.T) {
	b := setup(t, "one", "two")
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	b.Node.SetIsolated(true)
	given, goOn := make(chan struct{}), make(chan struct{})
	b.Node.After(simnode.MethodPay, func(paidaction.Hash) { close(given); <-goOn })
	slow, late := b.NewRelay(), sync.WaitGroup{}
	late.Go(func() { _, _ = slow.Step(b.Ctx, "one", b.Engine.Advance) })
	<-given
	b.Clock.Advance(over)
	b.Run(b.Relay)
	b.awaitHeld(pa)
	b.Nodes[1].SetAway(true) // nor does it tell that it has the payment
	close(goOn)
	late.Wait()
	b.Nodes[1].SetAway(false)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.AwaitStage(pa.ID, "in_work")
	if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// What a node does not know is given to that node again, and to no other: it alone refuses what it has.
func TestWhatIsNotKnownIsGivenToTheSameNodeAgain(t *testing.T) {
	b := setup(t, "one", "two", "three")
	b.Node.SetSendable(0)
	b.Nodes[2].SetSendable(0)
	pa := b.zap()
	b.pay(pa)
	b.Nodes[1].FailBefore(simnode.MethodPay, 1)
	sending := make(chan struct{})
	b.Nodes[1].Before(simnode.MethodPay, func(paidaction.Hash) { close(sending) })
	b.Run(b.Relay)
	<-sending
	b.Nodes[1].SetSendable(0)
	b.Nodes[2].SetSendable(1_000_000_000)
	b.Clock.Advance(over)
	b.AwaitStage(pa.ID, "incoming")
	b.rounds(5)
	later := b.zap() // the other node has something to take, and passes over what comes first
	b.pay(later)
	b.Await(later.ID, paidaction.Paid)
	b.Nodes[1].SetSendable(1_000_000_000)
	b.Await(pa.ID, paidaction.Paid)
	if n := b.Nodes[2].Count(simnode.MethodPay, pa.Invoice.Hash); n != 0 {
		t.Errorf("another node was given the payment %d times", n)
	}
	b.wantReceived(pa, 70_000)
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// lostOnItsWay is a forward that the second node was given, and did not get.
func (b *bundle) lostOnItsWay() *paidaction.PaidAction {
	b.Helper()
	b.Node.SetSendable(0)
	pa := b.zap()
	b.pay(pa)
	b.Nodes[1].FailBefore(simnode.MethodPay, 1)
	sending := make(chan struct{})
	b.Nodes[1].Before(simnode.MethodPay, func(paidaction.Hash) { close(sending) })
	b.Run(b.Relay)
	<-sending
	b.Nodes[1].SetSendable(0)
	return pa
}

// It is given up only when that node, asked again, still does not know it, and is still the same; spec 05.16e.
func TestWhatMayHaveBeenGivenToOneNodeIsGivenUpByItsWordAlone(t *testing.T) {
	for name, silent := range map[string]func(two *simnode.Node, yes bool){
		"away": (*simnode.Node).SetAway,
		"tells of no payment": func(two *simnode.Node, yes bool) {
			two.FailBefore(simnode.MethodTrack, map[bool]int{true: 1 << 30}[yes])
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			pa := b.lostOnItsWay()
			b.Clock.Advance(over)
			b.AwaitStage(pa.ID, "incoming")
			b.Clock.Advance(3 * time.Hour)
			silent(b.Nodes[1], true)
			b.rounds(3)
			b.WantState(pa.ID, paidaction.Forwarding)
			silent(b.Nodes[1], false)
			b.rounds(2)
			b.Await(pa.ID, paidaction.Failed)
			b.wantReceived(pa, 0)
			b.wantSound()
		})
	}
}

// Nor because nothing may be sent any more: what may have been sent before is not the less under way for that.
func TestWhatMayHaveBeenGivenToANodeIsNotGivenUpByARule(t *testing.T) {
	b := setup(t, "one", "two")
	pa := b.lostOnItsWay()
	b.Clock.Advance(over)
	b.AwaitStage(pa.ID, "incoming")
	const innerCLTV, padding, margin = 80, 3, 80
	b.Node.Mine(b.outer(pa).NodeInvoice().ExpiryHeight - (innerCLTV + padding + margin) - b.Node.Height())
	b.Nodes[1].SetSendable(1_000_000_000)
	b.await("it was refused for the blocks that are left", func() bool {
		b.Clock.Advance(time.Second)
		return b.Count(`SELECT count(*) FROM relay_attempt WHERE reason LIKE '%BLOCKS_SHORT%'`) > 0
	})
	b.rounds(3)
	b.WantState(pa.ID, paidaction.Forwarding)
	if n := b.Count(`SELECT count(*) FROM relay_payment WHERE node = 'two' AND stage IN ('incoming', 'in_work')`); n != 1 {
		t.Error("it is not kept for the node that may have been given it")
	}
}

// Another node under its name says nothing of what it was given.
func TestWhatMayHaveBeenGivenToANodeIsNotGivenUpByAnother(t *testing.T) {
	for name, stage := range map[string]string{"under the claim of the one before": "in_work", "asked for it again": "incoming"} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			pa := b.lostOnItsWay()
			if stage == "incoming" {
				b.Clock.Advance(over)
			}
			b.AwaitStage(pa.ID, stage)
			b.Nodes[1].Replace()
			b.Clock.Advance(3 * time.Hour)
			b.rounds(3)
			b.WantState(pa.ID, paidaction.Forwarding)
			b.wantOuter(pa, paidaction.InvoiceAccepted)
		})
	}
}

// Nor is it given to that one: it would send what the one before may have sent.
func TestWhatMayHaveBeenGivenToANodeIsNotGivenToAnother(t *testing.T) {
	b := setup(t, "one", "two")
	pa := b.lostOnItsWay()
	b.Clock.Advance(over)
	b.AwaitStage(pa.ID, "incoming")
	b.Nodes[1].Replace()
	b.Nodes[1].SetSendable(1_000_000_000)
	b.await("it was claimed again", func() bool {
		b.Clock.Advance(time.Second)
		return b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'NOT_SENT'`) > 1
	})
	b.wantSent(pa.Invoice.Hash, 0)
	b.WantState(pa.ID, paidaction.Forwarding)
}

// By that node's own clock, not by ours: until the invoice has expired there, it may yet take what it was given.
func TestWhatMayHaveBeenGivenToANodeIsGivenUpByItsClock(t *testing.T) {
	b := setup(t, "one", "two")
	pa := b.lostOnItsWay()
	b.Nodes[1].SetAhead(-150 * time.Minute)
	b.Clock.Advance(3 * time.Hour)
	b.AwaitStage(pa.ID, "incoming")
	b.rounds(3)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.Nodes[1].SetAhead(0)
	b.rounds(2)
	b.Await(pa.ID, paidaction.Failed)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// And only after a slack: a node refuses an invoice by a clock of its own, which it may have set since.
func TestAnInvoiceThatHasJustExpiredMayYetBePaid(t *testing.T) {
	b := setup(t, "one", "two")
	pa := b.lostOnItsWay()
	row, err := db.New(b.Pool).GetRelay(b.Ctx, pa.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(row.ExpiresAt.Sub(b.Clock.Now()) + time.Second)
	b.rounds(3)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.Clock.Advance(2 * time.Minute)
	b.rounds(2)
	b.Await(pa.ID, paidaction.Failed)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// A claim outlasts the time that its send had by a grace: what was sent at the last moment is on its way to the node.
func TestAClaimEndsAfterItsGrace(t *testing.T) {
	b := setup(t, "one", "two")
	pa := b.lostOnItsWay()
	b.Clock.Advance(over - 2*time.Second)
	b.rounds(3)
	b.AwaitStage(pa.ID, "in_work")
	b.Clock.Advance(2 * time.Second)
	b.AwaitStage(pa.ID, "incoming")
}

// Spec 05.37: a restart takes nobody's work and forgets no attempts.
func TestARestartTakesNoWorkAndForgetsNoAttempts(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	stop := b.Run(b.Relay)
	b.awaitHeld(pa)
	stop()
	for range 3 {
		asked := b.Node.Count(simnode.MethodTrack, pa.Invoice.Hash)
		stop := b.Run(b.NewRelay())
		b.await("the next process looks after it", func() bool { return b.Node.Count(simnode.MethodTrack, pa.Invoice.Hash) > asked })
		stop()
	}
	row, err := db.New(b.Pool).GetRelay(b.Ctx, pa.ID)
	if err != nil || row.Attempts != 1 || row.Stage != "in_work" {
		t.Errorf("%+v, %v", row, err)
	}
	b.wantSent(pa.Invoice.Hash, 1)
	b.wantSound()
}

// Spec 05.27: to look after a payment that hangs takes no waiting.
func TestLookingAfterAHangingPaymentDoesNotWait(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	b.Run(b.Relay)
	b.awaitHeld(pa)
	ctx, cancel := context.WithTimeout(b.Ctx, time.Minute) // who waits for the payment's end waits for ever
	defer cancel()
	if p, err := b.Engine.Advance(ctx, pa.ID); p != paidaction.Waiting || err != nil {
		t.Errorf("progress %d, %v", p, err)
	}
}

// A node that does not answer holds up nobody for longer than one question may take.
func TestAHungNodeIsNotWaitedForWithoutEnd(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	stop := b.Run(b.Relay)
	b.awaitHeld(pa)
	stop()
	b.Node.SetHung(true)
	defer b.Node.SetHung(false)
	r := b.NewRelay(func(c *relay.Config) { c.Settings.AskTimeout = 50 * time.Millisecond })
	ctx, cancel := context.WithTimeout(b.Ctx, time.Minute)
	defer cancel()
	if _, err := r.Proceed(ctx, pa.ID); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("got %v", err)
	}
}

// Who issued the payer's invoice cannot be asked: the sending node is not to blame for that, and goes on with others.
func TestASendingNodeIsNotBlamedForAnother(t *testing.T) {
	b := setup(t, "one", "two")
	b.Node.SetSendable(0)
	pa := b.zap()
	b.pay(pa)
	b.Node.SetAway(true)
	blames := make(chan relay.Blame, 1000)
	b.Run(b.NewRelay(func(c *relay.Config) { c.Leases = blamed(blames) }))
	blame := <-blames
	for blame == relay.Unused { // another claimer of the process was faster
		blame = <-blames
	}
	if blame != relay.Nobody {
		t.Errorf("blamed: %d", blame)
	}
	b.Node.SetAway(false)
	b.Clock.Advance(time.Second) // a payment that was not sent rests for a moment
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.wantSound()
}

// Nothing is sent, and that is our own doing: the node is not to blame, and does not rest in all processes.
func TestASendingNodeIsNotBlamedForUs(t *testing.T) {
	for name, fault := range map[string]func(b *bundle, c *relay.Config, stop func()){
		"the process stops": func(b *bundle, _ *relay.Config, stop func()) {
			b.Node.Before(simnode.MethodDecode, func(paidaction.Hash) { stop() })
		},
		"it stood still before it asked": func(b *bundle, c *relay.Config, _ func()) {
			c.Trace = func(ctx context.Context, _ int64) (context.Context, func()) {
				b.Clock.Advance(over)
				return ctx, func() {}
			}
		},
		"it stood still before it sent": func(b *bundle, _ *relay.Config, _ func()) {
			b.Node.Before(simnode.MethodDecode, func(paidaction.Hash) { b.Clock.Advance(over) })
		},
		"the database does not tell the claims": func(b *bundle, c *relay.Config, _ func()) {
			if b.Count(`WITH pinned AS (UPDATE relay_payment SET node = 'one' RETURNING 1) SELECT count(*) FROM pinned`) != 1 {
				t.Error("nothing is claimed for a node that may have it already")
			}
			c.Pool = b.without("-- name: Attempts ")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			pa := b.zap()
			b.pay(pa)
			ctx, stop := context.WithCancel(b.Ctx)
			defer stop()
			blames := make(chan relay.Blame, 10)
			r := b.NewRelay(func(c *relay.Config) {
				c.Leases = blamed(blames)
				fault(b, c, stop)
			})
			if claimed, err := r.Step(ctx, "one", b.Engine.Advance); err != nil || !claimed {
				t.Fatal(claimed, err)
			}
			if blame := <-blames; blame != relay.Nobody {
				t.Errorf("blamed: %d", blame)
			}
			b.wantSent(pa.Invoice.Hash, 0)
		})
	}
}

// without is a pool on the world's database that has no answer to a question.
func (b *bundle) without(question string) *pgxpool.Pool { return b.traced(unanswered(question)) }

// traced is a pool on the world's database.
func (b *bundle) traced(by pgx.QueryTracer) *pgxpool.Pool {
	b.Helper()
	settings := b.Pool.Config()
	settings.ConnConfig.Tracer = by
	pool, err := pgxpool.NewWithConfig(b.Ctx, settings)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

// unanswered is how a query begins that comes to nothing.
type unanswered string

func (u unanswered) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !strings.HasPrefix(q.SQL, string(u)) {
		return ctx
	}
	over, end := context.WithCancel(ctx)
	end()
	return over
}

func (unanswered) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What cannot be sent comes back ever more rarely: the node that holds the payers' payments is away, and hundreds of those must not take
// every claim from the others.
func TestWhatCannotBeSentRestsLongerEachTime(t *testing.T) {
	b := setup(t, "one", "two")
	b.Node.SetSendable(0)
	pa := b.zap()
	b.pay(pa)
	b.Node.SetAway(true)
	const pause = 2 * time.Second
	b.Run(b.NewRelay(func(c *relay.Config) { c.Settings.Pause = pause }))
	for attempt, want := range []time.Duration{pause, 2 * pause, 4 * pause, 8 * pause, 16 * pause, 16 * pause} {
		b.await("it rests", func() bool {
			return b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming' AND attempts = $1`, attempt+1) == 1
		})
		row := b.AwaitStage(pa.ID, "incoming")
		if got := row.NotBefore.Sub(b.Clock.Now()); got != want {
			t.Errorf("after claim %d it rests for %v, want %v", attempt+1, got, want)
		}
		b.Clock.Advance(want)
	}
}

// blamed are leases that pass on who was blamed.
type blamed chan relay.Blame

func (b blamed) Lease(context.Context, string) (relay.Lease, error) { return b, nil }
func (blamed) Fence() int64                                         { return 1 }
func (b blamed) Release(_ context.Context, blame relay.Blame) {
	select {
	case b <- blame:
	default:
	}
}

// A node whose clock is ahead refuses every call as too late. It has said that nothing was sent, so another node is given the payment at once, and the
// payment waits for none of what follows from silence.
func TestANodeWhoseClockIsAheadHoldsUpNothing(t *testing.T) {
	b := setup(t, "one", "two", "three")
	b.Node.SetSendable(0) // it holds the payer's payment
	b.Nodes[2].SetSendable(0)
	pa := b.zap() // its route was tried before
	b.Nodes[1].SetAhead(15 * time.Second)
	b.pay(pa)
	b.Run(b.Relay)
	b.await("its node has refused it", func() bool { return b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'NOT_SENT'`) == 1 })
	b.Nodes[1].SetSendable(0)
	b.Nodes[2].SetSendable(1_000_000_000)
	b.Clock.Advance(2 * time.Second) // a payment that was not sent rests for a moment
	b.Await(pa.ID, paidaction.Paid)
	b.wantReceived(pa, 70_000)
	b.wantSound()
}
