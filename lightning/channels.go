package lightning

import (
	"context"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Channels implements paidaction.SendingNode. A node that takes long to list its channels may answer everything else at
// once, so it does not count as silent, and only ctx limits the call.
func (c *Client) Channels(ctx context.Context) ([]paidaction.Channel, error) {
	list, err := c.main.ListChannels(ctx, &lnrpc.ListChannelsRequest{ActiveOnly: true})
	if err != nil {
		return nil, c.explain(ctx, "ListChannels", err)
	}
	channels := make([]paidaction.Channel, len(list.Channels))
	for i, from := range list.Channels {
		// What bounds the HTLCs that we offer is what the peer accepts, which LND calls our constraints
		// (lnwallet/channel.go, validateCommitmentSanity). A peer may name a sum far above what there is.
		ours := from.GetLocalConstraints()
		most := min(ours.GetMaxPendingAmtMsat(), uint64(max(from.Capacity, 0))*1000)
		channels[i] = paidaction.Channel{Local: satoshis(from.LocalBalance), MostLeaving: int64(ours.GetMaxAcceptedHtlcs()), MostLocked: paidaction.Msat(most)}
		for _, htlc := range from.PendingHtlcs {
			if !htlc.Incoming {
				channels[i].Leaving++
				channels[i].Locked += satoshis(htlc.Amount)
			}
		}
	}
	return channels, nil
}

func satoshis(sats int64) paidaction.Msat { return paidaction.Msat(sats) * 1000 }
