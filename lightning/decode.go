package lightning

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/feature"
	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnwire"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// DecodeInvoice implements paidaction.SendingNode. Only the node reads the bolt11; nothing of it is read here.
func (c *Client) DecodeInvoice(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	m, err := call(ctx, c, "DecodePayReq", c.main.DecodePayReq, &lnrpc.PayReqString{PayReq: bolt11})
	// LND has no error code of its own for text that it cannot read. So any answer without another known meaning means
	// that.
	if answer, answered := status.FromError(err); err != nil && answered && answer.Code() == codes.Unknown && meaningOf(err) == nil {
		err = fmt.Errorf("%w: %w", paidaction.ErrBolt11, err)
	}
	if err != nil {
		return paidaction.Bolt11{}, err
	}
	return decoded(m)
}

// decoded is an invoice as the node reads it. The receiver chose every number in it. LND shows a missing payment secret
// as 32 zero bytes.
func decoded(m *lnrpc.PayReq) (paidaction.Bolt11, error) {
	hash, err := hex.DecodeString(m.PaymentHash)
	if err != nil {
		return paidaction.Bolt11{}, fmt.Errorf("payment hash %q: %w", m.PaymentHash, err)
	}
	// LND converts both from unsigned 64-bit numbers that the receiver chose: 2^32 + 40 blocks must not be read as 40.
	if m.NumMsat < 0 || m.CltvExpiry < 0 || m.CltvExpiry > math.MaxInt32 {
		return paidaction.Bolt11{}, fmt.Errorf("%w: an invoice over %d msat with a final CLTV of %d blocks", paidaction.ErrBolt11, m.NumMsat, m.CltvExpiry)
	}
	invoice := paidaction.Bolt11{
		Destination: m.Destination, Amount: paidaction.Msat(m.NumMsat),
		Description: m.Description, DescriptionHash: m.DescriptionHash,
		Created: time.Unix(m.Timestamp, 0), Expires: time.Unix(m.Timestamp+m.Expiry, 0),
		CLTVDelta: uint32(m.CltvExpiry), HintsCLTV: longest(m.RouteHints), HintsFee: dearest(m.RouteHints, m.NumMsat), HintsNowhere: nowhere(m.RouteHints),
		Blinded: len(m.BlindedPaths) > 0, Secretless: !slices.ContainsFunc(m.PaymentAddr, func(b byte) bool { return b != 0 }),
	}
	if copy(invoice.Hash[:], hash) != len(invoice.Hash) {
		return paidaction.Bolt11{}, fmt.Errorf("payment hash of %d bytes", len(hash))
	}
	for bit, f := range m.Features {
		invoice.Features = append(invoice.Features, paidaction.Feature{Bit: bit, Required: bit%2 == 0, Known: f.GetIsKnown()})
	}
	invoice.Incomplete = incomplete(invoice.Features)
	slices.SortFunc(invoice.Features, func(a, b paidaction.Feature) int { return cmp.Compare(a.Bit, b.Bit) })
	return invoice, nil
}

// incomplete reports whether LND finds no route to an invoice with these features, by what it asks itself before it
// looks for one.
func incomplete(features []paidaction.Feature) bool {
	offered := lnwire.NewFeatureVector(lnwire.NewRawFeatureVector(), lnwire.Features)
	for _, f := range features {
		offered.Set(lnwire.FeatureBit(f.Bit))
	}
	return feature.ValidateDeps(offered) != nil || !offered.HasFeature(lnwire.PaymentAddrOptional)
}

// longest is how many blocks the hops of the longest hint add.
func longest(hints []*lnrpc.RouteHint) uint32 {
	blocks := uint64(0)
	for _, hint := range hints {
		sum := uint64(0)
		for _, hop := range hint.GetHopHints() {
			sum += uint64(hop.GetCltvExpiryDelta())
		}
		blocks = max(blocks, sum)
	}
	return uint32(min(blocks, math.MaxUint32))
}

// nowhere reports whether a hop of the hints names no channel (its number is 0).
func nowhere(hints []*lnrpc.RouteHint) bool {
	return slices.ContainsFunc(hints, func(hint *lnrpc.RouteHint) bool {
		return slices.ContainsFunc(hint.GetHopHints(), func(hop *lnrpc.HopHint) bool { return hop.GetChanId() == 0 })
	})
}

// dearest is what the hops of the dearest hint take for an amount, each on what it forwards (BOLT 7), in msat.
func dearest(hints []*lnrpc.RouteHint, amount int64) paidaction.Msat {
	fee := int64(0)
	for _, hint := range hints {
		sum := amount
		for _, hop := range slices.Backward(hint.GetHopHints()) {
			carried, parts := bits.Mul64(uint64(sum), uint64(hop.GetFeeProportionalMillionths()))
			if carried >= 1_000_000 { // beyond 64 bits after the division
				sum = int64(paidaction.MaxMsat)
				break
			}
			share, _ := bits.Div64(carried, parts, 1_000_000)
			sum = int64(min(uint64(sum)+uint64(hop.GetFeeBaseMsat())+min(share, uint64(paidaction.MaxMsat)), uint64(paidaction.MaxMsat)))
		}
		fee = max(fee, sum-amount)
	}
	return paidaction.Msat(fee)
}
