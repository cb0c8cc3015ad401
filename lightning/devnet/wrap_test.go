package devnet_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/chaincfg/chainhash"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnwire"
	"github.com/lightningnetwork/lnd/zpay32"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const sat paidaction.Msat = 1000

// invoiceOf is an invoice of the receiver's own wallet, with its preimage.
func invoiceOf(t *testing.T, network *devnet.Network, amount paidaction.Msat) (paidaction.Preimage, string) {
	t.Helper()
	var p paidaction.Preimage
	if _, err := rand.Read(p[:]); err != nil {
		t.Fatal(err)
	}
	bolt11, err := clientOf(t, network.Node(devnet.Receiver)).OpenInvoice(t.Context(), paidaction.InvoiceRequest{
		Hash: p.Hash(), Preimage: p, Amount: amount, Memo: "inner", Expiry: time.Hour, CLTVDelta: 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, bolt11
}

// way asks for a route as it is asked for a zap.
func way(bolt11 string) paidaction.RouteRequest {
	return limited(bolt11, 10*sat, 920)
}

// limited asks for a route that costs and locks no more than that.
func limited(bolt11 string, fee paidaction.Msat, blocks uint32) paidaction.RouteRequest {
	r := paidaction.RouteRequest{Bolt11: bolt11, FeeLimit: fee, CLTVLimit: blocks}
	_, _ = rand.Read(r.Probe[:])
	return r
}

// sends: what a real LND answers before anything is sent.
func sends(t *testing.T, c *lightning.Client, network *devnet.Network) {
	ctx := t.Context()
	if key, err := c.PublicKey(ctx); err != nil || key != network.Node(devnet.Holdfast).Pubkey() {
		t.Errorf("public key %s, %v", key, err)
	}
	sendable, err := c.Sendable(ctx)
	if err != nil || sendable < 10_000_000*sat || sendable > 64_000_000*sat {
		t.Errorf("sendable %d, %v", sendable, err)
	}
	before := time.Now()
	if now, err := c.Time(ctx); err != nil || now.After(time.Now()) || now.Before(before.Add(-time.Second)) {
		t.Errorf("at %v the node's clock is said to be %v: %v", before, now, err)
	}

	p, inner := invoiceOf(t, network, 900*sat)
	d, err := c.DecodeInvoice(ctx, inner)
	if err != nil {
		t.Fatal(err)
	}
	if d.Incomplete || d.Hash != p.Hash() || d.Amount != 900*sat || d.Destination != network.Node(devnet.Receiver).Pubkey() || d.CLTVDelta != 40 || len(d.Features) == 0 {
		t.Errorf("%+v", d)
	}
	for _, f := range d.Features {
		if !f.Known || f.Required != (f.Bit%2 == 0) {
			t.Errorf("%+v", f)
		}
	}
	chain, err := c.Chain(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The payer's node lies between us and the receiver: it takes 250 msat and a thousandth, and 80 blocks. The rest is
	// the receiver's final CLTV with LND's padding.
	route, err := c.EstimateRoute(ctx, way(inner))
	if err != nil || route.Fee != 250+900 || route.Height != chain.Height+80+40+3 {
		t.Errorf("at %d: %+v, %v", chain.Height, route, err)
	}
	// A dearer or longer route is not tried. Every route that is tried comes back with the receiver's refusal, and so
	// is a route.
	for _, beyond := range []paidaction.RouteRequest{
		limited(inner, 250+899, 920), limited(inner, 10*sat, 80+40+2), limited(inner, 10*sat, 40),
	} {
		if route, err := c.EstimateRoute(ctx, beyond); !errors.Is(err, paidaction.ErrNoRoute) {
			t.Errorf("within %d msat and %d blocks: %+v, %v", beyond.FeeLimit, beyond.CLTVLimit, route, err)
		}
	}
	if again, err := c.EstimateRoute(ctx, limited(inner, 250+900, 80+40+3)); err != nil || again != route {
		t.Errorf("within its own limits: %+v, %v", again, err)
	}
	// The payer's node is our neighbour, and the provider of a wallet that nobody else knows: the way to it is free.
	route, err = c.EstimateRoute(ctx, way(behind(t, network.Node(devnet.Payer), lnwire.TLVOnionPayloadRequired, lnwire.PaymentAddrRequired)))
	if err != nil || route.Fee != 300 || route.Height != chain.Height+144+3+40 {
		t.Errorf("at %d, behind a provider: %+v, %v", chain.Height, route, err)
	}
	// To the same wallet LND finds no route if its invoice lacks a feature. The invoice alone tells.
	for _, bits := range [][]lnwire.FeatureBit{
		{lnwire.TLVOnionPayloadRequired}, {lnwire.PaymentAddrRequired}, {lnwire.TLVOnionPayloadRequired, lnwire.MPPOptional},
		{lnwire.TLVOnionPayloadRequired, lnwire.PaymentAddrRequired, lnwire.AnchorsZeroFeeHtlcTxOptional},
	} {
		bolt11 := behind(t, network.Node(devnet.Payer), bits...)
		if d, err := c.DecodeInvoice(ctx, bolt11); err != nil || !d.Incomplete {
			t.Errorf("with the features %v: %+v, %v", bits, d, err)
		}
		if route, err := c.EstimateRoute(ctx, way(bolt11)); err == nil {
			t.Errorf("with the features %v: %+v", bits, route)
		}
	}
	_, tooMuch := invoiceOf(t, network, 40_000_000*sat)
	if route, err := c.EstimateRoute(ctx, way(tooMuch)); !errors.Is(err, paidaction.ErrNoRoute) {
		t.Errorf("more than the channels hold: %+v, %v", route, err)
	}
}

// behind is an invoice of a wallet behind a node, which takes 300 msat and 144 blocks for the last hop.
func behind(t *testing.T, provider *devnet.Node, bits ...lnwire.FeatureBit) string {
	t.Helper()
	raw, err := hex.DecodeString(provider.Pubkey())
	if err != nil {
		t.Fatal(err)
	}
	key, err := btcec.ParsePubKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	wallet, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	inv, err := zpay32.NewInvoice(&chaincfg.SimNetParams, paidaction.Preimage{7}.Hash(), time.Now(), zpay32.Amount(900_000), zpay32.Description("behind a provider"),
		zpay32.CLTVExpiry(40), zpay32.PaymentAddr([32]byte{7}), zpay32.RouteHint([]zpay32.HopHint{{NodeID: key, ChannelID: 1 << 40, FeeBaseMSat: 300, CLTVExpiryDelta: 144}}),
		zpay32.Features(lnwire.NewFeatureVector(lnwire.NewRawFeatureVector(bits...), lnwire.Features)))
	if err != nil {
		t.Fatal(err)
	}
	bolt11, err := inv.Encode(zpay32.MessageSigner{SignCompact: func(message []byte) ([]byte, error) {
		return ecdsa.SignCompact(wallet, chainhash.HashB(message), true), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return bolt11
}

// onlyProbesLackAnInvoice: this distinguishes a probe from a payment of ours.
func onlyProbesLackAnInvoice(t *testing.T, network *devnet.Network, inner string, hash paidaction.Hash) {
	t.Helper()
	all, err := lnrpc.NewLightningClient(network.Node(devnet.Holdfast).Conn()).ListPayments(t.Context(), &lnrpc.ListPaymentsRequest{IncludeIncomplete: true})
	if err != nil {
		t.Fatal(err)
	}
	probes := 0
	for _, p := range all.Payments {
		switch {
		case p.PaymentHash == hash.String():
			if p.PaymentRequest != inner {
				t.Errorf("our payment of %s shows the invoice %q", inner, p.PaymentRequest)
			}
		case p.PaymentRequest != "" || p.Status != lnrpc.Payment_FAILED:
			t.Errorf("a probe shows the invoice %q, and is %s", p.PaymentRequest, p.Status)
		default:
			probes++
		}
	}
	if probes == 0 || len(all.Payments) == probes {
		t.Errorf("%d probes among %d payments", probes, len(all.Payments))
	}
}

// wrapped: one LND holds the outer invoice and pays the inner one with the same hash (spec 03 §3.3), and the inner's
// preimage takes the outer.
func wrapped(t *testing.T, c *lightning.Client, network *devnet.Network) {
	ctx := t.Context()
	p, inner := invoiceOf(t, network, 900*sat)
	f := wrap.Facts{Requested: 900*sat + 999, Outer: 1_000 * sat, Now: time.Now()}
	var err error
	if f.Inner, err = c.DecodeInvoice(ctx, inner); err != nil {
		t.Fatal(err)
	}
	if err := (wrap.Settings{}).CheckInner(f); err != nil {
		t.Fatal(err)
	}
	if f.Chain, err = c.Chain(ctx); err != nil {
		t.Fatal(err)
	}
	if f.Route, err = c.EstimateRoute(ctx, way(inner)); err != nil {
		t.Fatal(err)
	}
	terms, err := wrap.Settings{}.Wrap(f)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := c.OpenInvoice(ctx, paidaction.InvoiceRequest{
		Hold: true, Hash: f.Inner.Hash, Amount: f.Outer, Memo: "outer", Expiry: terms.Expires.Sub(f.Now), CLTVDelta: terms.CLTVDelta,
	})
	if err != nil {
		t.Fatal(err)
	}
	paid := make(chan devnet.Payment, 1)
	go func() {
		payment, _ := network.Node(devnet.Payer).Pay(ctx, outer)
		paid <- payment
	}()
	awaitState(t, c, f.Inner.Hash, paidaction.InvoiceAccepted)

	if f.Held, err = c.LookupInvoice(ctx, f.Inner.Hash); err != nil {
		t.Fatal(err)
	}
	f.Now, f.Budget, f.OuterCLTV = time.Now(), terms.Budget, terms.CLTVDelta
	request, err := wrap.Settings{}.Forward(inner, f)
	if err != nil {
		t.Fatal(err)
	}
	var last paidaction.PaymentUpdate
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Pay(limited, request, func(u paidaction.PaymentUpdate) error { last = u; return nil }); err != nil {
		t.Fatal(err)
	}
	if last.State != paidaction.PaymentSucceeded || last.Preimage == nil || *last.Preimage != p || last.Amount != 900*sat || last.Fee != f.Route.Fee {
		t.Fatalf("%+v", last)
	}
	onlyProbesLackAnInvoice(t, network, inner, f.Inner.Hash)
	// The two have only the hash in common: paying the inner has not touched the outer.
	if held, err := c.LookupInvoice(ctx, f.Inner.Hash); err != nil || held.State != paidaction.InvoiceAccepted || held.Bolt11 != outer {
		t.Fatalf("%+v, %v", held, err)
	}
	if err := c.SettleInvoice(ctx, *last.Preimage); err != nil {
		t.Fatal(err)
	}
	awaitState(t, c, f.Inner.Hash, paidaction.InvoiceSettled)
	if payment := <-paid; !payment.Settled || payment.AmountMsat != int64(f.Outer) {
		t.Errorf("the payer: %+v", payment)
	}
	if err := c.Pay(ctx, request, func(paidaction.PaymentUpdate) error { return nil }); !errors.Is(err, paidaction.ErrPaymentExists) {
		t.Errorf("sent again: %v", err)
	}
}
