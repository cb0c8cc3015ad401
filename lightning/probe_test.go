package lightning_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
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
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func way(bolt11 string) paidaction.RouteRequest {
	r := paidaction.RouteRequest{Bolt11: bolt11, FeeLimit: 5_000, CLTVLimit: 500}
	_, _ = rand.Read(r.Probe[:])
	return r
}

// A probe is a payment with a hash of its own and the limits that were asked for. Only the receiver's own refusal is a way; what has not come back may still.
func TestEstimateRoute(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(1, false)
	bolt11 := outgoing(t, c, r).Bolt11
	if _, err := c.EstimateRoute(t.Context(), way(bolt11)); !errors.Is(err, paidaction.ErrNoRoute) || !strings.Contains(err.Error(), "NO_ROUTE") {
		t.Errorf("no route: %v", err)
	}
	failed := func(reason lnrpc.PaymentFailureReason) *lnrpc.Payment {
		return &lnrpc.Payment{Status: lnrpc.Payment_FAILED, FailureReason: reason}
	}
	early, tooLong, undone := lndtest.Arrived(5, 900), lndtest.Arrived(5, 900), lndtest.Arrived(5, 900)
	early.Htlcs[0].Failure.FailureSourceIndex = 1
	tooLong.Htlcs[0].Route.TotalFeesMsat = -1
	undone.FailureReason = lnrpc.PaymentFailureReason_FAILURE_REASON_ERROR
	for name, stands := range map[string]*lnrpc.Payment{
		"another reason":      failed(lnrpc.PaymentFailureReason_FAILURE_REASON_INSUFFICIENT_BALANCE),
		"figures without one": undone,
		"nothing was sent":    failed(lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS),
		"refused on its way":  early,
		"a negative fee":      tooLong,
	} {
		server.ScriptRoute(r.Hash, stands)
		if route, err := c.EstimateRoute(t.Context(), way(bolt11)); !errors.Is(err, paidaction.ErrNoRoute) {
			t.Errorf("%s: %+v, %v", name, route, err)
		}
	}
	// As long as anything of a payment is under way, LND calls it IN_FLIGHT, whatever its failure reason.
	server.ScriptRoute(r.Hash, failed(lnrpc.PaymentFailureReason_FAILURE_REASON_TIMEOUT))
	if _, err := c.EstimateRoute(t.Context(), way(bolt11)); errors.Is(err, paidaction.ErrProbeOpen) || !errors.Is(err, paidaction.ErrNoRoute) {
		t.Errorf("no route was found in time, and nothing is out any more: %v", err)
	}
	server.ScriptRoute(r.Hash, lndtest.Arrived(1_234, 940_123))
	if route, err := c.EstimateRoute(t.Context(), way(bolt11)); err != nil || route != (paidaction.Route{Fee: 1_234, Height: 940_123}) {
		t.Errorf("%+v, %v", route, err)
	}
	// Attempts before the one that arrived were refused on their ways: their routes are not the one that was found.
	again := lndtest.Arrived(1_234, 940_123)
	again.Htlcs = append(lndtest.Arrived(9, 900).Htlcs, again.Htlcs...)
	server.ScriptRoute(r.Hash, again)
	if route, err := c.EstimateRoute(t.Context(), way(bolt11)); err != nil || route != (paidaction.Route{Fee: 1_234, Height: 940_123}) {
		t.Errorf("at the second attempt: %+v, %v", route, err)
	}
	all := server.Probes()
	sent := all[len(all)-1]
	if sent.FeeLimitMsat != 5_000 || sent.CltvLimit != 500 || sent.MaxParts != 1 || sent.AmtMsat != int64(r.Amount) || sent.FinalCltvDelta != int32(r.CLTVDelta) ||
		hex.EncodeToString(sent.PaymentHash) == r.Hash.String() || slices.Equal(sent.PaymentHash, all[0].PaymentHash) || len(sent.DestFeatures) != 3 {
		t.Errorf("%+v", sent)
	}

	server.ScriptRoute(r.Hash, &lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT})
	waiting, giveUp := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := c.EstimateRoute(waiting, way(bolt11))
		answered <- err
	}()
	if err := eventually(t, func() error {
		if len(server.Probes()) == len(all) {
			return lightning.ErrUnreachable // not sent yet
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	giveUp()
	if err := <-answered; !errors.Is(err, paidaction.ErrProbeOpen) {
		t.Errorf("it is not waited for any more: %v", err)
	}
	server.Stop()
	if _, err := c.EstimateRoute(t.Context(), way(bolt11)); !errors.Is(err, lightning.ErrUnreachable) || errors.Is(err, paidaction.ErrNoRoute) {
		t.Errorf("stopped: %v", err)
	}
}

func key(name string) *btcec.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	k, _ := btcec.PrivKeyFromBytes(seed[:])
	return k
}

// hop is the end of a hint, at a node of this name: it takes so many msat, and has the money locked for so many blocks.
func hop(name string, fee uint32, blocks uint16) zpay32.HopHint {
	return zpay32.HopHint{NodeID: key(name).PubKey(), ChannelID: 1, FeeBaseMSat: fee, CLTVExpiryDelta: blocks}
}

// hidden is an invoice over 10,000 msat and 40 blocks of a wallet that nobody knows.
func hidden(t *testing.T, r paidaction.InvoiceRequest, hints ...[]zpay32.HopHint) string {
	t.Helper()
	options := []func(*zpay32.Invoice){zpay32.Amount(10_000), zpay32.Description(""), zpay32.CLTVExpiry(40), zpay32.PaymentAddr([32]byte{9}),
		zpay32.Features(lnwire.NewFeatureVector(lnwire.NewRawFeatureVector(lnwire.TLVOnionPayloadRequired, lnwire.PaymentAddrRequired), lnwire.Features))}
	for _, h := range hints {
		options = append(options, zpay32.RouteHint(h))
	}
	inv, err := zpay32.NewInvoice(&chaincfg.RegressionNetParams, r.Hash, time.Now(), options...)
	if err != nil {
		t.Fatal(err)
	}
	bolt11, err := inv.Encode(zpay32.MessageSigner{SignCompact: func(message []byte) ([]byte, error) {
		return ecdsa.SignCompact(key("wallet"), chainhash.HashB(message), true), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return bolt11
}

// A probe that the node has begun may go on without us: whoever counts what hangs has to count it. One that reaches the node too late
// was never sent.
func TestWhatBecomesOfAProbe(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(1, false)
	bolt11 := issued(t, c, r)
	server.SetClock(func() time.Time { return time.Now().Add(time.Hour) })
	if route, err := c.EstimateRoute(t.Context(), way(bolt11)); !errors.Is(err, lightning.ErrMacaroonExpired) || errors.Is(err, paidaction.ErrProbeOpen) || len(server.Probes()) != 0 {
		t.Errorf("too late: %+v, %v, %d probes", route, err, len(server.Probes()))
	}
	server.SetClock(time.Now)
	server.ScriptRoute(r.Hash, &lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT})
	server.BreakOff()
	if route, err := c.EstimateRoute(t.Context(), way(bolt11)); !errors.Is(err, paidaction.ErrProbeOpen) || len(server.Probes()) != 1 {
		t.Errorf("broken off: %+v, %v, %d probes", route, err, len(server.Probes()))
	}
}

// A node that is slow to say what the invoice is, or whom it knows, has sent nothing when its time is over: that is no probe which hangs.
func TestWhatIsTooSlowBeforeAProbeIsNone(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	bolt11 := hidden(t, request(1, false), []zpay32.HopHint{hop("provider", 0, 20)})
	for _, method := range []string{"/lnrpc.Lightning/DecodePayReq", "/lnrpc.Lightning/GetNodeInfo"} {
		server.Hang(method)
		ctx, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
		route, err := c.EstimateRoute(ctx, way(bolt11))
		end()
		if !errors.Is(err, paidaction.ErrNotProbed) || errors.Is(err, paidaction.ErrProbeOpen) || len(server.Probes()) != 0 {
			t.Errorf("%s: %+v, %v, %d probes", method, route, err, len(server.Probes()))
		}
	}
}

// A probe that is too slow is listened to: that it has come back is told, and nothing if its node stops before that.
func TestASlowProbeIsHeardOfWhenItComesBack(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(1, false)
	bolt11 := issued(t, c, r)
	server.ScriptRoute(r.Hash, &lnrpc.Payment{Status: lnrpc.Payment_IN_FLIGHT})
	slow := func() *paidaction.OpenProbe {
		for patience := 100 * time.Millisecond; ; patience *= 2 { // a busy machine may not even send it in time
			ctx, end := context.WithTimeout(t.Context(), patience)
			_, err := c.EstimateRoute(ctx, way(bolt11))
			end()
			var open *paidaction.OpenProbe
			if errors.As(err, &open) {
				return open
			}
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
	}
	open := slow()
	if len(open.Back) != 0 {
		t.Error("it is back at once")
	}
	server.ComeBack()
	if !<-open.Back || <-open.Back {
		t.Error("it is not back, or twice")
	}
	open = slow()
	server.Stop()
	if <-open.Back {
		t.Error("its node has stopped, and it is back")
	}
}

// Nobody knows which of several providers the payment will come through. So what one takes and how long it locks the money are told at
// their worst, and a provider to which there is no way does not count.
func TestTheWayBehindSeveralProvidersIsTheWorstOfTheirs(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	none := &lnrpc.Payment{Status: lnrpc.Payment_FAILED, FailureReason: lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE}
	bolt11 := hidden(t, request(1, false), []zpay32.HopHint{hop("one", 0, 20)}, []zpay32.HopHint{hop("two", 0, 20)})
	for name, w := range map[string]struct {
		one, two *lnrpc.Payment
		route    paidaction.Route
	}{
		"the first is dearer and locks longer": {lndtest.Arrived(200, 2_000), lndtest.Arrived(100, 1_000), paidaction.Route{Fee: 200, Height: 2_040}},
		"the first is dearer":                  {lndtest.Arrived(200, 1_000), lndtest.Arrived(100, 2_000), paidaction.Route{Fee: 200, Height: 2_040}},
		"no way to the first":                  {none, lndtest.Arrived(100, 1_000), paidaction.Route{Fee: 100, Height: 1_040}},
		"no way to the second":                 {lndtest.Arrived(100, 1_000), none, paidaction.Route{Fee: 100, Height: 1_040}},
	} {
		for provider, stands := range map[string]*lnrpc.Payment{"one": w.one, "two": w.two} {
			known := hex.EncodeToString(key(provider).PubKey().SerializeCompressed())
			server.Knows(known)
			server.ScriptRouteTo(known, stands)
		}
		if route, err := c.EstimateRoute(t.Context(), way(bolt11)); err != nil || route != w.route {
			t.Errorf("%s: %+v, %v", name, route, err)
		}
	}
	for _, provider := range []string{"one", "two"} {
		server.ScriptRouteTo(hex.EncodeToString(key(provider).PubKey().SerializeCompressed()), none)
	}
	if route, err := c.EstimateRoute(t.Context(), way(bolt11)); !errors.Is(err, paidaction.ErrNoRoute) {
		t.Errorf("no way to either: %+v, %v", route, err)
	}
}

// A provider lets no probe through to the wallets behind it. So the probe goes to the provider, and what its hint says comes on top; both within the limits.
func TestTheWayToAHiddenWalletEndsAtItsProvider(t *testing.T) {
	t.Parallel()
	c, server, _ := fixture(t)
	r := request(1, false)
	hexKey := func(name string) string { return hex.EncodeToString(key(name).PubKey().SerializeCompressed()) }
	server.Knows(hexKey("provider"))
	server.Knows(hexKey("other"))
	server.ScriptRoute(r.Hash, lndtest.Arrived(100, 1_000))

	probes := func(bolt11 string) (names []string, last int, route paidaction.Route, err error) {
		before := len(server.Probes())
		route, err = c.EstimateRoute(t.Context(), way(bolt11))
		for _, p := range server.Probes()[before:] {
			for _, name := range []string{"wallet", "provider", "other"} {
				if hex.EncodeToString(p.Dest) == hexKey(name) {
					names = append(names, name)
				}
			}
			last = len(p.RouteHints)
		}
		return names, last, route, err
	}
	for name, want := range map[string]struct {
		hints  [][]zpay32.HopHint
		to     []string
		amount int64
		final  int32
		kept   int // hints that go with the last probe
		route  paidaction.Route
	}{
		"no hint": {nil, []string{"wallet"}, 10_000, 40, 0, paidaction.Route{Fee: 100, Height: 1_000}},
		"a provider": {[][]zpay32.HopHint{{hop("provider", 300, 144)}}, []string{"provider"}, 10_300, 144, 0,
			paidaction.Route{Fee: 400, Height: 1_040}},
		"two hints of it": {[][]zpay32.HopHint{{hop("provider", 300, 20)}, {hop("unknown", 1, 1), hop("provider", 200, 144)}}, []string{"provider"}, 10_300, 144, 1,
			paidaction.Route{Fee: 400, Height: 1_040}},
		"the longer first": {[][]zpay32.HopHint{{hop("provider", 200, 144)}, {hop("unknown", 1, 1), hop("provider", 300, 20)}}, []string{"provider"}, 10_300, 144, 1,
			paidaction.Route{Fee: 400, Height: 1_040}},
		"nobody knows the end": {[][]zpay32.HopHint{{hop("provider", 1, 1), hop("unknown", 300, 144)}}, []string{"wallet"}, 10_000, 40, 1,
			paidaction.Route{Fee: 100, Height: 1_000}},
		"two providers": {[][]zpay32.HopHint{{hop("provider", 300, 144)}, {hop("other", 700, 20)}}, []string{"provider", "other"}, 10_700, 20, 0,
			paidaction.Route{Fee: 800, Height: 1_040}},
		"the dearer first": {[][]zpay32.HopHint{{hop("other", 700, 20)}, {hop("provider", 300, 144)}}, []string{"other", "provider"}, 10_300, 144, 0,
			paidaction.Route{Fee: 800, Height: 1_040}},
	} {
		to, kept, route, err := probes(hidden(t, r, want.hints...))
		all := server.Probes()
		if sent := all[len(all)-1]; err != nil || route != want.route || !slices.Equal(to, want.to) || kept != want.kept || sent.AmtMsat != want.amount || sent.FinalCltvDelta != want.final {
			t.Errorf("%s: to %v with %d hints, %d msat and %d blocks, the way is %+v, %v", name, to, kept, sent.AmtMsat, sent.FinalCltvDelta, route, err)
		}
	}
	all := server.Probes()
	if _, _, _, err := probes(hidden(t, r, []zpay32.HopHint{hop("provider", 300, 144)})); err != nil {
		t.Fatal(err)
	}
	if sent := server.Probes()[len(all)]; sent.FeeLimitMsat != 4_700 || sent.CltvLimit != 460 {
		t.Errorf("of 5,000 msat and 500 blocks the provider's probe has %d and %d", sent.FeeLimitMsat, sent.CltvLimit)
	}
	all = server.Probes()
	for name, h := range map[string]zpay32.HopHint{"dear": hop("provider", 5_001, 1), "long": hop("provider", 1, 457)} {
		if _, _, route, err := probes(hidden(t, r, []zpay32.HopHint{h})); !errors.Is(err, paidaction.ErrNoRoute) || len(server.Probes()) != len(all) {
			t.Errorf("a %s hint: %+v, %v", name, route, err)
		}
	}
	// The node knows the wallet: then nothing is between them that would stop a probe.
	server.Knows(hexKey("wallet"))
	if to, kept, _, err := probes(hidden(t, r, []zpay32.HopHint{hop("provider", 300, 144)})); err != nil || !slices.Equal(to, []string{"wallet"}) || kept != 1 {
		t.Errorf("to %v with %d hints, %v", to, kept, err)
	}
}
