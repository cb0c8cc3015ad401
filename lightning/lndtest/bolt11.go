package lndtest

import (
	"crypto/sha256"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/chaincfg/chainhash"

	"github.com/lightningnetwork/lnd/lnwire"
	"github.com/lightningnetwork/lnd/zpay32"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

var network = &chaincfg.RegressionNetParams

// nodeKey is the identity key of the node with this name, always the same.
func nodeKey(name string) *btcec.PrivateKey {
	seed := sha256.Sum256([]byte("lndtest " + name))
	key, _ := btcec.PrivKeyFromBytes(seed[:])
	return key
}

// paymentAddr derives what LND draws at random, so that the same invoice has the same bolt11 in every run.
func paymentAddr(h paidaction.Hash) [32]byte { return sha256.Sum256(h[:]) }

// encoder writes real bolt11 for regtest, signed with the node's key.
func encoder(name string) simnode.Encoder {
	key := nodeKey(name)
	return func(r paidaction.InvoiceRequest, created time.Time) (string, error) {
		description := zpay32.Description(r.Memo)
		if r.DescriptionHash != ([32]byte{}) {
			description = zpay32.DescriptionHash(r.DescriptionHash)
		}
		invoice, err := zpay32.NewInvoice(network, r.Hash, created,
			zpay32.Amount(lnwire.MilliSatoshi(r.Amount)),
			description,
			zpay32.Expiry(r.Expiry),
			zpay32.CLTVExpiry(uint64(r.CLTVDelta)),
			zpay32.PaymentAddr(paymentAddr(r.Hash)),
			zpay32.Features(lnwire.NewFeatureVector(lnwire.NewRawFeatureVector(
				lnwire.TLVOnionPayloadRequired, lnwire.PaymentAddrRequired, lnwire.MPPOptional,
			), lnwire.Features)),
		)
		if err != nil {
			return "", err
		}
		return invoice.Encode(zpay32.MessageSigner{SignCompact: func(message []byte) ([]byte, error) {
			return ecdsa.SignCompact(key, chainhash.HashB(message), true), nil
		}})
	}
}
