package simnode_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// town is a network with two sending nodes and one receiver.
type town struct {
	*testing.T
	*clock
	net         *simnode.Network
	alice, bob  *simnode.Node
	carol       *simnode.Receiver
	aliceAtHand paidaction.Msat
}

func newTown(t *testing.T) *town {
	t.Parallel()
	c := &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	net := simnode.NewNetwork(func() time.Time { return c.now })
	w := &town{T: t, clock: c, net: net, alice: net.AddNode("alice"), bob: net.AddNode("bob"), carol: net.AddReceiver("carol")}
	w.aliceAtHand = w.sendable(w.alice)
	return w
}

const sum paidaction.Msat = 100_001

func ask(act simnode.Act) simnode.Ask { return simnode.Ask{Amount: sum, Act: act} }

func pay(bolt11 string) paidaction.PaymentRequest {
	return paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: 5_000, Timeout: 30 * time.Second}
}

func way(bolt11 string) paidaction.RouteRequest {
	r := paidaction.RouteRequest{Bolt11: bolt11, FeeLimit: 5_000, CLTVLimit: 1_000}
	_, _ = rand.Read(r.Probe[:])
	return r
}

func (w *town) sendable(n *simnode.Node) paidaction.Msat {
	w.Helper()
	m, err := n.Sendable(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return m
}

var errSeen = errors.New("seen")

// give gives the node a payment, and leaves after the first update.
func (w *town) give(n *simnode.Node, r paidaction.PaymentRequest) {
	w.Helper()
	if err := n.Pay(w.Context(), r, func(paidaction.PaymentUpdate) error { return errSeen }); !errors.Is(err, errSeen) {
		w.Fatal(err)
	}
}

// present is what the node now says of a payment.
func (w *town) present(n *simnode.Node, h paidaction.Hash) (now paidaction.PaymentUpdate) {
	w.Helper()
	err := n.TrackPayment(w.Context(), h, func(u paidaction.PaymentUpdate) error { now = u; return errSeen })
	if !errors.Is(err, errSeen) {
		w.Fatal(err)
	}
	return now
}

func (w *town) want(n *simnode.Node, h paidaction.Hash, state paidaction.PaymentState, failure paidaction.FailureReason) paidaction.PaymentUpdate {
	w.Helper()
	u := w.present(n, h)
	if u.State != state || u.Failure != failure {
		w.Fatalf("%+v, want %s %s", u, state, failure)
	}
	return u
}

func (w *town) wantReceipt(h paidaction.Hash, want simnode.Receipt) {
	w.Helper()
	if got := w.carol.Receipt(h); got != want {
		w.Errorf("the receiver has %+v, want %+v", got, want)
	}
}

// wantSpent checks how much has left alice for good or is locked.
func (w *town) wantSpent(want paidaction.Msat) {
	w.Helper()
	if got := w.aliceAtHand - w.sendable(w.alice); got != want {
		w.Errorf("%d msat are gone, want %d", got, want)
	}
}

func ignore(paidaction.PaymentUpdate) error { return nil }

func TestWhatReceiversDo(t *testing.T) {
	for act, want := range map[simnode.Act]struct {
		state   paidaction.PaymentState
		failure paidaction.FailureReason
		receipt simnode.Receipt
		spent   paidaction.Msat
	}{
		simnode.Pays:        {paidaction.PaymentSucceeded, "", simnode.Receipt{Received: sum, Payments: 1}, sum + 1000},
		simnode.Holds:       {paidaction.PaymentInFlight, "", simnode.Receipt{Held: sum}, sum + 1000},
		simnode.Splits:      {paidaction.PaymentInFlight, "", simnode.Receipt{Received: 50_000, Held: 50_001, Payments: 1}, sum + 1000},
		simnode.TakesPart:   {paidaction.PaymentSucceeded, "", simnode.Receipt{Received: 50_000, Payments: 1}, 50_500},
		simnode.Refuses:     {paidaction.PaymentFailed, "INCORRECT_PAYMENT_DETAILS", simnode.Receipt{}, 0},
		simnode.Unreachable: {paidaction.PaymentFailed, "NO_ROUTE", simnode.Receipt{}, 0},
		simnode.Unsteady:    {paidaction.PaymentInFlight, "", simnode.Receipt{}, 0},
	} {
		t.Run("act "+string(act), func(t *testing.T) {
			w := newTown(t)
			inv := w.carol.Issue(ask(act))
			w.give(w.alice, pay(inv.Bolt11))
			u := w.want(w.alice, inv.Hash, want.state, want.failure)
			if known := want.receipt.Received > 0; known != (u.Preimage != nil) || known && *u.Preimage != inv.Preimage {
				t.Errorf("the preimage: %+v", u)
			}
			if u.Paid != want.receipt.Received {
				t.Errorf("paid: %+v", u)
			}
			w.wantReceipt(inv.Hash, want.receipt)
			w.wantSpent(want.spent)
		})
	}
}

// spec 05.16c, with both outcomes.
func TestOnePartSettledAndOneHung(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(*simnode.Receiver, paidaction.Hash) error
		fee     paidaction.Msat
		receipt simnode.Receipt
		spent   paidaction.Msat
	}{
		"settled":   {(*simnode.Receiver).Settle, 1001, simnode.Receipt{Received: sum, Payments: 1}, sum + 1001},
		"cancelled": {(*simnode.Receiver).Cancel, 500, simnode.Receipt{Received: 50_000, Payments: 1}, 50_500},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t)
			a := ask(simnode.Splits)
			a.Route = simnode.Route{Fee: 1001, Blocks: 40}
			inv := w.carol.Issue(a)
			var updates []paidaction.PaymentUpdate
			w.alice.After(simnode.MethodPay, func(h paidaction.Hash) {
				if err := c.end(w.carol, h); err != nil {
					t.Error(err)
				}
			})
			if err := w.alice.Pay(t.Context(), pay(inv.Bolt11), func(u paidaction.PaymentUpdate) error {
				updates = append(updates, u)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			last := updates[len(updates)-1]
			if known := updates[len(updates)-2]; known.State != paidaction.PaymentInFlight || *known.Preimage != inv.Preimage || known.Fee != 500 {
				t.Errorf("one part is settled: %+v", known)
			}
			if last.State != paidaction.PaymentSucceeded || last.Fee != c.fee || last.Amount != sum || last.Paid != c.receipt.Received || last.Failure != "" {
				t.Errorf("the end: %+v", last)
			}
			w.wantReceipt(inv.Hash, c.receipt)
			w.wantSpent(c.spent)
		})
	}
}

