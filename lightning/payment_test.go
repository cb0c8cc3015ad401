package lightning_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// outgoing is an invoice that the fake node is going to pay, and how.
func outgoing(t *testing.T, c *lightning.Client, r paidaction.InvoiceRequest) paidaction.PaymentRequest {
	t.Helper()
	bolt11 := issued(t, c, r)
	return paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: 1_000, Timeout: 30 * time.Second, CLTVLimit: 500}
}

func collect(into *[]paidaction.PaymentUpdate) func(paidaction.PaymentUpdate) error {
	return func(u paidaction.PaymentUpdate) error {
		*into = append(*into, u)
		return nil
	}
}

func states(updates []paidaction.PaymentUpdate) []paidaction.PaymentState {
	var s []paidaction.PaymentState
	for _, u := range updates {
		s = append(s, u.State)
	}
	return s
}

func TestPay(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(1, false)
	pay := outgoing(t, c, r)
	zero := make([]byte, 32)
	server.Script(r.Hash,
		&lnrpc.Payment{Status: lnrpc.Payment_INITIATED, PaymentPreimage: hex.EncodeToString(zero)},
		&lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT, Htlcs: []*lnrpc.HTLCAttempt{{Status: lnrpc.HTLCAttempt_SUCCEEDED, Preimage: zero}}},
		// One part is settled while another hangs: the preimage is known though the payment is not over.
		&lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT, Htlcs: []*lnrpc.HTLCAttempt{
			{Status: lnrpc.HTLCAttempt_IN_FLIGHT},
			{Status: lnrpc.HTLCAttempt_SUCCEEDED, Preimage: r.Preimage[:]},
		}},
		&lnrpc.Payment{Status: lnrpc.Payment_SUCCEEDED, ValueMsat: 123_456, FeeMsat: 77, PaymentPreimage: hex.EncodeToString(r.Preimage[:])},
	)
	var updates []paidaction.PaymentUpdate
	if err := c.Pay(t.Context(), pay, collect(&updates)); err != nil {
		t.Fatal(err)
	}
	want := []paidaction.PaymentState{
		paidaction.PaymentInFlight, paidaction.PaymentInFlight, paidaction.PaymentInFlight, paidaction.PaymentSucceeded,
	}
	if !slices.Equal(states(updates), want) {
		t.Fatalf("%+v", updates)
	}
	if updates[0].Preimage != nil || updates[1].Preimage != nil || updates[2].Preimage == nil || *updates[2].Preimage != r.Preimage {
		t.Fatalf("%+v", updates)
	}
	if last := updates[3]; last.Hash != r.Hash || last.Amount != 123_456 || last.Paid != 123_456 || last.Fee != 77 || *last.Preimage != r.Preimage {
		t.Fatalf("%+v", last)
	}
	sent := server.Sent(r.Hash)
	if sent.PaymentRequest != pay.Bolt11 || sent.FeeLimitMsat != 1_000 || sent.TimeoutSeconds != 30 || sent.MaxParts != 0 ||
		sent.CltvLimit != 500 || sent.NoInflightUpdates || sent.Cancelable || len(sent.PaymentHash) != 0 {
		t.Fatalf("%+v", sent)
	}
	if err := c.Pay(t.Context(), pay, collect(&updates)); !errors.Is(err, paidaction.ErrPaymentExists) {
		t.Fatalf("paying twice: %v", err)
	}
	var tracked []paidaction.PaymentUpdate
	if err := c.TrackPayment(t.Context(), r.Hash, collect(&tracked)); err != nil || len(tracked) != 4 {
		t.Fatalf("%v %+v", err, tracked)
	}
}

