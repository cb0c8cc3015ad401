package relay_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// wantNotLost fails the test unless an action cannot be written off, and nothing changes.
func (b *bundle) wantNotLost(id int64) {
	b.Helper()
	before, state := b.Balance(ledger.LossSats), b.Look(id).State
	if err := b.Engine.WriteOff(b.Ctx, id, "the disk is gone"); !errors.Is(err, paidaction.ErrNotLost) {
		b.Errorf("got %v", err)
	}
	b.WantBalance(ledger.LossSats, before)
	b.WantState(id, state)
}

// wantLoss fails the test unless reconcile lists so much as lost by an action, and finds nothing else at it.
func (b *bundle) wantLoss(id, msat int64) {
	b.Helper()
	report, err := reconcile.Run(b.Ctx, reconcile.Config{Pool: b.Pool, Nodes: b.Nodes, Senders: b.Nodes.Names(), Issuers: b.Nodes.Names(), Now: func() time.Time { return b.Clock.Now().Add(time.Nanosecond) }})
	if err != nil {
		b.Fatal(err)
	}
	if report.LostMsat != msat || len(report.Losses) != 1 || *report.Losses[0].Action != id || report.Losses[0].Msat != msat ||
		report.Losses[0].Reason != "the disk is gone" {
		b.Errorf("%d msat are lost, %+v", report.LostMsat, report.Losses)
	}
	b.wantSound()
}

// wantHistoryEnd fails the test unless the action's last step was this one.
func (b *bundle) wantHistoryEnd(id int64, fact paidaction.Fact) {
	b.Helper()
	steps, err := db.New(b.Pool).Histories(b.Ctx, []int64{id})
	if err != nil {
		b.Fatal(err)
	}
	if last := steps[len(steps)-1]; last.Fact != string(fact) || last.ToState != string(paidaction.Paid) {
		b.Errorf("%+v", last)
	}
}

// Spec 05.16e: the node that paid is wiped while a part hangs. That the receiver was paid is known, what it cost is not: the payer gets
// all that was for routing, and the most that it can have been is our loss.
func TestAWithdrawalWhoseNodeIsWipedIsWrittenOff(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Splits})
	pa := b.withdraw(inv.Bolt11)
	stop := b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Forwarded)
	stop()
	b.wantNotLost(pa.ID) // the node knows it
	b.Node.SetAway(true)
	b.Node.Wipe()
	b.wantNotLost(pa.ID) // nobody can ask it
	b.Node.SetAway(false)
	if err := b.Engine.WriteOff(b.Ctx, pa.ID, ""); !errors.Is(err, paidaction.ErrNotLost) {
		t.Errorf("without a reason: %v", err)
	}
	_, refused := at(3, func() (*paidaction.PaidAction, error) {
		return pa, b.Engine.WriteOff(b.Ctx, pa.ID, "the disk is gone")
	})
	if len(refused) != 2 || !errors.Is(refused[0], paidaction.ErrNotLost) || !errors.Is(refused[1], paidaction.ErrNotLost) {
		t.Errorf("refused: %v", refused)
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantHistoryEnd(pa.ID, paidaction.WrittenOff)
	b.wantSats(50_000)
	b.wantLeft(pa, 55_000)
	b.wantLoss(pa.ID, 5_000)
	b.wantNotLost(pa.ID)
}

// The same where the node shows only an earlier payment of the same invoice, which had failed: that one is not meant, whether the preimage
// is known from the node, which had shown it before, or from the receiver.
func TestAWithdrawalWhoseNodeShowsOnlyAnEarlierFailureIsWrittenOff(t *testing.T) {
	for name, c := range map[string]struct {
		act   simnode.Act
		knows func(*bundle, simnode.Issued, *paidaction.PaidAction)
	}{
		"from the node":     {simnode.Splits, func(b *bundle, _ simnode.Issued, pa *paidaction.PaidAction) { b.Await(pa.ID, paidaction.Forwarded) }},
		"from the receiver": {simnode.Holds, func(b *bundle, _ simnode.Issued, pa *paidaction.PaidAction) { b.AwaitShown(pa.ID) }},
	} {
		t.Run(name, func(t *testing.T) {
			b, inv, again := withdrawnAgain(t, c.act)
			backup := b.Node.Backup()
			b.Clock.Advance(time.Minute)
			stop := b.Run(b.Relay)
			c.knows(b, inv, again)
			stop()
			b.Node.Restore(backup)
			b.Clock.Advance(over)
			if c.act == simnode.Holds {
				if err := b.Engine.Learn(b.Ctx, again.ID, inv.Preimage); err != nil {
					t.Fatal(err)
				}
			}
			registry := prometheus.NewRegistry()
			b.Engine.Relay = b.NewRelay(func(c *relay.Config) { c.Metrics = relay.NewMetrics(registry) })
			b.rounds(1)
			b.WantState(again.ID, paidaction.Forwarded) // of itself nothing follows from that
			if locktest.Metric(t, registry, "holdfast_relay_lost_by_node_total", b.Node.Name()) == 0 {
				t.Error("nobody is told")
			}
			if err := b.Engine.WriteOff(b.Ctx, again.ID, "the disk is gone"); err != nil {
				t.Fatal(err)
			}
			b.WantState(again.ID, paidaction.Paid)
			b.wantLeft(again, 55_000)
			b.wantLoss(again.ID, 5_000)
		})
	}
}