// spec 05.5, the purpose of the simulation: nobody but us can prevent this, and the receiver shows it.
func TestTheSameHashFromTwoNodesIsPaidTwice(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Pays))
	w.give(w.alice, pay(inv.Bolt11))
	if err := w.alice.Pay(t.Context(), pay(inv.Bolt11), ignore); !errors.Is(err, paidaction.ErrPaymentExists) {
		t.Errorf("from the same node: %v", err)
	}
	w.wantReceipt(inv.Hash, simnode.Receipt{Received: sum, Payments: 1})
	w.give(w.bob, pay(inv.Bolt11))
	w.wantReceipt(inv.Hash, simnode.Receipt{Received: 2 * sum, Payments: 2})
}

// A wrapped payment: one hash comes in at alice and leaves her, and she keeps the two apart.
func TestAWrappedPayment(t *testing.T) {
	w := newTown(t)
	inner := w.carol.Issue(ask(simnode.Holds))
	outer := open(t, w.alice, paidaction.InvoiceRequest{Hold: true, Hash: inner.Hash, Amount: sum + 5_000, Expiry: time.Hour, CLTVDelta: 300})
	w.give(w.bob, pay(outer))
	if v := lookup(t, w.alice, inner.Hash); v.State != paidaction.InvoiceAccepted || v.Received != sum+5_000 || v.ExpiryHeight != 403 {
		t.Fatalf("the outer invoice: %+v", v)
	}
	w.give(w.alice, pay(inner.Bolt11))
	if err := w.alice.Pay(t.Context(), pay(outer), ignore); !errors.Is(err, simnode.ErrSelfPayment) {
		t.Errorf("alice pays herself: %v", err)
	}
	if err := w.carol.Settle(inner.Hash); err != nil {
		t.Fatal(err)
	}
	if err := w.alice.SettleInvoice(t.Context(), *w.present(w.alice, inner.Hash).Preimage); err != nil {
		t.Fatal(err)
	}
	if u := w.want(w.bob, inner.Hash, paidaction.PaymentSucceeded, ""); u.Amount != sum+5_000 || u.Fee != 1000 {
		t.Errorf("the payer: %+v", u)
	}
	w.wantSpent(1000 - 5_000) // she keeps what she was paid for it
}

func TestThePayerOfAnOuterInvoiceGetsItBack(t *testing.T) {
	w := newTown(t)
	r := request(1, true)
	outer := open(t, w.alice, r)
	w.give(w.bob, pay(outer))
	// spec 05.16b: alice gives it back by herself, 18 blocks before it expires, but not while she is behind the chain.
	w.alice.SetSynced(false)
	w.net.Mine(80 + 3 - simnode.HoldExpiryDelta)
	w.want(w.bob, r.Hash, paidaction.PaymentInFlight, "")
	if w.alice.Height() != 100 || w.bob.Height() != 165 {
		t.Errorf("alice is at height %d, bob at %d", w.alice.Height(), w.bob.Height())
	}
	w.alice.SetSynced(true)
	w.want(w.bob, r.Hash, paidaction.PaymentFailed, "INCORRECT_PAYMENT_DETAILS")
	wantState(t, w.alice, r.Hash, paidaction.InvoiceCanceled)
	w.give(w.bob, pay(outer))
	w.want(w.bob, r.Hash, paidaction.PaymentFailed, "INCORRECT_PAYMENT_DETAILS")
}

