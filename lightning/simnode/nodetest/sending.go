package nodetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// SendingEnv is a sending node under test, with somebody to pay.
type SendingEnv interface {
	// Sender reaches Receiver over at least one other node, or something that costs as much: a fee, and blocks.
	Sender() paidaction.SendingNode
	// Receiver is somebody else. The invoice that it opens (plain or hold), and what it does with that, decide the
	// outcome of a payment.
	Receiver() Receiver
	// Unreachable returns an invoice of somebody to whom there is no route.
	Unreachable(ctx context.Context) (bolt11 string, err error)
	// Advance and Restart are Env's. Restart is the sender's.
	Advance(d time.Duration)
	Restart(ctx context.Context) error
}

// Receiver is somebody who is paid.
type Receiver interface {
	paidaction.Node
	paidaction.NodeEvents
	PublicKey(ctx context.Context) (string, error)
}

// RunSending runs the suite for sending nodes, each test against the SendingEnv that env makes for it.
func RunSending(t *testing.T, env func(*testing.T) SendingEnv) {
	run := func(test func(*testing.T, *outside)) func(*testing.T) {
		return func(t *testing.T) {
			e := env(t)
			w := newWorld(t, receiving{e})
			test(t, &outside{world: w, env: e, node: e.Sender()})
		}
	}
	t.Run("node", func(t *testing.T) { runTogether(t, run) }) // it ends before the node is restarted
	t.Run("what hangs is in the channels", run(inChannels))   // while nothing else is under way
	t.Run("a payment outlasts a restart", run(sentOverRestart))
}

func runTogether(t *testing.T, run func(func(*testing.T, *outside)) func(*testing.T)) {
	for name, test := range map[string]func(*testing.T, *outside){
		"a payment succeeds":                        paid,
		"a payment is refused, and may be repeated": refusedForGood,
		"a payment exists":                          exists,
		"an unknown payment is not found":           notFound,
		"a payment goes on without its caller":      goesOn,
		"a held payment comes back":                 comesBack,
		"too small a fee limit":                     feeLimit,
		"too small a CLTV limit":                    cltvLimit,
		"what the node does not send":               notSent,
		"an expired invoice":                        expired,
		"an invoice is read":                        decoded,
		"a way to nobody":                           noWay,
		"more than the node has":                    tooMuch,
		"payments that did not fail are listed":     listed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(test)(t)
		})
	}
}

// receiving is the Env of the receiver.
type receiving struct{ SendingEnv }

func (r receiving) Node() paidaction.Node                    { return r.Receiver() }
func (r receiving) Events() paidaction.NodeEvents            { return r.Receiver() }
func (r receiving) Pay(context.Context, string) error        { return errors.ErrUnsupported }
func (r receiving) MineBlocks(context.Context, uint32) error { return errors.ErrUnsupported }
func (r receiving) PayTotal(context.Context, string, paidaction.Msat, int) (bool, error) {
	return false, errors.ErrUnsupported
}

// outside is the receiver's world, and the node that pays it.
type outside struct {
	*world
	env  SendingEnv
	node paidaction.SendingNode
}

func request(bolt11 string) paidaction.PaymentRequest {
	return paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: amount, Timeout: 30 * time.Second, CLTVLimit: 1000}
}

// way asks for a route that may cost and lock as much as such a payment.
func way(bolt11 string) paidaction.RouteRequest {
	r := request(bolt11)
	asked := paidaction.RouteRequest{Bolt11: r.Bolt11, FeeLimit: r.FeeLimit, CLTVLimit: r.CLTVLimit}
	_, _ = rand.Read(asked.Probe[:])
	return asked
}

// send pays and returns all updates. Only the last one is final.
func (o *outside) send(r paidaction.PaymentRequest) []paidaction.PaymentUpdate {
	o.t.Helper()
	var updates []paidaction.PaymentUpdate
	err := o.node.Pay(o.ctx, r, func(u paidaction.PaymentUpdate) error {
		updates = append(updates, u)
		return nil
	})
	if err != nil {
		o.t.Fatal(err)
	}
	if len(updates) == 0 {
		o.t.Fatal("no update came")
	}
	for i, u := range updates {
		if final := u.State != paidaction.PaymentInFlight; final != (i == len(updates)-1) {
			o.t.Fatalf("update %d: %+v", i, u)
		}
	}
	return updates
}

