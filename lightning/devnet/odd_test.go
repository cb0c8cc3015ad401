package devnet_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightningnetwork/lnd/lnwire"
	"github.com/lightningnetwork/lnd/zpay32"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// odd is what an invoice can contain that LND's invoices do not, some of it at a time.
func odd(r *rand.Rand, node, wallet *btcec.PublicKey) (options []func(*zpay32.Invoice)) {
	sometimes := func(one int, option func(*zpay32.Invoice)) {
		if r.IntN(one) == 0 {
			options = append(options, option)
		}
	}
	bits := lnwire.NewRawFeatureVector()
	for _, bit := range []lnwire.FeatureBit{lnwire.TLVOnionPayloadRequired, lnwire.PaymentAddrRequired} {
		if r.IntN(8) > 0 {
			bits.Set(bit)
		}
	}
	for _, bit := range []lnwire.FeatureBit{0, 8, 9, 15, 17, 24, 31, 48, 55, 149, 262, 1000, 1001} {
		if r.IntN(30) == 0 {
			bits.Set(bit)
		}
	}
	options = append(options, zpay32.Features(lnwire.NewFeatureVector(bits, lnwire.Features)),
		zpay32.CLTVExpiry([]uint64{0, 1, 40, 80, 2012, 2013, math.MaxUint16, 1<<16 + 40, 1<<32 + 40}[r.IntN(9)]),
		zpay32.Expiry([]time.Duration{0, -time.Hour, time.Hour, time.Hour, time.Hour, math.MaxInt64}[r.IntN(6)]))
	if r.IntN(8) > 0 {
		options = append(options, zpay32.PaymentAddr([32]byte{byte(r.IntN(4))}))
	}
	sometimes(4, zpay32.Metadata(make([]byte, r.IntN(600))))
	sometimes(4, zpay32.Destination(wallet))
	for range r.IntN(3) {
		hint := make([]zpay32.HopHint, 1+r.IntN(3))
		for i := range hint {
			hint[i] = zpay32.HopHint{NodeID: node, ChannelID: []uint64{0, 1, 1 << 40, math.MaxUint64}[r.IntN(4)],
				FeeBaseMSat: []uint32{0, 300, math.MaxUint32}[r.IntN(3)], CLTVExpiryDelta: []uint16{0, 40, math.MaxUint16}[r.IntN(3)]}
		}
		options = append(options, zpay32.RouteHint(hint))
	}
	return options
}

// whatIsNotRefusedEnds: LND refuses some invoices without recording that it was asked to pay them, and leaves the
// payments of others in flight for good. Neither can be distinguished from a payment that may still arrive, so the
// rules must recognise such invoices.
func whatIsNotRefusedEnds(t *testing.T, e realSending, network *devnet.Network) {
	raw, err := hex.DecodeString(network.Node(devnet.Receiver).Pubkey())
	if err != nil {
		t.Fatal(err)
	}
	node, err := btcec.ParsePubKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	r, given := rand.New(rand.NewPCG(1, 2)), 0
	for i := 0; i < 400; i++ {
		key, err := btcec.NewPrivateKey()
		if err != nil {
			t.Fatal(err)
		}
		bolt11, err := nobodys(key, paidaction.Preimage{byte(i), byte(i >> 8), 77}.Hash(), odd(r, node, key.PubKey())...)
		if err != nil {
			t.Fatal(err)
		}
		inv, err := e.ours.DecodeInvoice(t.Context(), bolt11)
		if err != nil || (wrap.Settings{}).CheckAlone(inv, time.Now()) != nil || !time.Now().Before(inv.Expires) {
			continue
		}
		given++
		if err := ends(t.Context(), e.ours, bolt11, inv.Hash); err != nil {
			t.Fatalf("%s, read as %+v: %v", bolt11, inv, err)
		}
	}
	if given < 40 {
		t.Errorf("%d of 400 were given to the node", given)
	}
}

// ends pays an invoice that nobody can take.
func ends(ctx context.Context, node paidaction.SendingNode, bolt11 string, h paidaction.Hash) error {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := node.Pay(limited, paidaction.PaymentRequest{Bolt11: bolt11, Timeout: time.Second, FeeLimit: 10_000}, func(paidaction.PaymentUpdate) error { return nil })
	now, trackErr := paidaction.PresentPayment(ctx, node, h)
	if trackErr != nil || now.State != paidaction.PaymentFailed {
		return fmt.Errorf("to pay it: %v; the payment is %s (%v)", err, now.State, trackErr)
	}
	return nil
}