// LND shows a preimage of zeroes where it knows none, so it is none either where a receiver has chosen just that: their invoice would
// count as paid while the payment is under way.
func TestZeroesAreNoPreimageOfAnyPayment(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	zero := paidaction.Preimage{}
	server.ScriptProbe(zero.Hash(), &lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT, PaymentPreimage: hex.EncodeToString(zero[:]),
		Htlcs: []*lnrpc.HTLCAttempt{{Status: lnrpc.HTLCAttempt_IN_FLIGHT, Preimage: zero[:]}}})
	now, err := paidaction.PresentPayment(t.Context(), c, zero.Hash())
	if err != nil || now.State != paidaction.PaymentInFlight || now.Preimage != nil {
		t.Errorf("%v %+v", err, now)
	}
}

// Each part pays, and costs a fee of its own. Until the payment has succeeded, nobody may take what it asks for as paid.
func TestEverySettledPartCounts(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(5, false)
	pay := outgoing(t, c, r)
	part := func(amount, fee int64) *lnrpc.HTLCAttempt {
		return &lnrpc.HTLCAttempt{Status: lnrpc.HTLCAttempt_SUCCEEDED, Preimage: r.Preimage[:], Route: &lnrpc.Route{TotalAmtMsat: amount + fee, TotalFeesMsat: fee}}
	}
	server.Script(r.Hash,
		&lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT, ValueMsat: 80_000, FeeMsat: 20, Htlcs: []*lnrpc.HTLCAttempt{{Status: lnrpc.HTLCAttempt_IN_FLIGHT}}},
		&lnrpc.Payment{Status: lnrpc.Payment_SUCCEEDED, ValueMsat: 80_000, FeeMsat: 20, Htlcs: []*lnrpc.HTLCAttempt{part(50_000, 13), part(30_000, 7)}},
	)
	var updates []paidaction.PaymentUpdate
	if err := c.Pay(t.Context(), pay, collect(&updates)); err != nil || len(updates) != 2 {
		t.Fatalf("%v %+v", err, updates)
	}
	if u := updates[0]; u.Paid != 0 || u.Fee != 0 {
		t.Errorf("under way: %+v", u)
	}
	if u := updates[1]; u.Paid != 80_000 || u.Fee != 20 {
		t.Errorf("paid: %+v", u)
	}
}

// What was settled was paid, and nothing else: LND says SUCCEEDED also where other parts came back, and its own fee counts what may
// still come back.
func TestOnlySettledPartsWerePaid(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(4, false)
	pay := outgoing(t, c, r)
	part := func(status lnrpc.HTLCAttempt_HTLCStatus) *lnrpc.HTLCAttempt {
		return &lnrpc.HTLCAttempt{Status: status, Preimage: r.Preimage[:], Route: &lnrpc.Route{TotalAmtMsat: 40_013, TotalFeesMsat: 13}}
	}
	server.Script(r.Hash,
		&lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT, ValueMsat: 80_000, FeeMsat: 26,
			Htlcs: []*lnrpc.HTLCAttempt{part(lnrpc.HTLCAttempt_SUCCEEDED), part(lnrpc.HTLCAttempt_IN_FLIGHT)}},
		&lnrpc.Payment{Status: lnrpc.Payment_SUCCEEDED, ValueMsat: 80_000, FeeMsat: 13,
			Htlcs: []*lnrpc.HTLCAttempt{part(lnrpc.HTLCAttempt_SUCCEEDED), part(lnrpc.HTLCAttempt_FAILED)}},
	)
	var updates []paidaction.PaymentUpdate
	if err := c.Pay(t.Context(), pay, collect(&updates)); err != nil || len(updates) != 2 {
		t.Fatalf("%v %+v", err, updates)
	}
	for _, u := range updates {
		if u.Amount != 80_000 || u.Paid != 40_000 || u.Fee != 13 || u.Preimage == nil {
			t.Errorf("%+v", u)
		}
	}
}

