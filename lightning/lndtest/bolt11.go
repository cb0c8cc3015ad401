package lndtest

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/chaincfg/chainhash"
	lru "github.com/hashicorp/golang-lru/v2"

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

// The curve's arithmetic would be a third of what the node of a benchmark does, on the service's processors. So what
// was read once, and who a node is, is remembered.
var (
	read = func() *lru.Cache[string, *zpay32.Invoice] {
		c, err := lru.New[string, *zpay32.Invoice](10_000)
		if err != nil {
			panic(err) // only a size that is not above zero is refused
		}
		return c
	}()
	publicKeys sync.Map // by name
)

// publicKey is the identity of the node with this name.
func publicKey(name string) string {
	key, ok := publicKeys.Load(name)
	if !ok {
		key, _ = publicKeys.LoadOrStore(name, hex.EncodeToString(nodeKey(name).PubKey().SerializeCompressed()))
	}
	return key.(string)
}

// decode reads a bolt11. The invoice is shared: nobody changes it.
func decode(bolt11 string) (*zpay32.Invoice, error) {
	if known, ok := read.Get(bolt11); ok {
		return known, nil
	}
	decoded, err := zpay32.Decode(bolt11, network)
	if err == nil {
		read.Add(bolt11, decoded)
	}
	return decoded, err
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
