package lightning

import (
	"math"
	"testing"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Each hop of a hint takes its fee of what it passes on, the fees after it included (BOLT 7); of several hints the dearest counts.
func TestWhatHintsCharge(t *testing.T) {
	t.Parallel()
	hop := func(base, share uint32) *lnrpc.HopHint {
		return &lnrpc.HopHint{FeeBaseMsat: base, FeeProportionalMillionths: share}
	}
	hint := func(hops ...*lnrpc.HopHint) *lnrpc.RouteHint { return &lnrpc.RouteHint{HopHints: hops} }
	for name, c := range map[string]struct {
		hints []*lnrpc.RouteHint
		want  paidaction.Msat
	}{
		"none":           {nil, 0},
		"free":           {[]*lnrpc.RouteHint{hint(hop(0, 0))}, 0},
		"one":            {[]*lnrpc.RouteHint{hint(hop(1_000, 100))}, 1_100},
		"a fee of a fee": {[]*lnrpc.RouteHint{hint(hop(0, 1_000_000), hop(1_000_000, 0))}, 3_000_000},
		"the dearest":    {[]*lnrpc.RouteHint{hint(hop(1, 0)), hint(hop(math.MaxUint32, 0)), hint()}, math.MaxUint32},
		"beyond all":     {[]*lnrpc.RouteHint{hint(hop(0, math.MaxUint32), hop(0, math.MaxUint32), hop(0, math.MaxUint32), hop(0, math.MaxUint32))}, paidaction.MaxMsat - 1_000_000},
	} {
		inv, err := decoded(&lnrpc.PayReq{PaymentHash: someHash, NumMsat: 1_000_000, CltvExpiry: 40, RouteHints: c.hints})
		if err != nil || inv.HintsFee != c.want {
			t.Errorf("%s: %d, want %d, %v", name, inv.HintsFee, c.want, err)
		}
	}
}

// How long an invoice can be paid counts from when it was signed, however long ago that was.
func TestWhenAnInvoiceExpires(t *testing.T) {
	t.Parallel()
	inv, err := decoded(&lnrpc.PayReq{PaymentHash: someHash, NumMsat: 1000, CltvExpiry: 40, Timestamp: 1_700_000_000, Expiry: 3600})
	if err != nil || inv.Created.Unix() != 1_700_000_000 || inv.Expires.Unix() != 1_700_003_600 {
		t.Errorf("from %v to %v, %v", inv.Created, inv.Expires, err)
	}
}

// A receiver behind blinded paths is none whose invoice may be wrapped or paid: so it has to be seen.
func TestWhetherThePathsAreBlinded(t *testing.T) {
	t.Parallel()
	for paths := range 3 {
		inv, err := decoded(&lnrpc.PayReq{PaymentHash: someHash, NumMsat: 1000, CltvExpiry: 40, BlindedPaths: make([]*lnrpc.BlindedPaymentPath, paths)})
		if err != nil || inv.Blinded != (paths > 0) {
			t.Errorf("%d blinded paths: Blinded is %t, %v", paths, inv.Blinded, err)
		}
	}
}

// LND has room for a payment secret in what it says of every invoice: without one it shows zeroes.
func TestWhetherThereIsAPaymentSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secret []byte
		want   bool
	}{
		"no secret, as LND says": {make([]byte, 32), true},
		"no secret at all":       {nil, true},
		"a secret":               {append(make([]byte, 31), 1), false},
	} {
		inv, err := decoded(&lnrpc.PayReq{PaymentHash: someHash, NumMsat: 1000, CltvExpiry: 40, PaymentAddr: c.secret})
		if err != nil || inv.Secretless != c.want {
			t.Errorf("%s: Secretless is %t, %v", name, inv.Secretless, err)
		}
	}
}

// LND finds no route to a receiver who does not offer payment secrets (14, 15), or who offers something without what it
// builds on: payment secrets without onions of variable size (8, 9), parts (16, 17) without payment secrets, and so on.
// Required or optional makes no difference.
func TestWhetherFeaturesAreIncomplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bits []uint32
		want bool
	}{
		{nil, true},
		{[]uint32{8}, true},
		{[]uint32{9, 17}, true},
		{[]uint32{14}, true},
		{[]uint32{15, 17}, true},
		{[]uint32{8, 16}, true},
		{[]uint32{9, 15, 23}, true},
		{[]uint32{9, 15, 13, 23}, false},
		{[]uint32{8, 14}, false},
		{[]uint32{9, 15}, false},
		{[]uint32{8, 9, 14, 15}, false},
		{[]uint32{8, 14, 17, 48, 149, 1001}, false},
	} {
		m := &lnrpc.PayReq{PaymentHash: someHash, NumMsat: 1000, CltvExpiry: 40, Features: make(map[uint32]*lnrpc.Feature)}
		for _, bit := range c.bits {
			m.Features[bit] = &lnrpc.Feature{}
		}
		if inv, err := decoded(m); err != nil || inv.Incomplete != c.want {
			t.Errorf("%v: Incomplete is %t, %v", c.bits, inv.Incomplete, err)
		}
	}
}

// A hop of a hint whose channel has the number 0 names none.
func TestWhetherHintsNameChannels(t *testing.T) {
	t.Parallel()
	hint := func(channels ...uint64) *lnrpc.RouteHint {
		h := &lnrpc.RouteHint{}
		for _, c := range channels {
			h.HopHints = append(h.HopHints, &lnrpc.HopHint{ChanId: c})
		}
		return h
	}
	for name, c := range map[string]struct {
		hints []*lnrpc.RouteHint
		want  bool
	}{
		"none":           {nil, false},
		"channels":       {[]*lnrpc.RouteHint{hint(1, math.MaxUint64), hint(2)}, false},
		"the first none": {[]*lnrpc.RouteHint{hint(0, 1)}, true},
		"the last none":  {[]*lnrpc.RouteHint{hint(1), hint(1, 0)}, true},
	} {
		inv, err := decoded(&lnrpc.PayReq{PaymentHash: someHash, NumMsat: 1000, CltvExpiry: 40, RouteHints: c.hints})
		if err != nil || inv.HintsNowhere != c.want {
			t.Errorf("%s: HintsNowhere is %t, %v", name, inv.HintsNowhere, err)
		}
	}
}
