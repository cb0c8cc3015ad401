package lightning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Sendable implements paidaction.SendingNode: our side of all open channels, without what is under way. It is an upper
// bound: LND includes channels whose peer is away, and the reserve (about 1 % of each channel), which cannot be sent.
func (c *Client) Sendable(ctx context.Context) (paidaction.Msat, error) {
	m, err := call(ctx, c, "ChannelBalance", c.main.ChannelBalance, &lnrpc.ChannelBalanceRequest{})
	return paidaction.Msat(m.GetLocalBalance().GetMsat()), err
}

// PublicKey implements paidaction.SendingNode.
func (c *Client) PublicKey(ctx context.Context) (string, error) {
	info, err := c.Info(ctx)
	return info.PubKey, err
}

// behind lists how far a node's clock may be behind ours for Time to read it, in the order of the tries.
var behind = []time.Duration{0, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// Time implements paidaction.SendingNode. No answer of LND contains its clock (best_header_timestamp is that of a
// block), but LND compares it with the moment from which a macaroon is void. Time returns the latest of a few moments
// that this clock has certainly reached: never later than the clock, and hardly earlier if both clocks are right.
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	now := time.Now()
	for _, d := range behind {
		reached, err := c.reached(ctx, now.Add(-d))
		if err != nil {
			return time.Time{}, err
		}
		if reached {
			return now.Add(-d), nil
		}
	}
	return time.Time{}, fmt.Errorf("the clock of lightning node %s is more than %v behind ours", c.cfg.Name, behind[len(behind)-1])
}

// reached reports whether the node's clock has reached a moment.
func (c *Client) reached(ctx context.Context, moment time.Time) (bool, error) {
	mac, err := c.macaroon.until(moment)
	if err != nil {
		return false, err
	}
	_, err = call(ctx, c, "CheckMacaroonPermissions", c.main.CheckMacaroonPermissions, &lnrpc.CheckMacPermRequest{
		Macaroon: mac, FullMethod: "/lnrpc.Lightning/GetInfo", CheckDefaultPermsFromFullMethod: true,
	})
	// LND says InvalidArgument of the macaroon that was asked about, but Unknown of the one that the call was made
	// with.
	if errors.Is(err, ErrMacaroonExpired) && status.Code(err) == codes.InvalidArgument {
		return true, nil
	}
	return false, err
}
