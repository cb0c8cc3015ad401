package relay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// accept is an operator who accepts a history of the database that was doubted for a minute: what it lacks it will
// always lack.
func (b *bundle) accept() {
	b.Helper()
	b.Clock.Advance(time.Minute)
	if _, err := b.Pool.Exec(b.Ctx, `INSERT INTO timeline (name, met_at, accepted_at) VALUES ('restored', $1, $2)`,
		b.Clock.Now().Add(-time.Minute), b.Clock.Now()); err != nil {
		b.Fatal(err)
	}
}

// clocks are those of the process that begins something, or asks the nodes: how far each is ahead.
var clocks = map[string]time.Duration{"a right clock": 0, "a clock that is ahead": 5 * time.Minute}

// by has something done by a process whose clock is so far ahead.
func (b *bundle) by(ahead time.Duration, do func()) {
	b.Engine.Now = func() time.Time { return b.Clock.Now().Add(ahead) }
	do()
	b.Engine.Now = b.Clock.Now
}

// sentAndForgotten is a zap whose payment the second node holds for the receiver. The database was restored to before
// the payer's payment was held, and that was accepted. It was begun by a clock that was so far ahead.
func sentAndForgotten(t *testing.T, ahead time.Duration) (b *bundle, pa *paidaction.PaidAction) {
	b, pa = sentAndRestored(t, ahead)
	b.accept()
	return b, pa
}

// sentAndRestored is the same before anybody has accepted that.
func sentAndRestored(t *testing.T, ahead time.Duration) (b *bundle, pa *paidaction.PaidAction) {
	b = setup(t, "one", "two")
	b.wallet.Ask.Act = simnode.Holds
	b.Node.SetSendable(0)
	b.by(ahead, func() { pa = b.zap() })
	restore := pgtest.Backup(t, b.Pool)
	b.pay(pa)
	stop := b.Run(b.Relay)
	b.awaitHeld(pa)
	stop()
	restore()
	b.WantState(pa.ID, paidaction.PendingHeld)
	return b, pa
}

func (b *bundle) settle(pa *paidaction.PaidAction) {
	b.Helper()
	if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
		b.Fatal(err)
	}
}

// wantPaidOnce fails the test unless the relay brings the zap to its end, with each side paid once.
func (b *bundle) wantPaidOnce(pa *paidaction.PaidAction) {
	b.Helper()
	b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.wantReceived(pa, 70_000)
	b.wantOuter(pa, paidaction.InvoiceSettled)
	b.wantSound()
}

// Nobody remembers that a payer's payment was sent on to its receiver, and nothing is in doubt any more. Whatever would
// give it back asks the nodes first, and it goes on where it is.
func TestAPaymentThatWasSentOnAndForgottenIsNotGivenBack(t *testing.T) {
	for name, goes := range map[string]func(b *bundle, pa *paidaction.PaidAction){
		"its payer cancels": func(b *bundle, pa *paidaction.PaidAction) {
			_, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID)
			b.WantRefusal(err, paidaction.CodeNotCancelable)
			b.WantState(pa.ID, paidaction.PendingHeld)
			b.settle(pa)
			b.Advance(pa.ID)
		},
		"its receiver has too much under way": func(b *bundle, pa *paidaction.PaidAction) {
			b.Engine.Settings.MaxForwards = 0
			b.Advance(pa.ID)
			b.settle(pa)
		},
		"together with others": func(b *bundle, pa *paidaction.PaidAction) {
			b.Engine.Settings.MaxForwards = 0
			if _, err := b.Engine.Drive(b.Ctx, pa.ID); err != nil {
				b.Fatal(err)
			}
			b.settle(pa)
		},
		"too few blocks are left": func(b *bundle, pa *paidaction.PaidAction) {
			b.settle(pa)
			b.Node.Mine(b.outer(pa).NodeInvoice().ExpiryHeight - 19 - b.Node.Height())
			b.Advance(pa.ID)
		},
	} {
		for by, ahead := range clocks {
			t.Run(name+", begun by "+by, func(t *testing.T) {
				b, pa := sentAndForgotten(t, ahead)
				goes(b, pa)
				b.WantState(pa.ID, paidaction.Forwarding)
				b.wantPaidOnce(pa)
			})
		}
	}
}

// The same for as long as nobody has accepted what the database was restored to, however long that takes.
func TestAPaymentThatWasSentOnIsNotGivenBackWhileTheDatabaseIsDoubted(t *testing.T) {
	b, pa := sentAndRestored(t, 0)
	b.Engine.Relay = b.NewRelay(func(c *relay.Config) {
		c.Doubted = func() (time.Time, bool) { return time.Now().Add(-24 * time.Hour), true }
	})
	_, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID)
	b.WantRefusal(err, paidaction.CodeNotCancelable)
	b.settle(pa)
	b.Advance(pa.ID)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.wantPaidOnce(pa)
}

