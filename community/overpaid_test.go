package community_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// excess is what arrives beyond the price.
const excess = 7 * sat

// overpaid are the ways in which what was overpaid can go.
var overpaid = []outcome{
	{"paid", paidaction.FlowOptimistic, func(d *drive) { d.takeExcess(d.overpay()) }},
	{"paid", paidaction.FlowPessimistic, func(d *drive) { d.takeExcess(d.overpay()) }},
	{"paid", paidaction.FlowWrapped, func(d *drive) { d.Run(d.Relay); d.takeExcess(d.overpay()) }},
	{"lost", paidaction.FlowWrapped, (*drive).overpaidAndLost},
	{"written off", paidaction.FlowWrapped, (*drive).overpaidAndWrittenOff},
	{"written off", paidaction.FlowPessimistic, (*drive).heldAndWrittenOff},
}

// TestEveryActionOverpaid: what arrives beyond the price is the payer's, as credits, or the rewards' where nobody knows the payer (spec 01 §1.5);
// and where the payment never came to be ours, nobody's.
func TestEveryActionOverpaid(t *testing.T) {
	t.Parallel()
	for _, def := range community.Actions(community.DefaultSettings()) {
		spec := def.Spec()
		for _, m := range spec.Methods {
			for _, o := range overpaid {
				if o.flow != m.Flow() {
					continue
				}
				payers := payersOf(spec, m)
				if o.name != "paid" { // what is nobody's is so whoever pays
					payers = payers[:1]
				}
				for _, payer := range payers {
					name := spec.Kind + "/" + string(m) + "/" + o.name
					if payer == "" {
						name += "/anonymous"
					}
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						// One node issues, and the other one pays receivers: it knows what that has cost when the first one knows nothing any more.
						d := play(enginetest.NewNodes(t, []string{"issues", "pays"}, paidaction.Settings{}), spec, m, payer)
						if d == nil {
							return
						}
						d.Node.SetSendable(0)
						o.run(d)
						d.wantNothingLeft()
						d.WantSound()
					})
				}
			}
		}
	}
}

// overpay asks for the action, and pays more than its price.
func (d *drive) overpay() *paidaction.PaidAction {
	d.Helper()
	pa := d.begin()
	if err := d.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{Msat: d.cost + excess}); err != nil {
		d.Fatal(err)
	}
	if _, err := d.Engine.Drive(d.Ctx, pa.ID); err != nil {
		d.Fatal(err)
	}
	return pa
}

// takeExcess waits until it is paid, and looks whose the excess is.
func (d *drive) takeExcess(pa *paidaction.PaidAction) {
	d.Helper()
	d.Await(pa.ID, paidaction.Paid)
	if d.method == paidaction.P2P {
		d.AwaitStage(pa.ID, "completed")
	}
	d.Drain()
	to := ledger.RewardSats
	if d.payer != 0 {
		to = ledger.UserCredits(d.payer)
	}
	d.paid[to] += excess
	d.paid[ledger.Lightning] -= excess
	d.wantPaid(pa.ID)
}

// unsettled has the receiver paid, while the node settles nothing.
func (d *drive) unsettled() *paidaction.PaidAction {
	d.Helper()
	d.Node.FailBefore(simnode.MethodSettle, 1_000_000)
	pa := d.overpay()
	stop := d.Run(d.Relay)
	d.Await(pa.ID, paidaction.Forwarded)
	stop()
	return pa
}

// wantLost: others keep what they have earned, and the price is our loss.
func (d *drive) wantLost(pa *paidaction.PaidAction) {
	d.Helper()
	d.WantState(pa.ID, paidaction.Paid)
	d.Run(d.Relay)
	d.AwaitStage(pa.ID, "completed")
	d.Drain()
	d.paid[ledger.LossSats] -= int64(d.cost)
	d.paid[ledger.Lightning] += int64(d.cost)
	d.wantPaid(pa.ID)
}

func (d *drive) overpaidAndLost() {
	pa := d.unsettled()
	if err := d.Node.Cancel(d.Ctx, pa.Invoice.Hash); err != nil {
		d.Fatal(err)
	}
	d.Advance(pa.ID)
	d.wantLost(pa)
}

func (d *drive) overpaidAndWrittenOff() {
	pa := d.unsettled()
	d.Node.Wipe()
	if err := d.Engine.WriteOff(d.Ctx, pa.ID, "the disk is gone"); err != nil {
		d.Fatal(err)
	}
	d.wantLost(pa)
}

// heldAndWrittenOff is what was done for a payment of which its node, restored from a backup, has never heard: nobody
// will say whether it was taken.
func (d *drive) heldAndWrittenOff() {
	before := d.Node.Backup()
	d.Node.FailBefore(simnode.MethodSettle, 1_000_000)
	pa := d.overpay()
	d.WantState(pa.ID, paidaction.Held)
	d.Node.Restore(before)
	if err := d.Engine.WriteOff(d.Ctx, pa.ID, "the disk is gone"); err != nil {
		d.Fatal(err)
	}
	d.WantState(pa.ID, paidaction.Paid)
	d.Drain()
	d.paid[ledger.LossSats] -= int64(d.cost)
	d.paid[ledger.Lightning] += int64(d.cost)
	d.wantPaid(pa.ID)
}

// Once a plain invoice is settled its payer knows the preimage, and can add parts by keysend. From a channel that was closed
// by force such a part may never arrive, though the node counts it. It is nobody's, also if it was there when we looked.
func TestWhatIsAddedByKeysendIsNobodys(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	payer := w.User("payer", 0, 0)
	pa := w.Pay(payer, community.KindItemCreate, community.ItemCreateArgs{Title: "a post"}, paidaction.Optimistic)
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	var preimage []byte
	if err := w.Pool.QueryRow(w.Ctx, `SELECT preimage FROM invoice WHERE action_id = $1`, pa.ID).Scan(&preimage); err != nil {
		t.Fatal(err)
	}
	if err := w.Node.Keysend(paidaction.Preimage(preimage), 1_000_000, w.Node.Height()+200); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	if paid := w.WantState(pa.ID, paidaction.Paid); paid.Invoice.Received != pa.Cost {
		t.Errorf("%v msat count as received", paid.Invoice.Received)
	}
	w.WantBalance(ledger.UserCredits(payer), 0)
	w.WantConserved()
}

// The same, where a hold invoice was settled before the moment to which the database was restored.
func TestWhatWasAddedByKeysendBeforeARestoreIsNobodys(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	payer := w.User("payer", 0, 0)
	pa := w.Pay(payer, community.KindDonate, community.DonateArgs{Sats: 5}, paidaction.Pessimistic)
	var key []byte
	if err := w.Pool.QueryRow(w.Ctx, `SELECT preimage FROM invoice WHERE action_id = $1`, pa.ID).Scan(&key); err != nil {
		t.Fatal(err)
	}
	preimage := paidaction.Preimage(key)
	err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{})
	if err == nil {
		err = w.Node.SettleInvoice(w.Ctx, preimage)
	}
	if err == nil {
		err = w.Node.Keysend(preimage, 1_000_000, w.Node.Height()+200)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.Advance(pa.ID)
	}
	if paid := w.WantState(pa.ID, paidaction.Paid); paid.Invoice.Received != pa.Cost {
		t.Errorf("%v msat count as received", paid.Invoice.Received)
	}
	w.WantBalance(ledger.UserCredits(payer), 0)
	w.WantConserved()
}