// under gives the node a payment, and returns once the node says that it has it.
func (o *outside) under(r paidaction.PaymentRequest) {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	gone := errors.New("gone")
	if err := o.node.Pay(ctx, r, func(paidaction.PaymentUpdate) error { return gone }); !errors.Is(err, gone) {
		o.t.Fatalf("the caller went away, and got %v", err)
	}
}

// track follows a payment to its end.
func (o *outside) track(h paidaction.Hash) (last paidaction.PaymentUpdate) {
	o.t.Helper()
	o.must(o.node.TrackPayment(o.ctx, h, func(u paidaction.PaymentUpdate) error {
		last = u
		return nil
	}))
	return last
}

// wantFailed checks what a failed payment looks like, to the caller and to those who ask later.
func (o *outside) wantFailed(u paidaction.PaymentUpdate, h paidaction.Hash, reason paidaction.FailureReason) {
	o.t.Helper()
	for _, u := range []paidaction.PaymentUpdate{u, o.track(h)} {
		if u.Hash != h || u.State != paidaction.PaymentFailed || u.Failure != reason || u.Preimage != nil {
			o.t.Fatalf("%+v, want it to have failed with %s", u, reason)
		}
	}
}

// wantUnknown checks that nothing was sent.
func (o *outside) wantUnknown(h paidaction.Hash) {
	o.t.Helper()
	err := o.node.TrackPayment(o.ctx, h, func(u paidaction.PaymentUpdate) error {
		o.t.Errorf("%+v", u)
		return nil
	})
	if !errors.Is(err, paidaction.ErrPaymentNotFound) {
		o.t.Fatalf("tracking what was not sent: %v", err)
	}
}

func ignore(paidaction.PaymentUpdate) error { return nil }

func paid(t *testing.T, o *outside) {
	r := o.request(false)
	bolt11 := o.open(r)
	asked := way(bolt11)
	route, err := o.node.EstimateRoute(o.ctx, asked)
	o.must(err)
	if probe := o.track(asked.Probe); probe.Hash != asked.Probe || probe.State != paidaction.PaymentFailed || probe.Failure != paidaction.ReasonIncorrectDetails {
		t.Fatalf("the probe: %+v", probe)
	}
	chain, err := o.node.Chain(o.ctx)
	o.must(err)
	if route.Fee <= 0 || route.Height <= chain.Height+cltvDelta || route.Height > chain.Height+1000 {
		t.Fatalf("at height %d the route is %+v", chain.Height, route)
	}
	// Probes one after another may have the same hash.
	limits := paidaction.RouteRequest{Bolt11: bolt11, Probe: asked.Probe, FeeLimit: route.Fee, CLTVLimit: route.Height - chain.Height}
	if again, err := o.node.EstimateRoute(o.ctx, limits); err != nil || again != route {
		t.Fatalf("within its own limits it is %+v, %v", again, err)
	}
	cheaper, shorter := limits, limits
	cheaper.FeeLimit--
	shorter.CLTVLimit--
	for _, limits := range []paidaction.RouteRequest{cheaper, shorter} {
		if beyond, err := o.node.EstimateRoute(o.ctx, limits); !errors.Is(err, paidaction.ErrNoRoute) {
			t.Fatalf("within %d msat and %d blocks there is %+v, %v", limits.FeeLimit, limits.CLTVLimit, beyond, err)
		}
	}
	updates := o.send(request(bolt11))
	if u := updates[0]; u.Hash != r.Hash || u.Preimage != nil || u.Fee != 0 || u.Amount != amount {
		t.Fatalf("the first update: %+v", u)
	}
	for _, u := range []paidaction.PaymentUpdate{updates[len(updates)-1], o.track(r.Hash)} {
		if u.Hash != r.Hash || u.State != paidaction.PaymentSucceeded || u.Amount != amount || u.Paid != amount || u.Fee != route.Fee || u.Failure != "" ||
			u.Preimage == nil || *u.Preimage != r.Preimage {
			t.Fatalf("the last update: %+v", u)
		}
	}
	if v := o.lookup(r.Hash, paidaction.InvoiceSettled); v.Received != amount {
		t.Fatalf("the receiver has %+v", v)
	}
}