// The node that should give it back does not see the blocks. The HTLC expires under it, and nothing is left to take.
func TestAnHTLCExpiresUnderItsReceiver(t *testing.T) {
	w := newTown(t)
	r := request(1, true)
	w.give(w.bob, pay(open(t, w.alice, r)))
	w.alice.SetSynced(false)
	w.net.Mine(80 + 3 + 80)
	w.want(w.bob, r.Hash, paidaction.PaymentFailed, "NO_ROUTE")
	if err := w.alice.SettleInvoice(t.Context(), r.Preimage); err != nil {
		t.Fatal(err)
	}
	w.want(w.bob, r.Hash, paidaction.PaymentFailed, "NO_ROUTE")
	w.wantSpent(0)
}

func TestOneNodePaysAnother(t *testing.T) {
	w := newTown(t)
	r := request(1, false)
	old := open(t, w.alice, r)
	w.alice.SetAway(true)
	w.give(w.bob, pay(old))
	w.want(w.bob, r.Hash, paidaction.PaymentFailed, "NO_ROUTE")
	w.alice.SetAway(false)
	w.alice.Wipe()
	r.Amount--
	renewed := open(t, w.alice, r)
	w.give(w.bob, pay(old))
	w.want(w.bob, r.Hash, paidaction.PaymentFailed, "INCORRECT_PAYMENT_DETAILS")
	w.give(w.bob, pay(renewed))
	if u := w.want(w.bob, r.Hash, paidaction.PaymentSucceeded, ""); *u.Preimage != r.Preimage {
		t.Errorf("%+v", u)
	}
	w.wantSpent(-r.Amount)
}

func TestBlocksEndWhatHangs(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Holds))
	r := pay(inv.Bolt11)
	r.CLTVLimit = 80 + 3 + 80
	w.give(w.alice, r)
	sent, _ := w.alice.Sent(inv.Hash)
	if len(sent.Parts) != 1 || sent.Parts[0].ExpiryHeight != 100+80+3+80 {
		t.Fatalf("%+v", sent)
	}
	w.net.Mine(162)
	w.net.Tick() // what has a route is not sent again
	w.wantReceipt(inv.Hash, simnode.Receipt{Held: sum})
	w.now = w.now.Add(time.Minute)
	w.net.Mine(1)
	w.want(w.alice, inv.Hash, paidaction.PaymentFailed, "TIMEOUT")
	if err := w.carol.Settle(inv.Hash); !errors.Is(err, simnode.ErrNotHeld) {
		t.Errorf("taken after it expired: %v", err)
	}
	w.wantReceipt(inv.Hash, simnode.Receipt{})
	w.wantSpent(0)
}

func TestTimeoutByTheClock(t *testing.T) {
	w := newTown(t)
	lost, found := w.carol.Issue(ask(simnode.Unsteady)), w.carol.Issue(ask(simnode.Unsteady))
	w.give(w.alice, pay(lost.Bolt11))
	w.give(w.alice, pay(found.Bolt11))
	w.now = w.now.Add(30 * time.Second)
	w.carol.Change(found.Hash, simnode.Pays)
	w.net.Tick()
	w.want(w.alice, lost.Hash, paidaction.PaymentInFlight, "")
	w.want(w.alice, found.Hash, paidaction.PaymentSucceeded, "")
	w.now = w.now.Add(time.Second)
	w.net.Tick()
	w.want(w.alice, lost.Hash, paidaction.PaymentFailed, "TIMEOUT")
}

