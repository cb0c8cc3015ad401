package lightning

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const (
	// mostProviders is how many of the providers of a hidden receiver are tried.
	mostProviders = 3
	// followProbe is how long a node is listened to that has a probe. Most of those that are slow are back by then, and
	// the node is asked about the others (relay.AskProbes).
	followProbe = 5 * time.Minute
	// blockPadding is what LND adds to the final CLTV of what it sends, in blocks.
	blockPadding = 3
)

// EstimateRoute implements paidaction.SendingNode. It sends a probe: a payment of the whole amount, in one part, with a
// hash whose preimage nobody knows. LND's own call for that, EstimateRouteFee, keeps to no limit: a receiver with an
// expensive channel of their own in front of them could make it lock a hundred million sats for two weeks. What that
// call does for receivers behind a provider is done here as well. Do not use this for blinded paths: the probe would go
// to whoever signed the invoice.
func (c *Client) EstimateRoute(ctx context.Context, r paidaction.RouteRequest) (paidaction.Route, error) {
	if r.Probe == (paidaction.Hash{}) {
		return paidaction.Route{}, notProbed(errors.New("a probe needs a hash of its own"))
	}
	inv, err := call(ctx, c, "DecodePayReq", c.main.DecodePayReq, &lnrpc.PayReqString{PayReq: r.Bolt11})
	if err == nil {
		_, err = decoded(inv)
	}
	if err != nil {
		return paidaction.Route{}, notProbed(err)
	}
	targets, err := c.targets(ctx, inv)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return paidaction.Route{}, notProbed(err)
	}
	// Nobody knows which of several providers the payment will come through, so take the highest fee and the longest
	// lock.
	var route paidaction.Route
	var none []error
	for _, t := range targets {
		found, err := c.probe(ctx, inv, t, r)
		switch {
		case errors.Is(err, paidaction.ErrNoRoute):
			none = append(none, err)
		case err != nil:
			return paidaction.Route{}, err
		default:
			route.Fee, route.Height = max(route.Fee, found.Fee), max(route.Height, found.Height)
		}
	}
	if len(none) == len(targets) {
		return paidaction.Route{}, errors.Join(none...)
	}
	return route, nil
}

// notProbed marks what went wrong before anything was sent: a node that is slow until then locks nobody's money.
func notProbed(err error) error { return fmt.Errorf("%w: %w", paidaction.ErrNotProbed, err) }

// target is where a probe goes: to the receiver, or to the provider in front of a hidden receiver.
type target struct {
	key    string // in hex
	amount int64  // msat that must arrive there
	final  int64  // blocks of the final CLTV there
	hints  []*lnrpc.RouteHint

	// What the way from a provider to the receiver costs: hints say so, and no probe can find out.
	fee    paidaction.Msat
	blocks int64
}

// targets are the nodes to probe for a route to the receiver of an invoice. Wallets behind providers cannot be probed,
// since providers let no probe through. So for a receiver whom our node does not know, the known nodes at the end of
// the hints are probed instead.
func (c *Client) targets(ctx context.Context, inv *lnrpc.PayReq) ([]target, error) {
	receiver := []target{{key: inv.Destination, amount: inv.NumMsat, final: inv.CltvExpiry, hints: inv.RouteHints}}
	if len(inv.RouteHints) == 0 {
		return receiver, nil
	}
	if known, err := c.knows(ctx, inv.Destination); err != nil || known {
		return receiver, err
	}
	var providers []target
	for _, hint := range inv.RouteHints {
		hops := hint.GetHopHints()
		if len(hops) == 0 {
			continue
		}
		last := hops[len(hops)-1]
		at := slices.IndexFunc(providers, func(t target) bool { return t.key == last.NodeId })
		if at < 0 && len(providers) == mostProviders {
			continue
		}
		if at < 0 {
			known, err := c.knows(ctx, last.NodeId)
			if err != nil {
				return nil, err
			}
			if !known {
				continue
			}
			at, providers = len(providers), append(providers, target{key: last.NodeId, blocks: inv.CltvExpiry})
		}
		p := &providers[at]
		p.fee = max(p.fee, dearest([]*lnrpc.RouteHint{{HopHints: hops[len(hops)-1:]}}, inv.NumMsat))
		p.amount = inv.NumMsat + int64(p.fee)
		p.final = max(p.final, int64(last.CltvExpiryDelta))
		if before := hops[:len(hops)-1]; len(before) > 0 {
			p.hints = append(p.hints, &lnrpc.RouteHint{HopHints: before})
		}
	}
	if len(providers) == 0 {
		return receiver, nil
	}
	return providers, nil
}

// knows reports whether the node has heard of another one, as it has of every node with public channels.
func (c *Client) knows(ctx context.Context, key string) (bool, error) {
	_, err := call(ctx, c, "GetNodeInfo", c.main.GetNodeInfo, &lnrpc.NodeInfoRequest{PubKey: key})
	if status.Code(err) == codes.NotFound {
		return false, nil
	}
	return err == nil, err
}