func refusedForGood(t *testing.T, o *outside) {
	r := o.request(false)
	bolt11 := o.open(r)
	o.must(o.Node().CancelInvoice(o.ctx, r.Hash))
	before := map[int64]bool{} // the next one with the same hash is another payment
	for range 3 {
		updates := o.send(request(bolt11))
		o.wantFailed(updates[len(updates)-1], r.Hash, "INCORRECT_PAYMENT_DETAILS")
		created := o.track(r.Hash).Created
		for _, u := range updates {
			if u.Created != created || before[created] {
				t.Fatalf("%+v, which the node now calls %d, after %v", u, created, before)
			}
		}
		before[created] = true
	}
}

func exists(t *testing.T, o *outside) {
	r := o.request(true)
	pay := request(o.open(r))
	o.under(pay)
	again := func(when string) {
		if err := o.node.Pay(o.ctx, pay, ignore); !errors.Is(err, paidaction.ErrPaymentExists) {
			t.Errorf("%s: %v", when, err)
		}
	}
	again("under way")
	o.await(r.Hash, paidaction.InvoiceAccepted)
	again("held")
	o.must(o.Node().SettleInvoice(o.ctx, r.Preimage))
	if u := o.track(r.Hash); u.State != paidaction.PaymentSucceeded {
		t.Fatalf("%+v", u)
	}
	again("paid")
	if v := o.lookup(r.Hash, paidaction.InvoiceSettled); v.Received != amount {
		t.Fatalf("the receiver has %+v", v)
	}
}

func notFound(_ *testing.T, o *outside) { o.wantUnknown(o.request(false).Hash) }

func goesOn(t *testing.T, o *outside) {
	r := o.request(true)
	o.under(request(o.open(r)))
	o.await(r.Hash, paidaction.InvoiceAccepted)
	first, last := true, paidaction.PaymentUpdate{}
	o.must(o.node.TrackPayment(o.ctx, r.Hash, func(u paidaction.PaymentUpdate) error {
		if first {
			if u.Hash != r.Hash || u.State != paidaction.PaymentInFlight || u.Preimage != nil {
				t.Errorf("held: %+v", u)
			}
			first = false
			return o.Node().SettleInvoice(o.ctx, r.Preimage)
		}
		last = u
		return nil
	}))
	if last.State != paidaction.PaymentSucceeded || last.Preimage == nil || *last.Preimage != r.Preimage || last.Fee <= 0 {
		t.Fatalf("%+v", last)
	}
}

func comesBack(_ *testing.T, o *outside) {
	r := o.request(true)
	o.under(request(o.open(r)))
	o.await(r.Hash, paidaction.InvoiceAccepted)
	o.must(o.Node().CancelInvoice(o.ctx, r.Hash))
	o.wantFailed(o.track(r.Hash), r.Hash, "INCORRECT_PAYMENT_DETAILS")
}

func feeLimit(_ *testing.T, o *outside) {
	r := o.request(false)
	pay := request(o.open(r))
	pay.FeeLimit = 0
	updates := o.send(pay)
	o.wantFailed(updates[len(updates)-1], r.Hash, "NO_ROUTE")
	o.lookup(r.Hash, paidaction.InvoiceOpen)
}

func cltvLimit(_ *testing.T, o *outside) {
	r := o.request(false)
	pay := request(o.open(r))
	// LND adds 3 blocks to what the receiver asks for, and does not start a payment whose limit allows no more than
	// these.
	pay.CLTVLimit = cltvDelta + 3
	o.mustNot("paying without a block for the way", o.node.Pay(o.ctx, pay, ignore))
	o.wantUnknown(r.Hash)
	pay.CLTVLimit = 2016 + 1
	o.mustNot("locking money for longer than the node allows", o.node.Pay(o.ctx, pay, ignore))
	o.wantUnknown(r.Hash)
	pay.CLTVLimit = cltvDelta + 4
	updates := o.send(pay)
	o.wantFailed(updates[len(updates)-1], r.Hash, "NO_ROUTE")
	o.lookup(r.Hash, paidaction.InvoiceOpen)
}