func TestAPaymentIsUnknownUntilTheNodeSaysSo(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(2, false)
	pay := outgoing(t, c, r)
	nothing := func(paidaction.PaymentUpdate) error { return nil }
	if err := c.TrackPayment(t.Context(), r.Hash, nothing); !errors.Is(err, paidaction.ErrPaymentNotFound) {
		t.Fatalf("never sent: %v", err)
	}
	server.Script(r.Hash, &lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT})
	if err := c.Pay(t.Context(), pay, nothing); !errors.Is(err, lightning.ErrStreamEnded) {
		t.Fatalf("a stream without an end: %v", err)
	}
	server.Script(r.Hash, &lnrpc.Payment{
		Status: lnrpc.Payment_FAILED, FailureReason: lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE,
	})
	var updates []paidaction.PaymentUpdate
	if err := c.TrackPayment(t.Context(), r.Hash, collect(&updates)); err != nil {
		t.Fatal(err)
	}
	if u := updates[0]; u.State != paidaction.PaymentFailed || u.Failure != "NO_ROUTE" || u.Preimage != nil {
		t.Fatalf("%+v", u)
	}
	server.Stop()
	if err := c.TrackPayment(t.Context(), r.Hash, nothing); !errors.Is(err, lightning.ErrUnreachable) {
		t.Fatalf("stopped: %v", err)
	}
}

// LND reads some figures as others: no timeout as a minute, and a large limit of blocks as a negative one. Such a payment is refused
// before the node hears of it, and so is one with a negative amount.
func TestWhatLNDWouldReadOtherwiseIsNotSent(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(6, false)
	sound := outgoing(t, c, r)
	server.ScriptPaid(r.Preimage, r.Amount, 0)
	nothing := func(paidaction.PaymentUpdate) error { return nil }
	for name, spoil := range map[string]func(*paidaction.PaymentRequest){
		"no timeout":            func(p *paidaction.PaymentRequest) { p.Timeout = 0 },
		"a part of a second":    func(p *paidaction.PaymentRequest) { p.Timeout += time.Millisecond },
		"no invoice":            func(p *paidaction.PaymentRequest) { p.Bolt11 = "" },
		"a negative amount":     func(p *paidaction.PaymentRequest) { p.Amount = -1 },
		"a negative fee limit":  func(p *paidaction.PaymentRequest) { p.FeeLimit = -1 },
		"a limit beyond 2^31-1": func(p *paidaction.PaymentRequest) { p.CLTVLimit = 1 << 31 },
	} {
		pay := sound
		spoil(&pay)
		if err := c.Pay(t.Context(), pay, nothing); err == nil || errors.Is(err, lightning.ErrUnreachable) || server.Sent(r.Hash) != nil || len(server.Probes()) != 0 {
			t.Errorf("%s: %v, and %+v was sent", name, err, server.Sent(r.Hash))
		}
	}
	if err := c.Pay(t.Context(), sound, nothing); err != nil {
		t.Errorf("none of these: %v", err)
	}
}

func TestDecodeInvoice(t *testing.T) {
	t.Parallel()
	c, _, _ := fixture(t)
	r := request(3, true)
	bolt11 := issued(t, c, r)
	d, err := c.DecodeInvoice(t.Context(), bolt11)
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Hash != r.Hash || d.Amount != r.Amount || d.Description != r.Memo || d.CLTVDelta != 80 || d.Destination != info.PubKey ||
		d.Expires.Sub(d.Created) != time.Hour {
		t.Fatalf("%+v", d)
	}
	last := "q"
	if strings.HasSuffix(bolt11, last) { // the time is in it: one checksum in 32 ends like that
		last = "p"
	}
	if _, err := c.DecodeInvoice(t.Context(), bolt11[:len(bolt11)-1]+last); err == nil {
		t.Fatal("a broken checksum was believed")
	}
}

