package devnet_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/chaincfg/chainhash"

	"github.com/lightningnetwork/lnd/lnwire"
	"github.com/lightningnetwork/lnd/zpay32"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode/nodetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// realSending runs the suite for sending nodes on a real one of ours.
type realSending struct {
	network        *devnet.Network
	ours, receiver *lightning.Client
}

func newRealSending(t *testing.T, network *devnet.Network) realSending {
	return realSending{network, clientOf(t, network.Node(devnet.Holdfast2)), clientOf(t, network.Node(devnet.Receiver))}
}

func (e realSending) Sender() paidaction.SendingNode { return e.ours }
func (e realSending) Receiver() nodetest.Receiver    { return e.receiver }
func (e realSending) Advance(time.Duration)          {}
func (e realSending) Restart(ctx context.Context) error {
	return restart(ctx, e.network, devnet.Holdfast2, e.ours)
}

// Unreachable is an invoice with a key that no node of the network has.
func (e realSending) Unreachable(context.Context) (string, error) {
	key, err := btcec.NewPrivateKey()
	if err != nil {
		return "", err
	}
	var p paidaction.Preimage
	if _, err := rand.Read(p[:]); err != nil {
		return "", err
	}
	return nobodys(key, p.Hash(), zpay32.PaymentAddr(p.Hash()), zpay32.Features(lnwire.NewFeatureVector(lnwire.NewRawFeatureVector(
		lnwire.TLVOnionPayloadRequired, lnwire.PaymentAddrRequired, lnwire.MPPOptional), lnwire.Features)))
}

// nobodys is an invoice signed with this key.
func nobodys(key *btcec.PrivateKey, h paidaction.Hash, options ...func(*zpay32.Invoice)) (string, error) {
	invoice, err := zpay32.NewInvoice(&chaincfg.SimNetParams, h, time.Now(),
		append(options, zpay32.Amount(21_000), zpay32.Description("nobody"), zpay32.CLTVExpiry(80))...)
	if err != nil {
		return "", err
	}
	return invoice.Encode(zpay32.MessageSigner{SignCompact: func(message []byte) ([]byte, error) {
		return ecdsa.SignCompact(key, chainhash.HashB(message), true), nil
	}})
}

// refusedUnnoted: LND does not pay an invoice without a payment secret, and cannot say afterwards that it was asked to.
// So such an invoice must be recognised by its bolt11 alone.
func refusedUnnoted(t *testing.T, e realSending) {
	key, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	bolt11, err := nobodys(key, paidaction.Hash{21})
	if err != nil {
		t.Fatal(err)
	}
	if inv, err := e.ours.DecodeInvoice(t.Context(), bolt11); err != nil || !inv.Secretless {
		t.Errorf("an invoice without a payment secret is read as %+v, %v", inv, err)
	}
	err = e.ours.Pay(t.Context(), paidaction.PaymentRequest{Bolt11: bolt11, Timeout: time.Second}, func(paidaction.PaymentUpdate) error { return nil })
	if err == nil {
		t.Error("it was paid")
	}
	if now, err := paidaction.PresentPayment(t.Context(), e.ours, paidaction.Hash{21}); !errors.Is(err, paidaction.ErrPaymentNotFound) {
		t.Errorf("the payment that was refused: %+v, %v", now, err)
	}
}
