package lightning

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// EstimateRoute implements paidaction.SendingNode. LND sends a probe for the whole amount, in one part and with a hash that
// nobody knows the preimage of. It is not to be asked of blinded paths: it may go to whoever has signed the invoice.
func (c *Client) EstimateRoute(ctx context.Context, bolt11 string) (paidaction.Route, error) {
	// LND answers within the call's own deadline, so that what it says of a probe that took too long arrives.
	patience := c.cfg.CallTimeout
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end))
	}
	patience = max(patience-time.Second, time.Second)
	m, err := call(ctx, c, "EstimateRouteFee", c.router.EstimateRouteFee, &routerrpc.RouteFeeRequest{
		PaymentRequest: bolt11, Timeout: uint32(patience / time.Second),
	})
	if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Canceled || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return paidaction.Route{}, fmt.Errorf("%w: %w", paidaction.ErrProbeOpen, err) // gRPC may give up a moment before the context has ended
	}
	if err != nil {
		return paidaction.Route{}, err
	}
	if m.FailureReason == lnrpc.PaymentFailureReason_FAILURE_REASON_TIMEOUT {
		return paidaction.Route{}, fmt.Errorf("lightning node %s: %w", c.cfg.Name, paidaction.ErrProbeOpen)
	}
	if m.FailureReason != lnrpc.PaymentFailureReason_FAILURE_REASON_NONE {
		return paidaction.Route{}, fmt.Errorf("lightning node %s: %w: %s", c.cfg.Name, paidaction.ErrNoRoute, failures[m.FailureReason])
	}
	if m.RoutingFeeMsat < 0 || m.TimeLockDelay <= 0 || m.TimeLockDelay > math.MaxUint32 {
		return paidaction.Route{}, fmt.Errorf("lightning node %s: %w: a fee of %d msat, locked until block %d",
			c.cfg.Name, paidaction.ErrNoRoute, m.RoutingFeeMsat, m.TimeLockDelay)
	}
	return paidaction.Route{Fee: paidaction.Msat(m.RoutingFeeMsat), Height: uint32(m.TimeLockDelay)}, nil
}

// Sendable implements paidaction.SendingNode: our side of all open channels without what is under way. It is an upper bound.
// LND counts channels whose peer is away, and the reserve (about 1 % of each channel) that cannot be sent.
func (c *Client) Sendable(ctx context.Context) (paidaction.Msat, error) {
	m, err := call(ctx, c, "ChannelBalance", c.main.ChannelBalance, &lnrpc.ChannelBalanceRequest{})
	return paidaction.Msat(m.GetLocalBalance().GetMsat()), err
}

// PublicKey implements paidaction.SendingNode.
func (c *Client) PublicKey(ctx context.Context) (string, error) {
	info, err := c.Info(ctx)
	return info.PubKey, err
}

// behind is by how much a node's clock may be behind ours for Time to read it, tried in this order.
var behind = []time.Duration{0, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// Time implements paidaction.SendingNode. No answer of LND carries its clock (best_header_timestamp is that of a block), but LND
// compares it: with the moment from which a macaroon is void. The answer is the latest of a few moments that this clock has
// surely reached: never later than it, and hardly earlier where both clocks are right.
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

// reached tells whether the node's clock has come to a moment.
func (c *Client) reached(ctx context.Context, moment time.Time) (bool, error) {
	mac, err := c.macaroon.until(moment)
	if err != nil {
		return false, err
	}
	_, err = call(ctx, c, "CheckMacaroonPermissions", c.main.CheckMacaroonPermissions, &lnrpc.CheckMacPermRequest{
		Macaroon: mac, FullMethod: "/lnrpc.Lightning/GetInfo", CheckDefaultPermsFromFullMethod: true,
	})
	// InvalidArgument is said of the macaroon that was asked about. Of the one that the call was made with LND says Unknown.
	if errors.Is(err, ErrMacaroonExpired) && status.Code(err) == codes.InvalidArgument {
		return true, nil
	}
	return false, err
}
