package lightning_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcutil/bech32"
	"gopkg.in/macaroon.v2"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestSendableAndPublicKey(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	server.SetLocalBalance(1_234_567)
	if m, err := c.Sendable(t.Context()); err != nil || m != 1_234_567 {
		t.Errorf("%d, %v", m, err)
	}
	d, err := c.DecodeInvoice(t.Context(), outgoing(t, c, request(1, false)).Bolt11)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := c.PublicKey(t.Context()); err != nil || key != d.Destination {
		t.Errorf("%s, not %s: %v", key, d.Destination, err)
	}
}

// The node's clock is never behind what Time says, whatever ours shows.
func TestTimeIsTheNodesOwn(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	for _, behind := range []time.Duration{-time.Hour, 0, 500 * time.Millisecond, 5 * time.Second, 5 * time.Minute} {
		server.SetClock(func() time.Time { return time.Now().Add(-behind) })
		before := time.Now()
		got, err := c.Time(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if node := time.Now().Add(-behind); got.After(node) {
			t.Errorf("our clock ahead by %v: %v, but the node has %v", behind, got, node)
		}
		if early := before.Sub(got); early > max(0, 12*behind) {
			t.Errorf("our clock ahead by %v: the answer is %v old", behind, early)
		}
	}
	server.SetClock(func() time.Time { return time.Now().Add(-2 * time.Hour) })
	if got, err := c.Time(t.Context()); err == nil {
		t.Errorf("two hours behind: %v", got)
	}
	server.SetClock(time.Now)
	server.Deny("/lnrpc.Lightning/CheckMacaroonPermissions")
	if got, err := c.Time(t.Context()); !errors.Is(err, lightning.ErrNotPermitted) {
		t.Errorf("not permitted: %v, %v", got, err)
	}
}

// That the operator's own macaroon has expired says nothing about the moment that was asked for.
func TestTimeWithAnExpiredMacaroon(t *testing.T) {
	t.Parallel()
	_, server, _ := fixture(t)
	cfg := server.Config()
	raw, err := hex.DecodeString(cfg.MacaroonHex)
	if err != nil {
		t.Fatal(err)
	}
	var mac macaroon.Macaroon
	if err := mac.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	if err := mac.AddFirstPartyCaveat([]byte("time-before 2009-01-03T18:15:05Z")); err != nil {
		t.Fatal(err)
	}
	if raw, err = mac.MarshalBinary(); err != nil {
		t.Fatal(err)
	}
	cfg.MacaroonHex = hex.EncodeToString(raw)
	if got, err := server.Dial(cfg).Time(t.Context()); !errors.Is(err, lightning.ErrMacaroonExpired) {
		t.Errorf("%v, %v", got, err)
	}
}

// spec 05.16d: who was stopped before sending, and goes on too late, sends nothing.
func TestPayAfterItsDeadlineSendsNothing(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(1, false)
	pay := outgoing(t, c, r)
	server.Script(r.Hash, &lnrpc.Payment{Status: lnrpc.Payment_SUCCEEDED})
	never := func(paidaction.PaymentUpdate) error {
		t.Error("an update")
		return nil
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Pay(over, pay, never); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is over: %v", err)
	}
	// The request left in time, and came late.
	limited, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	server.SetClock(func() time.Time { return time.Now().Add(time.Hour) })
	if err := c.Pay(limited, pay, never); !errors.Is(err, lightning.ErrMacaroonExpired) || !errors.Is(err, paidaction.ErrPaymentTooLate) {
		t.Errorf("after the deadline: %v", err)
	}
	if server.Sent(r.Hash) != nil {
		t.Fatal("it was sent")
	}
	server.SetClock(func() time.Time { return time.Now().Add(time.Minute - time.Second) })
	if err := c.Pay(limited, pay, func(paidaction.PaymentUpdate) error { return nil }); err != nil || server.Sent(r.Hash) == nil {
		t.Errorf("before the deadline: %v", err)
	}
}

func TestOnePartSettledAndOneHung(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(1, false)
	pay := outgoing(t, c, r)
	server.Script(r.Hash, &lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT, FeeMsat: 3, Htlcs: []*lnrpc.HTLCAttempt{
		{Status: lnrpc.HTLCAttempt_IN_FLIGHT, Preimage: make([]byte, 32)},
		{Status: lnrpc.HTLCAttempt_SUCCEEDED, Preimage: r.Preimage[:]},
	}})
	var updates []paidaction.PaymentUpdate
	if err := c.Pay(t.Context(), pay, collect(&updates)); !errors.Is(err, lightning.ErrStreamEnded) {
		t.Fatal(err)
	}
	if err := c.TrackPayment(t.Context(), r.Hash, collect(&updates)); !errors.Is(err, lightning.ErrStreamEnded) {
		t.Fatal(err)
	}
	if len(updates) != 2 {
		t.Fatalf("%+v", updates)
	}
	for _, u := range updates {
		if u.State != paidaction.PaymentInFlight || u.Preimage == nil || *u.Preimage != r.Preimage {
			t.Errorf("%+v", u)
		}
	}
}