// The same of a forward, which is PAID already: what routing cost of it is the only thing that is missing.
func TestAForwardWhoseSendingNodeIsWipedIsWrittenOff(t *testing.T) {
	b := setup(t, "one", "two")
	b.Node.SetSendable(0)
	b.wallet.Ask.Act = simnode.Splits
	rewards := b.Balance(ledger.RewardSats)
	pa := b.zap()
	b.pay(pa)
	stop := b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "pending_confirmation")
	stop()
	b.wantNotLost(pa.ID)
	b.Nodes[1].Wipe()
	gate, err := b.Pool.Begin(b.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(b.Ctx, `SELECT FROM paid_action WHERE id = $1 FOR UPDATE`, pa.ID); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs { // both have asked the node before the first one books it
		all.Go(func() { errs[i] = b.Engine.WriteOff(b.Ctx, pa.ID, "the disk is gone") })
	}
	b.AwaitBlocked(len(errs))
	if err := gate.Rollback(b.Ctx); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	refused := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(refused) != 1 || !errors.Is(refused[0], paidaction.ErrNotLost) {
		t.Errorf("refused: %v", refused)
	}
	b.AwaitStage(pa.ID, "completed")
	b.WantBalance(ledger.RoutingSats, 0)
	b.WantBalance(ledger.RewardSats, rewards+27_000+3_000)
	b.wantLeft(pa, 73_000)
	b.wantLoss(pa.ID, 3_000)
	b.wantNotLost(pa.ID)
	b.rounds(2)
	b.WantBalance(ledger.LossSats, -3_000)
}

// Spec 05.16e: the node that holds the payer's payment is wiped when the receiver has been paid: what was to come is lost, the zap counts.
func TestAForwardWhoseIssuingNodeIsWipedIsWrittenOff(t *testing.T) {
	b := setup(t, "one", "two")
	b.Node.SetSendable(0)
	pa := b.zap()
	b.pay(pa)
	b.wantNotLost(pa.ID) // the receiver was not paid yet
	b.Node.FailBefore(simnode.MethodSettle, 1_000_000)
	b.Run(b.Relay)
	b.Await(pa.ID, paidaction.Forwarded)
	b.wantNotLost(pa.ID) // the node holds it
	b.Node.Wipe()
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Forwarded) // of itself nothing follows from that
	if err := b.Engine.WriteOff(b.Ctx, pa.ID, "the disk is gone"); err != nil {
		t.Fatal(err)
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantHistoryEnd(pa.ID, paidaction.WrittenOff)
	b.AwaitStage(pa.ID, "completed")
	b.wantReceived(pa, 70_000)
	b.WantBalance(ledger.RoutingSats, 0)
	b.wantLeft(pa, 71_000)
	b.wantLoss(pa.ID, 100_000)
	b.wantNotLost(pa.ID)
}

// Before the preimage is known nothing is written off, whatever the node has forgotten: the receiver may still give it, or never.
func TestWhatMayNotHaveBeenPaidIsNotWrittenOff(t *testing.T) {
	b := setup(t, "one", "two")
	b.Node.SetSendable(0)
	b.wallet.Ask.Act = simnode.Holds
	stop := b.Run(b.Relay)
	pa := b.zap()
	b.pay(pa)
	b.awaitHeld(pa)
	stop()
	for _, n := range b.Nodes {
		n.Wipe()
	}
	b.Clock.Advance(over)
	b.wantNotLost(pa.ID)
	if err := b.Engine.WriteOff(b.Ctx, pa.ID+1000, "the disk is gone"); !errors.Is(err, paidaction.ErrNoAction) {
		t.Errorf("got %v", err)
	}
}
