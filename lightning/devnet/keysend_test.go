package devnet_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"github.com/lightningnetwork/lnd/record"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// addedByKeysend shows what the rules of wrapping must expect. Anybody who knows the preimage can add parts to a held
// invoice without having been shown it, each expiring as soon as the invoice permits, and LND counts them as received.
// The simulated node does the same.
func addedByKeysend(t *testing.T, c *lightning.Client, network *devnet.Network) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ours, payer, receiver := network.Node(devnet.Holdfast), network.Node(devnet.Payer), network.Node(devnet.Receiver)
	widest := func(from, to *devnet.Node) *lnrpc.Channel {
		t.Helper()
		peer, err := hex.DecodeString(to.Pubkey())
		if err != nil {
			t.Fatal(err)
		}
		channels, err := lnrpc.NewLightningClient(from.Conn()).ListChannels(ctx, &lnrpc.ListChannelsRequest{Peer: peer, ActiveOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return slices.MaxFunc(channels.Channels, func(a, b *lnrpc.Channel) int { return cmp.Compare(a.LocalBalance, b.LocalBalance) })
	}
	last, first := widest(payer, ours), widest(receiver, payer)
	const msat = 1_000_000
	var preimage paidaction.Preimage
	if _, err := rand.Read(preimage[:]); err != nil {
		t.Fatal(err)
	}
	outer := paidaction.InvoiceRequest{Hold: true, Hash: preimage.Hash(), Amount: msat, Memo: "outer", Expiry: time.Hour, CLTVDelta: 160}
	if _, err := c.OpenInvoice(ctx, outer); err != nil {
		t.Fatal(err)
	}
	chain, err := c.Chain(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 2)
	keysend := func(from *devnet.Node, route *lnrpc.Route) {
		attempt, err := routerrpc.NewRouterClient(from.Conn()).SendToRouteV2(ctx, &routerrpc.SendToRouteRequest{PaymentHash: outer.Hash[:], Route: route})
		if err == nil && attempt.Status != lnrpc.HTLCAttempt_FAILED {
			err = fmt.Errorf("%s: what was given back is %s", from.Name(), attempt.Status)
		}
		sent <- err
	}
	arriving := func(expiry uint32) *lnrpc.Hop {
		return &lnrpc.Hop{ChanId: last.ChanId, PubKey: ours.Pubkey(), AmtToForwardMsat: msat, Expiry: expiry, TlvPayload: true,
			CustomRecords: map[uint64][]byte{uint64(record.KeySendType): preimage[:]}}
	}
	simulated := simnode.New("simulated", time.Now)
	simulated.Mine(chain.Height - simulated.Height())
	if _, err := simulated.OpenInvoice(ctx, outer); err != nil {
		t.Fatal(err)
	}
	// SendToRoute sends one part of a hash from each node.
	wantHeld := func(expiry uint32, received paidaction.Msat) {
		t.Helper()
		if err := simulated.Keysend(preimage, msat, expiry); err != nil {
			t.Fatal(err)
		}
		like, err := simulated.LookupInvoice(ctx, outer.Hash)
		if err != nil {
			t.Fatal(err)
		}
		for {
			there, err := c.LookupInvoice(ctx, outer.Hash)
			if err != nil {
				t.Fatal(err)
			}
			if there.Received < received {
				continue
			}
			if there.State != paidaction.InvoiceAccepted || there.Received != received || there.ExpiryHeight != expiry ||
				like.State != there.State || like.Received != there.Received || like.ExpiryHeight != there.ExpiryHeight {
				t.Fatalf("LND says %+v, the simulated node %+v", there, like)
			}
			return
		}
	}
	long, soon := chain.Height+2_000, chain.Height+165
	go keysend(payer, &lnrpc.Route{TotalTimeLock: long, TotalAmtMsat: msat, Hops: []*lnrpc.Hop{arriving(long)}})
	wantHeld(long, msat)
	const fee = 20_000
	go keysend(receiver, &lnrpc.Route{TotalTimeLock: soon + 200, TotalAmtMsat: msat + fee, TotalFeesMsat: fee, Hops: []*lnrpc.Hop{
		{ChanId: first.ChanId, PubKey: payer.Pubkey(), AmtToForwardMsat: msat, FeeMsat: fee, Expiry: soon, TlvPayload: true}, arriving(soon)}})
	wantHeld(soon, 2*msat)
	if err := c.CancelInvoice(ctx, outer.Hash); err != nil {
		t.Fatal(err)
	}
	for range cap(sent) {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}
