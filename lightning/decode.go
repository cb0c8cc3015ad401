package lightning

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// DecodeInvoice has the node decode and verify a bolt11: the node that is to pay it is the only authority on what it says. An
// invoice of another network, or one whose signature is wrong, is an error.
func (c *Client) DecodeInvoice(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	m, err := call(ctx, c, "DecodePayReq", c.main.DecodePayReq, &lnrpc.PayReqString{PayReq: bolt11})
	if err != nil {
		return paidaction.Bolt11{}, err
	}
	hash, err := hex.DecodeString(m.PaymentHash)
	if err != nil {
		return paidaction.Bolt11{}, fmt.Errorf("payment hash %q: %w", m.PaymentHash, err)
	}
	invoice := paidaction.Bolt11{
		Destination: m.Destination, Amount: paidaction.Msat(m.NumMsat),
		Description: m.Description, DescriptionHash: m.DescriptionHash,
		Created: time.Unix(m.Timestamp, 0), Expires: time.Unix(m.Timestamp+m.Expiry, 0),
		CLTVDelta: uint32(m.CltvExpiry), Blinded: len(m.BlindedPaths) > 0,
	}
	if copy(invoice.Hash[:], hash) != len(invoice.Hash) {
		return paidaction.Bolt11{}, fmt.Errorf("payment hash of %d bytes", len(hash))
	}
	return invoice, nil
}