func notSent(_ *testing.T, o *outside) {
	r := o.request(false)
	bolt11 := o.open(r)
	over, cancel := context.WithCancel(o.ctx)
	cancel()
	o.mustNot("paying when the context is over", o.node.Pay(over, request(bolt11), ignore))
	for what, change := range map[string]func(*paidaction.PaymentRequest){
		"no timeout":             func(r *paidaction.PaymentRequest) { r.Timeout = 0 },
		"a fraction of a second": func(r *paidaction.PaymentRequest) { r.Timeout = 1500 * time.Millisecond },
		"a second amount":        func(r *paidaction.PaymentRequest) { r.Amount = amount },
		"a negative fee":         func(r *paidaction.PaymentRequest) { r.FeeLimit = -1 },
		"no invoice":             func(r *paidaction.PaymentRequest) { r.Bolt11 = "" },
		"a changed invoice":      func(r *paidaction.PaymentRequest) { r.Bolt11 = changed(r.Bolt11) },
	} {
		pay := request(bolt11)
		change(&pay)
		o.mustNot(what, o.node.Pay(o.ctx, pay, ignore))
	}
	o.wantUnknown(r.Hash)
	own := o.request(false)
	bolt11, err := o.node.OpenInvoice(o.ctx, own)
	o.must(err)
	o.mustNot("paying oneself", o.node.Pay(o.ctx, request(bolt11), ignore))
	o.wantUnknown(own.Hash)
}

func expired(t *testing.T, o *outside) {
	r := o.request(false)
	r.Expiry = time.Second
	pay := request(o.open(r))
	o.Advance(2 * time.Second)
	o.await(r.Hash, paidaction.InvoiceCanceled)
	if err := o.node.Pay(o.ctx, pay, ignore); err == nil || errors.Is(err, paidaction.ErrPaymentExists) {
		t.Fatalf("paying what has expired: %v", err)
	}
	o.wantUnknown(r.Hash)
}

func decoded(t *testing.T, o *outside) {
	r := o.request(true)
	bolt11 := o.open(r)
	inv, err := o.node.DecodeInvoice(o.ctx, bolt11)
	o.must(err)
	key, err := o.env.Receiver().PublicKey(o.ctx)
	o.must(err)
	if inv.Hash != r.Hash || inv.Destination != key || inv.Amount != amount || inv.Description != r.Memo || inv.DescriptionHash != "" ||
		inv.CLTVDelta != cltvDelta || inv.Expires.Sub(inv.Created) != r.Expiry || inv.Blinded || len(inv.Features) == 0 {
		t.Fatalf("%+v", inv)
	}
	for _, hold := range []bool{false, true} {
		r := o.request(hold)
		r.DescriptionHash = sha256.Sum256([]byte("a longer description"))
		inv, err := o.node.DecodeInvoice(o.ctx, o.open(r))
		o.must(err)
		if inv.Hash != r.Hash || inv.Description != "" || inv.DescriptionHash != hex.EncodeToString(r.DescriptionHash[:]) {
			t.Errorf("described by a hash, hold %t: %+v", hold, inv)
		}
	}
	plain := o.request(false)
	plain.CLTVDelta = 0
	if inv, err := o.node.DecodeInvoice(o.ctx, o.open(plain)); err != nil || inv.CLTVDelta != 80 {
		t.Errorf("an invoice that asks for no blocks asks for %d (%v)", inv.CLTVDelta, err)
	}
	for _, f := range inv.Features {
		if !f.Known || f.Required != (f.Bit%2 == 0) {
			t.Errorf("%+v", f)
		}
	}
	for _, text := range []string{changed(bolt11), "send it to me"} {
		if inv, err := o.node.DecodeInvoice(o.ctx, text); !errors.Is(err, paidaction.ErrBolt11) {
			t.Errorf("%s is read as %+v, error %v", text, inv, err)
		}
	}
}

// changed is a bolt11 with a different last letter.
func changed(bolt11 string) string {
	last, other := len(bolt11)-1, "q"
	if bolt11[last:] == other {
		other = "p"
	}
	return bolt11[:last] + other
}

func noWay(t *testing.T, o *outside) {
	bolt11, err := o.env.Unreachable(o.ctx)
	o.must(err)
	inv, err := o.node.DecodeInvoice(o.ctx, bolt11)
	o.must(err)
	asked := way(bolt11)
	if route, err := o.node.EstimateRoute(o.ctx, asked); !errors.Is(err, paidaction.ErrNoRoute) || route != (paidaction.Route{}) {
		t.Fatalf("%+v, %v", route, err)
	}
	o.wantFailed(o.track(asked.Probe), asked.Probe, "NO_ROUTE")
	updates := o.send(request(bolt11))
	o.wantFailed(updates[len(updates)-1], inv.Hash, "NO_ROUTE")
}