// probe sends one probe, and waits until it has come back. ErrProbeOpen if it does not come back in time, or if the
// node's updates break off; in the first case the node is listened to for a while (paidaction.OpenProbe). Any other
// error came before the node's first update, for instance because the node is down. No receiver is blamed for it: those
// invoices for which a node refuses a probe are refused before (package wrap).
func (c *Client) probe(ctx context.Context, inv *lnrpc.PayReq, t target, r paidaction.RouteRequest) (paidaction.Route, error) {
	budget, blocks := r.FeeLimit-t.fee, int64(r.CLTVLimit)-t.blocks
	if budget < 0 || blocks <= t.final+blockPadding {
		return paidaction.Route{}, fmt.Errorf("lightning node %s: %w: what lies behind the last node that it knows is beyond the limits", c.cfg.Name, paidaction.ErrNoRoute)
	}
	key, err := hex.DecodeString(t.key)
	if err != nil {
		return paidaction.Route{}, fmt.Errorf("lightning node %s: public key %q: %w", c.cfg.Name, t.key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	// The node gives up before the call does, so that its answer about a search that took too long still arrives.
	end, _ := ctx.Deadline()
	patience := max(time.Until(end)-time.Second, time.Second)
	request := &routerrpc.SendPaymentRequest{
		Dest: key, AmtMsat: t.amount, PaymentHash: r.Probe[:], PaymentAddr: inv.PaymentAddr, FinalCltvDelta: int32(t.final), RouteHints: t.hints, MaxParts: 1,
		FeeLimitMsat: int64(budget), CltvLimit: int32(min(blocks, math.MaxInt32)), TimeoutSeconds: int32(patience / time.Second),
	}
	for bit := range inv.Features {
		request.DestFeatures = append(request.DestFeatures, lnrpc.FeatureBit(bit))
	}
	following, stop := context.WithTimeout(context.WithoutCancel(ctx), followProbe)
	var begun atomic.Bool
	over, back := make(chan probed, 1), make(chan bool, 1)
	go func() {
		defer close(back)
		defer stop()
		var p probed
		p.err = c.answering(following, "SendPaymentV2", func(told func()) error {
			stream, err := c.router.SendPaymentV2(context.WithValue(following, voidAfter{}, end), request)
			return receive(following, c, "SendPaymentV2", stream, err, func(m *lnrpc.Payment) (bool, error) {
				told()
				begun.Store(true)
				p.last = m
				return m.Status == lnrpc.Payment_SUCCEEDED || m.Status == lnrpc.Payment_FAILED, nil
			})
		})
		if p.err == nil {
			back <- true
		}
		over <- p
	}()
	var p probed
	select {
	case p = <-over:
	case <-ctx.Done():
		if begun.Load() {
			return paidaction.Route{}, fmt.Errorf("lightning node %s: %w", c.cfg.Name, &paidaction.OpenProbe{Back: back})
		}
		stop() // the node may have begun it all the same
		p = <-over
	}
	code := status.Code(p.err)
	switch { // gRPC may give up a moment before the context ends
	case p.err != nil && (p.last != nil || ctx.Err() != nil || code == codes.DeadlineExceeded || code == codes.Canceled):
		return paidaction.Route{}, fmt.Errorf("lightning node %s: %w: %w", c.cfg.Name, paidaction.ErrProbeOpen, p.err)
	case p.err != nil:
		return paidaction.Route{}, p.err
	}
	return c.arrived(p.last, t)
}

// probed is what a node has told of a probe. err is nil once the probe has come back.
type probed struct {
	last *lnrpc.Payment // nil: it has told nothing
	err  error
}

// arrived is the route of a probe that has come back. The receiver refuses it because there is no such invoice. With
// any other reason no route was found, or none in time: LND calls a payment FAILED only once nothing of it is out.
func (c *Client) arrived(m *lnrpc.Payment, t target) (paidaction.Route, error) {
	if m.FailureReason != lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS {
		return paidaction.Route{}, fmt.Errorf("lightning node %s: %w: %s", c.cfg.Name, paidaction.ErrNoRoute, failures[m.FailureReason])
	}
	var way *lnrpc.Route
	if n := len(m.Htlcs); n > 0 {
		way = m.Htlcs[n-1].GetRoute()
	}
	fee, height := way.GetTotalFeesMsat()+int64(t.fee), int64(way.GetTotalTimeLock())+t.blocks
	if way == nil || int(m.Htlcs[len(m.Htlcs)-1].GetFailure().GetFailureSourceIndex()) != len(way.Hops) || fee < 0 || height > math.MaxUint32 {
		// A node on the route can give an answer that only the receiver should give.
		return paidaction.Route{}, fmt.Errorf("lightning node %s: %w: the probe was refused on its way", c.cfg.Name, paidaction.ErrNoRoute)
	}
	return paidaction.Route{Fee: paidaction.Msat(fee), Height: uint32(height)}, nil
}
