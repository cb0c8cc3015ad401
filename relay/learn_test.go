package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// wantNotLearned fails the test unless a preimage changes nothing.
func (b *bundle) wantNotLearned(id int64, p paidaction.Preimage, why string) {
	b.Helper()
	before := b.Look(id).State
	if err := b.Engine.Learn(b.Ctx, id, p); !errors.Is(err, paidaction.ErrNotLearned) {
		b.Errorf("%s: got %v", why, err)
	}
	b.WantState(id, before)
}

// Spec 05.16e: the node that paid has lost its data, and the payer's payment is still held. The receiver
// shows an operator the preimage, which proves that they have the money: it is taken before its blocks run out.
func TestAReceiversPreimageBringsAForwardOn(t *testing.T) {
	b := setup(t, "one", "two")
	b.Node.SetSendable(0)
	b.wallet.Ask.Act = simnode.Holds
	pa := b.zap()
	b.pay(pa)
	preimage := b.wallet.Receiver.Preimage(pa.Invoice.Hash)
	b.wantNotLearned(pa.ID, preimage, "no node was given it")
	stop := b.Run(b.Relay)
	b.awaitHeld(pa)
	b.AwaitShown(pa.ID)
	stop()
	b.settle(pa)
	b.Clock.Advance(over)
	b.Nodes[1].SetAway(true)
	b.wantNotLearned(pa.ID, preimage, "its node is silent")
	b.Nodes[1].SetAway(false)
	b.Nodes[1].Wipe()
	b.wantNotLearned(pa.ID, paidaction.Preimage{1}, "it is another preimage")
	if err := b.Engine.Learn(b.Ctx, pa.ID, preimage); err != nil {
		t.Fatal(err)
	}
	b.WantState(pa.ID, paidaction.Forwarded)
	b.wantNotLearned(pa.ID, preimage, "once more")
	b.rounds(2)
	b.WantState(pa.ID, paidaction.Paid)
	b.wantOuter(pa, paidaction.InvoiceSettled)
	b.wantReceived(pa, 70_000)
	b.AwaitStage(pa.ID, "pending_confirmation")
	if err := b.Engine.WriteOff(b.Ctx, pa.ID, "the disk is gone"); err != nil {
		t.Fatal(err)
	}
	b.AwaitStage(pa.ID, "completed")
	b.WantBalance(ledger.RoutingSats, 0)
	b.wantLoss(pa.ID, 3_000)
}

// The same of a withdrawal, also of one that waits for the only node that may have it.
func TestAReceiversPreimageBringsAWithdrawalOn(t *testing.T) {
	for name, lost := range map[string]func(*bundle) *paidaction.PaidAction{
		"claimed": func(b *bundle) *paidaction.PaidAction {
			pa := b.held()
			row := b.AwaitStage(pa.ID, "in_work")
			hash := paidaction.Hash(row.PaymentHash)
			b.wantNotLearned(pa.ID, b.wallet.Receiver.Preimage(hash), "its node knows it")
			if err := b.wallet.Receiver.Settle(hash); err != nil {
				b.Fatal(err)
			}
			b.Node.Wipe()
			return pa
		},
		"claimed, and its node made anew shows that somebody has tried in vain": func(b *bundle) *paidaction.PaidAction {
			pa := b.held()
			row := b.AwaitStage(pa.ID, "in_work")
			if err := b.wallet.Receiver.Settle(paidaction.Hash(row.PaymentHash)); err != nil {
				b.Fatal(err)
			}
			b.wallet.Receiver.Change(paidaction.Hash(row.PaymentHash), simnode.Refuses)
			b.Node.Replace()
			var last paidaction.PaymentUpdate
			err := b.Node.Pay(b.Ctx, paidaction.PaymentRequest{Bolt11: row.Bolt11, FeeLimit: 5_000, Timeout: time.Second},
				func(u paidaction.PaymentUpdate) error { last = u; return nil })
			if err != nil || last.State != paidaction.PaymentFailed {
				b.Fatalf("the one by hand: %+v, %v", last, err)
			}
			return pa
		},
		"waiting": func(b *bundle) *paidaction.PaidAction {
			pa := b.forgotten()
			b.Clock.Advance(3 * time.Hour)
			return pa
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t).rich(100)
			pa := lost(b)
			stage := "in_work"
			if name == "waiting" {
				stage = "incoming"
			}
			row := b.AwaitStage(pa.ID, stage)
			preimage := b.wallet.Receiver.Preimage(paidaction.Hash(row.PaymentHash))
			if err := b.Engine.Learn(b.Ctx, pa.ID, preimage); err != nil {
				t.Fatal(err)
			}
			b.rounds(2)
			b.WantState(pa.ID, paidaction.Forwarded)
			if err := b.Engine.WriteOff(b.Ctx, pa.ID, "the disk is gone"); err != nil {
				t.Fatal(err)
			}
			b.WantState(pa.ID, paidaction.Paid)
			b.wantSats(50_000)
			b.WantBalance(ledger.RoutingSats, 0)
			if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'PAID'`); n != 1 {
				t.Errorf("%d claims have paid", n)
			}
		})
	}
}

// What was given up, and what was never to leave, takes no preimage.
func TestAPreimageOfWhatIsNotUnderWayChangesNothing(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	pa := b.withdraw(inv.Bolt11)
	b.giveUpUnheard(pa)
	b.wantNotLearned(pa.ID, inv.Preimage, "it has failed")
	b.rounds(1)
	b.WantState(pa.ID, paidaction.Failed)
	b.wantNotLearned(pa.ID, inv.Preimage, "its payer has the money back")
	b.wantSats(100_000)
	if err := b.Engine.Learn(b.Ctx, pa.ID+1000, inv.Preimage); !errors.Is(err, paidaction.ErrNoAction) {
		t.Errorf("got %v", err)
	}
}

// The receiver of a withdrawal has its preimage from the beginning, also of one that never arrives. So that its node is
// silent is not enough: the withdrawal would wait for ever for what it has cost.
func TestAWithdrawalWhoseNodeIsSilentTakesNoPreimage(t *testing.T) {
	b := setup(t).rich(100)
	pa := b.held()
	hash := paidaction.Hash(b.AwaitStage(pa.ID, "in_work").PaymentHash)
	b.Node.SetAway(true)
	b.wantNotLearned(pa.ID, b.wallet.Receiver.Preimage(hash), "its node is silent")
	if err := b.wallet.Receiver.Cancel(hash); err != nil {
		t.Fatal(err)
	}
	b.Node.SetAway(false)
	b.rounds(3)
	b.WantState(pa.ID, paidaction.Failed)
	b.wantSats(100_000)
	b.wantSound()
}