// Nor is one given back a moment after the doubt is over: whoever holds a claim that was lost may yet send it.
func TestAPaymentIsNotGivenBackWhileALostClaimMayYetSendIt(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	if err := b.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	passed := time.Second
	b.Engine.Relay = b.NewRelay(func(c *relay.Config) {
		c.Doubted = func() (time.Time, bool) { return since, false }
		c.Monotonic = func() time.Time { return since.Add(passed) }
	})
	cancel := func() error {
		_, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID)
		return err
	}
	if err := cancel(); err == nil {
		t.Error("it is given back")
	}
	b.WantState(pa.ID, paidaction.PendingHeld)
	passed = 2 * relay.MaxSendWindow
	if err := cancel(); err != nil {
		t.Error(err)
	}
	b.Drain()
	b.WantState(pa.ID, paidaction.Failed)
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantSound()
}

// Where its node gave the payer's payment back meanwhile, the receiver is paid with our money: that is booked.
func TestTheLossOfAForgottenPaymentIsBooked(t *testing.T) {
	b, pa := sentAndForgotten(t, 0)
	b.settle(pa)
	b.Node.Mine(b.outer(pa).NodeInvoice().ExpiryHeight - 18 - b.Node.Height())
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.Advance(pa.ID)
	b.Run(b.NewRelay())
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.wantReceived(pa, 70_000)
	b.WantBalance(ledger.LossSats, -100_000)
	b.wantSound()
}

// While the node that may have it is silent, nothing is given back, and nothing is concluded.
func TestAPaymentThatMayHaveBeenSentOnWaitsForASilentNode(t *testing.T) {
	b, pa := sentAndForgotten(t, 0)
	b.Nodes[1].SetAway(true)
	_, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID)
	b.WantRefusal(err, paidaction.CodeTryAgain)
	most := b.Engine.Settings.MaxForwards
	b.Engine.Settings.MaxForwards = 0
	if p, err := b.Engine.Advance(b.Ctx, pa.ID); p != paidaction.Owing || err == nil {
		t.Errorf("its receiver has too much under way: progress %d, error %v", p, err)
	}
	b.Engine.Settings.MaxForwards = most
	b.WantState(pa.ID, paidaction.PendingHeld)
	b.Nodes[1].SetAway(false)
	b.settle(pa)
	b.Advance(pa.ID)
	b.wantPaidOnce(pa)
}

// What no node has is given back as before, also if it was begun before the history was accepted.
func TestWhatNoNodeHasIsGivenBack(t *testing.T) {
	b := setup(t, "one", "two")
	open, held := b.zap(), b.zap()
	b.accept()
	if err := b.Node.PayHash(held.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	b.Engine.Settings.MaxForwards = 0
	for b.Advance(held.ID) == paidaction.Moved {
	}
	if _, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), open.ID); err != nil {
		t.Error(err)
	}
	for _, pa := range []*paidaction.PaidAction{open, held} {
		b.WantState(pa.ID, paidaction.Failed)
		b.wantOuter(pa, paidaction.InvoiceCanceled)
		b.wantReceived(pa, 0)
	}
	b.wantSound()
}

