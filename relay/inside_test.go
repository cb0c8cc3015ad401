package relay_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// insider is a withdrawal to the invoice of somebody's post, which costs so many msat.
type insider struct {
	*bundle
	post *paidaction.PaidAction
	cost int64
}

func inside(t *testing.T) *insider {
	b := setup(t).rich(1_000)
	poor := b.User("poor", 0, 0)
	post := b.Pay(poor, community.KindItemCreate, community.ItemCreateArgs{Title: "paid by a friend"}, paidaction.Optimistic)
	return &insider{bundle: b, post: post, cost: int64(post.Invoice.Amount)}
}

func (i *insider) wantPaidInside(pa *paidaction.PaidAction) {
	i.Helper()
	i.WantState(pa.ID, paidaction.Paid)
	i.WantState(i.post.ID, paidaction.Paid)
	i.wantSats(1_000_000 - i.cost)
	if inv, _ := i.Node.Inspect(i.post.Invoice.Hash); inv.State != paidaction.InvoiceCanceled {
		i.Errorf("the node says %s", inv.State)
	}
	i.wantSent(i.post.Invoice.Hash, 0)
	i.wantSound()
}

// Money moves only when the node has said CANCELED.
func TestAPlainInvoiceOfOursIsPaidInside(t *testing.T) {
	i := inside(t)
	pa := i.withdraw(i.post.Invoice.Bolt11)
	i.WantState(i.post.ID, paidaction.Canceling)
	i.WantBalance(ledger.RoutingSats, i.cost)
	if inv, _ := i.Node.Inspect(i.post.Invoice.Hash); inv.State != paidaction.InvoiceOpen {
		t.Errorf("the node says %s", inv.State)
	}
	jobs := func() int64 { return i.Count(`SELECT count(*) FROM test_job WHERE action = $1`, pa.ID) }
	before := jobs()
	i.Advance(i.post.ID)
	i.WantState(i.post.ID, paidaction.Paid)
	if n := jobs() - before; n != 1 {
		t.Errorf("%d jobs were stored for the withdrawal with the preimage, want 1", n) // spec 05.26
	}
	i.Drain()
	i.wantPaidInside(pa)
}

// That its invoice is being cancelled is counted, and whoever watches the action hears of it.
func TestWhoWatchesAnInvoiceHearsThatItIsPaidInside(t *testing.T) {
	i := inside(t)
	taken, told := map[paidaction.State]int{}, map[int64]bool{}
	i.Engine.Hooks.Moved = func(s paidaction.Step) { taken[s.To]++ }
	i.Engine.Hooks.Changed = func(id int64) { told[id] = true }
	i.withdraw(i.post.Invoice.Bolt11)
	if taken[paidaction.Canceling] != 1 {
		t.Errorf("counted %v", taken)
	}
	if !told[i.post.ID] {
		t.Errorf("told of %v, and not of the post %d", told, i.post.ID)
	}
}

// What its node says is settled can no longer be paid inside, though nobody here has heard of that yet, or knows whether
// the payment arrives: the balance would wait as long.
func TestAnInvoiceOfOursThatWasPaidIsNotPaidInside(t *testing.T) {
	for name, pay := range map[string]func(i *insider) error{
		"from outside": func(i *insider) error { return i.Node.PayHash(i.post.Invoice.Hash, simnode.Payment{}) },
		"out of a channel that was closed by force": func(i *insider) error {
			_, err := i.Node.AddPartByForce(i.post.Invoice.Hash, i.post.Cost, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := inside(t)
			if err := pay(i); err != nil {
				t.Fatal(err)
			}
			_, err := i.tryWithdraw(i.post.Invoice.Bolt11)
			i.WantRefusal(err, paidaction.CodeDuplicate)
			i.wantSats(1_000_000)
			i.WantState(i.post.ID, paidaction.Pending)
		})
	}
}

// Somebody outside pays the invoice before the node hears of the cancel: theirs counts, and the withdrawal is refunded.
func TestAnOutsidePaymentIsFasterThanTheInsideOne(t *testing.T) {
	i := inside(t)
	i.Node.Before(simnode.MethodCancel, func(h paidaction.Hash) {
		if err := i.Node.PayHash(h, simnode.Payment{}); err != nil {
			t.Error(err)
		}
	})
	pa := i.withdraw(i.post.Invoice.Bolt11)
	i.Drain()
	if _, err := i.Engine.Sweep(i.Ctx); err != nil {
		t.Fatal(err)
	}
	i.WantState(i.post.ID, paidaction.Paid)
	i.WantState(pa.ID, paidaction.Failed)
	i.wantSats(1_000_000)
	i.wantSound()
}