func TestDecodeInvoiceFeatures(t *testing.T) {
	t.Parallel()
	c, _, _ := fixture(t)
	d, err := c.DecodeInvoice(t.Context(), outgoing(t, c, request(1, false)).Bolt11)
	if err != nil {
		t.Fatal(err)
	}
	want := []paidaction.Feature{{Bit: 8, Required: true, Known: true}, {Bit: 14, Required: true, Known: true}, {Bit: 17, Known: true}}
	if !slices.Equal(d.Features, want) {
		t.Errorf("%+v", d.Features)
	}
	d, err = c.DecodeInvoice(t.Context(), withField(t, outgoing(t, c, request(2, false)).Bolt11, fieldFeatures, oneBit(1000)))
	if err != nil || !slices.Equal(d.Features, []paidaction.Feature{{Bit: 1000, Required: true}}) {
		t.Errorf("a bit that LND does not know: %+v, %v", d.Features, err)
	}
}

// spec 05.9: of two fields that say different things, ours is the one that the node pays by.
func TestDuplicateFieldsAreReadByTheNodeAlone(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(1, false)
	pay := outgoing(t, c, r)
	first := paidaction.Hash{7}
	words, err := bech32.ConvertBits(first[:], 8, 5, true)
	if err != nil {
		t.Fatal(err)
	}
	pay.Bolt11 = withField(t, pay.Bolt11, fieldHash, words)
	d, err := c.DecodeInvoice(t.Context(), pay.Bolt11)
	if err != nil {
		t.Fatal(err)
	}
	server.Script(first, &lnrpc.Payment{Status: lnrpc.Payment_FAILED})
	server.Script(r.Hash, &lnrpc.Payment{Status: lnrpc.Payment_FAILED})
	if err := c.Pay(t.Context(), pay, func(paidaction.PaymentUpdate) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if server.Sent(d.Hash) == nil {
		t.Errorf("the hash is read as %s, and another one is paid", d.Hash)
	}
}

func TestDecodeInvoiceRefuses(t *testing.T) {
	t.Parallel()
	c, _, _ := fixture(t)
	bolt11 := outgoing(t, c, request(1, false)).Bolt11
	for name, s := range map[string]string{
		"another network": withPrefix(t, bolt11, "lnbc1m"),
		// 2^32 + 40 in words of five bits.
		"a final CLTV that wraps around": withField(t, bolt11, fieldCLTV, []byte{4, 0, 0, 0, 0, 1, 8}),
		"no invoice":                     "lnbcrt1",
	} {
		if d, err := c.DecodeInvoice(t.Context(), s); !errors.Is(err, paidaction.ErrBolt11) {
			t.Errorf("%s: %+v, error %v", name, d, err)
		}
	}
}

// A node that does not answer has not called the invoice unreadable.
func TestDecodeInvoiceUnanswered(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	bolt11 := outgoing(t, c, request(1, false)).Bolt11
	server.SetStarting(true)
	for _, then := range []func(){server.Stop, func() {}} {
		if d, err := c.DecodeInvoice(t.Context(), bolt11); !errors.Is(err, lightning.ErrUnreachable) || errors.Is(err, paidaction.ErrBolt11) {
			t.Errorf("%+v, error %v", d, err)
		}
		then()
	}
}

// The types of fields in a bolt11 (BOLT 11).
const (
	fieldHash     = 1  // p
	fieldCLTV     = 24 // c
	fieldFeatures = 5  // 9
)

// withField is a bolt11 with one more field before all others, signed by somebody.
func withField(t *testing.T, bolt11 string, field byte, words []byte) string {
	t.Helper()
	hrp, data, err := bech32.DecodeNoLimit(bolt11)
	if err != nil {
		t.Fatal(err)
	}
	const timestamp = 7
	return signed(t, hrp, slices.Concat(data[:timestamp], []byte{field, byte(len(words) >> 5), byte(len(words) & 31)}, words, data[timestamp:]))
}

// withPrefix is a bolt11 for another network or amount, signed by somebody.
func withPrefix(t *testing.T, bolt11, hrp string) string {
	t.Helper()
	_, data, err := bech32.DecodeNoLimit(bolt11)
	if err != nil {
		t.Fatal(err)
	}
	return signed(t, hrp, data)
}

func signed(t *testing.T, hrp string, data []byte) string {
	t.Helper()
	const signature = 104
	data = data[:len(data)-signature]
	packed, err := bech32.ConvertBits(data, 5, 8, true)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(slices.Concat([]byte(hrp), packed))
	key, _ := btcec.PrivKeyFromBytes(bytes.Repeat([]byte{1}, 32))
	compact := ecdsa.SignCompact(key, hash[:], true)
	// The compact form begins with the recovery id; in a bolt11 it comes last.
	words, err := bech32.ConvertBits(append(compact[1:], compact[0]-27-4), 8, 5, true)
	if err != nil {
		t.Fatal(err)
	}
	text, err := bech32.Encode(hrp, append(data, words...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// oneBit is a feature vector with one bit.
func oneBit(bit int) []byte {
	words := make([]byte, bit/5+1)
	words[0] = 1 << (bit % 5)
	return words
}