// Some histories were met by a clock that was ahead, and count as accepted later still. What is asked after they were
// accepted counts at once.
func TestAnAcceptanceThatLiesAheadHoldsUpNothing(t *testing.T) {
	b := setup(t, "one", "two").rich(200)
	open := b.zap()
	b.accept()
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE timeline SET met_at = met_at + interval '3 hours', accepted_at = accepted_at + interval '3 hours'`); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), open.ID); err != nil {
		t.Error(err)
	}
	b.WantState(open.ID, paidaction.Failed)
	refused, paid := b.withdraw(b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses}).Bolt11), b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
	b.Nodes[1].SetAway(true) // it cannot have what was begun since
	b.Run(b.Relay)
	b.Await(refused.ID, paidaction.Failed)
	b.Await(paid.ID, paidaction.Paid)
	b.Nodes[1].SetAway(false)
	b.wantSound()
}

// Nor does it count that a payment had failed, if an operator has put it back since, and the database has forgotten
// that.
func TestARequeueThatWasForgottenIsFound(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Refuses
	pa := b.zap()
	b.pay(pa)
	b.giveUpUnheard(pa)
	restore := pgtest.Backup(t, b.Pool)
	b.wallet.Receiver.Change(pa.Invoice.Hash, simnode.Holds)
	if err := relay.Requeue(b.Ctx, b.Pool, pa.ID, b.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	stop := b.Run(b.NewRelay())
	b.awaitHeld(pa)
	stop()
	restore()
	b.accept()
	b.AwaitStage(pa.ID, "failed")
	b.Node.SetAway(true)
	if p, err := b.Engine.Advance(b.Ctx, pa.ID); p != paidaction.Owing || err == nil {
		t.Errorf("its node is silent: progress %d, error %v", p, err)
	}
	b.Node.SetAway(false)
	if p := b.Advance(pa.ID); p == paidaction.Moved {
		t.Error("it counts as failed")
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	b.settle(pa)
	b.wantPaidOnce(pa)
}

// A withdrawal was given up, and before its payer had the sats back they withdrew to the same invoice once more. What
// its node has is the second payment: the first has failed all the same, also where a history was accepted since it
// began.
func TestAFailedWithdrawalIsRefundedThoughItsInvoiceIsPaidByAnother(t *testing.T) {
	b := setup(t).rich(200)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	first := b.withdraw(inv.Bolt11)
	b.accept()
	b.giveUpUnheard(first)
	b.wallet.Receiver.Change(inv.Hash, simnode.Pays)
	second := b.withdraw(inv.Bolt11)
	stop := b.Run(b.NewRelay())
	b.Await(second.ID, paidaction.Paid)
	stop()
	b.rounds(3)
	b.WantState(first.ID, paidaction.Failed)
	b.wantSats(149_000) // a fee of one
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// after does something once, right after the first query that begins so.
type after struct {
	query string
	what  func()
	now   bool
}

func (s *after) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.now = strings.HasPrefix(q.SQL, s.query)
	return ctx
}

func (s *after) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	if what := s.what; s.now && what != nil {
		s.what = nil
		what()
	}
}

// Spec 05.16g: whoever cancels stands still between the question whether it was sent on and the lock of the row.
// Meanwhile it is, and a database that has forgotten it is restored and accepted: what was found out before is no word
// of that one.
func TestWhoStoodStillWhileADatabaseWasRestoredCancelsNothing(t *testing.T) {
	for by, ahead := range clocks {
		t.Run("by "+by, func(t *testing.T) {
			b := setup(t, "one", "two")
			b.wallet.Ask.Act = simnode.Holds
			b.Node.SetSendable(0)
			pa := b.zap()
			restore := pgtest.Backup(t, b.Pool)
			s := &after{query: "-- name: BegunBeforeAccepted"}
			pool, stale := b.traced(s), *b.Engine
			stale.Relay = b.NewRelay(func(c *relay.Config) { c.Pool = pool })
			stale.Now = func() time.Time { return b.Clock.Now().Add(ahead) }
			s.what = func() {
				b.pay(pa)
				stop := b.Run(b.Relay)
				b.awaitHeld(pa)
				stop()
				restore()
				b.accept()
			}
			_, err := stale.Cancel(b.Ctx, enginetest.Caller(b.payer), pa.ID)
			b.WantRefusal(err, paidaction.CodeTryAgain)
			b.WantState(pa.ID, paidaction.PendingHeld)
			b.settle(pa)
			b.Advance(pa.ID)
			b.wantPaidOnce(pa)
		})
	}
}

// Nor does whoever has found its invoice open at its deadline, or gone: it was paid since, and that was forgotten.
func TestWhoStoodStillWhileADatabaseWasRestoredFindsNoDeadlinePassed(t *testing.T) {
	b := setup(t, "one", "two")
	b.wallet.Ask.Act = simnode.Holds
	b.Node.SetSendable(0)
	pa := b.zap()
	restore := pgtest.Backup(t, b.Pool)
	stale := *b.Engine
	stale.Now = func() time.Time { return b.Clock.Now().Add(15 * time.Minute) }
	b.Node.After(simnode.MethodLookup, func(paidaction.Hash) {
		b.pay(pa)
		stop := b.Run(b.Relay)
		b.awaitHeld(pa)
		stop()
		restore()
		b.accept()
	})
	if _, err := stale.Advance(b.Ctx, pa.ID); err != nil {
		t.Error(err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	b.settle(pa)
	b.wantPaidOnce(pa)
}

// The same where a payment is given up: it was sent since the nodes were asked, and the database that is there now has
// forgotten that.
func TestWhoStoodStillWhileADatabaseWasRestoredGivesNothingUp(t *testing.T) {
	for by, ahead := range clocks {
		t.Run("by "+by, func(t *testing.T) {
			b := setup(t).rich(100)
			b.Node.SetSendable(0)
			inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds, Expiry: 7 * 24 * time.Hour})
			pa := b.withdraw(inv.Bolt11)
			restore := pgtest.Backup(t, b.Pool)
			b.Clock.Advance(time.Hour)
			b.Node.After(simnode.MethodTrack, func(paidaction.Hash) { // whoever gives it up has asked every node
				b.Node.SetSendable(1_000_000_000)
				b.sendAndDie("one", inv.Hash)
				restore()
				b.accept()
			})
			stale := b.NewRelay(func(c *relay.Config) { c.Now = func() time.Time { return b.Clock.Now().Add(ahead) } })
			if out, err := stale.Proceed(b.Ctx, pa.ID); out.Failure != nil || err == nil {
				t.Errorf("%+v, %v", out, err)
			}
			b.wantTaken(pa, inv.Hash)
		})
	}
}