// What was to be paid inside is never given to a node: not even by an operator who finds it failed before its payer has the money back.
func TestWhatWasPaidForFromOutsideIsNotRequeued(t *testing.T) {
	i := inside(t)
	pa := i.withdraw(i.post.Invoice.Bolt11)
	if err := i.Node.PayHash(i.post.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	i.Advance(i.post.ID)
	if out, err := i.Relay.Proceed(i.Ctx, pa.ID); err != nil || out.Failure == nil { // and whoever asked dies
		t.Fatal(out, err)
	}
	if err := relay.Requeue(i.Ctx, i.Pool, pa.ID, i.Clock.Now()); !errors.Is(err, relay.ErrNotRequeued) {
		t.Errorf("requeued: %v", err)
	}
	i.Drain()
	i.WantState(pa.ID, paidaction.Failed)
	i.wantSats(1_000_000)
	i.wantSent(i.post.Invoice.Hash, 0)
	i.wantSound()
}

// The node is away between the debit and its answer: nothing is decided without it, in either direction.
func TestTheNodeIsAwayWhileAnInvoiceIsPaidInside(t *testing.T) {
	for name, fault := range map[string]func(*simnode.Node){
		"away":                             func(n *simnode.Node) { n.SetAway(true) },
		"the cancel does not arrive":       func(n *simnode.Node) { n.FailBefore(simnode.MethodCancel, 1) },
		"the answer of the cancel is lost": func(n *simnode.Node) { n.FailAfter(simnode.MethodCancel, 1) },
		"the look after it fails":          func(n *simnode.Node) { n.FailBefore(simnode.MethodLookup, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			i := inside(t)
			pa := i.withdraw(i.post.Invoice.Bolt11)
			fault(i.Node)
			for range 3 {
				_, _ = i.Engine.Advance(i.Ctx, i.post.ID)
				_, _ = i.Engine.Advance(i.Ctx, pa.ID)
			}
			if name == "away" {
				i.WantState(i.post.ID, paidaction.Canceling)
				i.WantState(pa.ID, paidaction.Forwarding)
				i.WantBalance(ledger.RoutingSats, i.cost)
			}
			i.Node.SetAway(false)
			i.Drain()
			i.wantPaidInside(pa)
		})
	}
}

// Many withdraw the same invoice of ours at once, and its owner cancels it: it is paid once or not at all, and nobody loses.
func TestAnInvoiceOfOursIsPaidInsideOnce(t *testing.T) {
	i := inside(t)
	owner := *i.Look(i.post.ID).Payer
	go func() { _, _ = i.Engine.Cancel(i.Ctx, enginetest.Caller(owner), i.post.ID) }()
	made, refused := at(4, func() (*paidaction.PaidAction, error) { return i.tryWithdraw(i.post.Invoice.Bolt11) })
	if len(made) > 1 {
		t.Fatalf("%d withdrawals, %v", len(made), refused)
	}
	for _, err := range refused {
		i.WantRefusal(err, paidaction.CodeDuplicate)
	}
	i.Drain()
	i.rounds(2)
	want := int64(1_000_000)
	if i.Look(i.post.ID).State == paidaction.Paid {
		want -= i.cost
	}
	i.wantSats(want)
	i.wantSound()
}

// A forged invoice with the hash of ours, for less, buys nothing.
func TestAForgedInvoiceWithOurHashBuysNothing(t *testing.T) {
	for name, off := range map[string]paidaction.Msat{"cheaper": -1, "dearer": 1} {
		t.Run(name, func(t *testing.T) {
			i := inside(t)
			forged := i.issue(simnode.Ask{Amount: i.post.Invoice.Amount + off, Hash: i.post.Invoice.Hash})
			_, err := i.tryWithdraw(forged.Bolt11)
			i.WantRefusal(err, paidaction.CodeDuplicate)
			i.Drain()
			i.WantState(i.post.ID, paidaction.Pending)
			i.wantSats(1_000_000)
			i.wantSound()
		})
	}
}

// What was paid inside cannot be paid from outside any more, nor withdrawn a second time.
func TestWhatWasPaidInsideIsClosed(t *testing.T) {
	i := inside(t)
	pa := i.withdraw(i.post.Invoice.Bolt11)
	i.Drain()
	if err := i.Node.PayHash(i.post.Invoice.Hash, simnode.Payment{}); err == nil {
		t.Error("the node took a payment for it")
	}
	_, err := i.tryWithdraw(i.post.Invoice.Bolt11)
	i.WantRefusal(err, paidaction.CodeDuplicate)
	i.wantPaidInside(pa)
}

// An invoice that its payer is giving up is paid no more, though its node has not cancelled it yet.
func TestWhatIsBeingGivenUpIsNotPaidInside(t *testing.T) {
	i := inside(t)
	i.Node.FailBefore(simnode.MethodCancel, 1<<30)
	if pa, err := i.Engine.Cancel(i.Ctx, enginetest.Caller(*i.post.Payer), i.post.ID); err != nil || pa.State != paidaction.Canceling {
		t.Fatal(pa, err)
	}
	_, err := i.tryWithdraw(i.post.Invoice.Bolt11)
	i.WantRefusal(err, paidaction.CodeDuplicate)
	i.WantState(i.post.ID, paidaction.Canceling)
	i.wantSats(1_000_000)
}

// The node whose invoice was to be paid inside has lost its data, and will never say that it is cancelled. Once that is
// given up, the withdrawal fails too.
func TestWhatWasToBePaidInsideIsGivenUp(t *testing.T) {
	i := inside(t)
	pa := i.withdraw(i.post.Invoice.Bolt11)
	i.Node.Wipe()
	i.Clock.Advance(time.Hour)
	i.rounds(2)
	i.WantState(i.post.ID, paidaction.Canceling)
	i.wantNotGivenUp(pa.ID, "it ends with the post")
	if err := i.Engine.GiveUp(i.Ctx, i.post.ID, theDiskIsGone); err != nil {
		t.Fatal(err)
	}
	i.rounds(2)
	i.WantState(i.post.ID, paidaction.Failed)
	if got := i.WantState(pa.ID, paidaction.Failed); got.Failure.Message != "This invoice can no longer be paid. You get the money back." {
		t.Errorf("its payer is told %+v", got.Failure)
	}
	i.wantSats(1_000_000)
	i.wantSound()
}