func TestWhatTheNodeLacks(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Pays))
	w.alice.SetSendable(sum + 999)
	w.give(w.alice, pay(inv.Bolt11))
	w.want(w.alice, inv.Hash, paidaction.PaymentFailed, "INSUFFICIENT_BALANCE")
	w.alice.SetSendable(sum + 1000)
	w.alice.SetReserved(1)
	w.give(w.alice, pay(inv.Bolt11))
	w.want(w.alice, inv.Hash, paidaction.PaymentFailed, "INSUFFICIENT_BALANCE")
	w.alice.SetReserved(0)
	w.alice.SetIsolated(true)
	w.give(w.alice, pay(inv.Bolt11))
	w.want(w.alice, inv.Hash, paidaction.PaymentFailed, "NO_ROUTE")
	if _, err := w.alice.EstimateRoute(t.Context(), way(inv.Bolt11)); !errors.Is(err, paidaction.ErrNoRoute) {
		t.Errorf("isolated: %v", err)
	}
	w.alice.SetIsolated(false)
	w.alice.SetRoute(simnode.Route{Fee: 7, Blocks: 9})
	if r, err := w.alice.EstimateRoute(t.Context(), way(inv.Bolt11)); err != nil || r != (paidaction.Route{Fee: 7, Height: 100 + 80 + 3 + 9}) {
		t.Errorf("%+v, %v", r, err)
	}
	w.alice.SetAhead(time.Hour + time.Second)
	if err := w.alice.Pay(t.Context(), pay(inv.Bolt11), ignore); !errors.Is(err, simnode.ErrExpired) {
		t.Errorf("expired by the node's own clock: %v", err)
	}
	w.alice.SetAhead(time.Hour)
	w.give(w.alice, pay(inv.Bolt11))
	w.wantReceipt(inv.Hash, simnode.Receipt{Received: sum, Payments: 1})
}

func TestWhatInvoicesSay(t *testing.T) {
	w := newTown(t)
	key, err := w.alice.PublicKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	odd := []paidaction.Feature{{Bit: 31, Known: false}}
	first := w.carol.Issue(simnode.Ask{Amount: 21_999, Truncate: true, DescriptionHash: "c0ffee", CLTVDelta: 40, Expiry: time.Minute,
		Blinded: true, Features: odd})
	inv, err := w.alice.DecodeInvoice(t.Context(), first.Bolt11)
	if err != nil {
		t.Fatal(err)
	}
	if inv.Amount != 21_000 || inv.DescriptionHash != "c0ffee" || inv.CLTVDelta != 40 || !inv.Blinded || inv.Hash != first.Hash ||
		!slices.Equal(inv.Features, odd) || inv.Expires.Sub(w.now) != time.Minute || inv.Destination == key {
		t.Errorf("%+v", inv)
	}
	// The same hash again, in an invoice that leaves the amount open.
	second := w.carol.Issue(simnode.Ask{Hash: first.Hash})
	if second.Bolt11 == first.Bolt11 || second.Preimage != first.Preimage {
		t.Errorf("%+v", second)
	}
	if err := w.alice.Pay(t.Context(), pay(second.Bolt11), ignore); !errors.Is(err, simnode.ErrBadPayment) {
		t.Errorf("without an amount: %v", err)
	}
	r := pay(second.Bolt11)
	r.Amount = 3
	w.give(w.alice, r)
	w.give(w.bob, pay(first.Bolt11))
	w.wantReceipt(first.Hash, simnode.Receipt{Received: 21_003, Payments: 2})
	// A hash of somebody else's can be asked for, but never taken.
	foreign := w.carol.Issue(simnode.Ask{Amount: 1, Hash: paidaction.Hash{1}})
	w.give(w.alice, pay(foreign.Bolt11))
	w.want(w.alice, foreign.Hash, paidaction.PaymentFailed, "INCORRECT_PAYMENT_DETAILS")
}

func TestManyPayOneInvoiceAtOnce(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Holds))
	var payers sync.WaitGroup
	outcomes := make(chan error, 16)
	for range cap(outcomes) {
		payers.Go(func() { outcomes <- w.alice.Pay(t.Context(), pay(inv.Bolt11), ignore) })
	}
	exist := 0
	for range cap(outcomes) - 1 {
		if err := <-outcomes; errors.Is(err, paidaction.ErrPaymentExists) {
			exist++
		}
	}
	if err := w.carol.Settle(inv.Hash); err != nil || exist != 15 {
		t.Errorf("%d heard that it exists: %v", exist, err)
	}
	payers.Wait()
	if err := <-outcomes; err != nil {
		t.Error(err)
	}
	w.wantReceipt(inv.Hash, simnode.Receipt{Received: sum, Payments: 1})
}

func TestPayingEndsWithTheCallerAlone(t *testing.T) {
	w := newTown(t)
	inv := w.carol.Issue(ask(simnode.Holds))
	ctx, cancel := context.WithCancel(t.Context())
	w.alice.After(simnode.MethodPay, func(paidaction.Hash) { cancel() })
	if err := w.alice.Pay(ctx, pay(inv.Bolt11), ignore); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.wantReceipt(inv.Hash, simnode.Receipt{Held: sum})
	other := w.carol.Issue(ask(simnode.Pays))
	if err := w.alice.Pay(ctx, pay(other.Bolt11), ignore); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, ok := w.alice.Sent(other.Hash); ok {
		t.Error("a context that was over sent a payment")
	}
}