// A payment of an invoice that is under way counts before anybody has its preimage: a receiver may yet take it.
func TestEachPaymentLeavesOutWhatFailed(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	for i, state := range []lnrpc.Payment_PaymentStatus{lnrpc.Payment_SUCCEEDED, lnrpc.Payment_FAILED, lnrpc.Payment_IN_FLIGHT} {
		r := request(byte(10+i), false)
		pay := outgoing(t, c, r)
		stands := &lnrpc.Payment{Status: state, ValueMsat: 5}
		if state == lnrpc.Payment_SUCCEEDED {
			stands.PaymentPreimage = hex.EncodeToString(r.Preimage[:])
		}
		server.Script(r.Hash, stands)
		_ = c.Pay(t.Context(), pay, func(paidaction.PaymentUpdate) error { return nil }) // a stream without an end is an error
	}
	var seen []paidaction.PaymentState
	err := c.EachPayment(t.Context(), time.Unix(0, 0), func(u paidaction.PaymentUpdate, _ time.Time) error {
		seen = append(seen, u.State)
		return nil
	})
	slices.Sort(seen)
	if err != nil || !slices.Equal(seen, []paidaction.PaymentState{paidaction.PaymentInFlight, paidaction.PaymentSucceeded}) {
		t.Errorf("%v, %v", seen, err)
	}
}

// LND that dies in the middle of a probe may say for good that it is under way. It has no invoice, and nobody its preimage.
func TestEachPaymentLeavesOutProbes(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	hangs, taken := request(20, false), request(21, false)
	server.ScriptProbe(hangs.Hash, &lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT, ValueMsat: 5, Htlcs: []*lnrpc.HTLCAttempt{{Status: lnrpc.HTLCAttempt_IN_FLIGHT}}})
	// Sent to a hash alone by somebody else, and taken: no probe after all.
	server.ScriptProbe(taken.Hash, &lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT, ValueMsat: 5, Htlcs: []*lnrpc.HTLCAttempt{
		{Status: lnrpc.HTLCAttempt_IN_FLIGHT}, {Status: lnrpc.HTLCAttempt_SUCCEEDED, Preimage: taken.Preimage[:]}}})
	var seen []paidaction.Hash
	err := c.EachPayment(t.Context(), time.Unix(0, 0), func(u paidaction.PaymentUpdate, _ time.Time) error {
		seen = append(seen, u.Hash)
		return nil
	})
	if err != nil || !slices.Equal(seen, []paidaction.Hash{taken.Hash}) {
		t.Errorf("%v, %v", seen, err)
	}
}

// A payment is found behind more payments than one answer holds, and each once.
func TestEachPaymentReadsEveryPage(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	const all = 1001
	for n := range uint32(all) {
		var p paidaction.Preimage
		binary.BigEndian.PutUint32(p[:], n+1)
		server.ScriptWasPaid(p, 5, 0)
	}
	seen := map[paidaction.Hash]bool{}
	err := c.EachPayment(t.Context(), time.Unix(0, 0), func(u paidaction.PaymentUpdate, _ time.Time) error {
		if seen[u.Hash] {
			return fmt.Errorf("%s comes twice", u.Hash)
		}
		seen[u.Hash] = true
		return nil
	})
	if err != nil || len(seen) != all {
		t.Errorf("%d of %d payments, %v", len(seen), all, err)
	}
}

// Receivers decide how often a payment is tried: it is found however large the others are.
func TestLargePaymentsHideNothing(t *testing.T) {
	t.Parallel()
	_, server, _ := fixture(t)
	cfg := server.Config()
	cfg.CallTimeout = 2 * time.Minute // a busy machine takes long for that much
	c := server.Dial(cfg)
	for n := range byte(3) {
		server.ScriptWasPaid(paidaction.Preimage{n + 1}, 5, 0)
	}
	server.Bulk(24 << 20)
	seen := map[paidaction.Hash]bool{}
	err := c.EachPayment(t.Context(), time.Unix(0, 0), func(u paidaction.PaymentUpdate, _ time.Time) error {
		seen[u.Hash] = true
		return nil
	})
	if err != nil || len(seen) != 3 {
		t.Errorf("%d of 3 payments, %v", len(seen), err)
	}
}
