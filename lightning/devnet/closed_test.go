package devnet_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// chased is enough for LND to fetch it from the chain. It leaves there what would cost half of itself in fees.
const chased = 200_000 * sat

// closedByForce: a channel that is closed by force takes what is under way in it to the chain, and nothing else changes
// for those who hold it or wait for it. What is held stays ACCEPTED and can be taken; what was sent stays IN_FLIGHT, and
// is paid once the receiver takes it.
func closedByForce(t *testing.T, e realSending) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ours, payer := e.network.Node(devnet.Holdfast2), e.network.Node(devnet.Payer)
	hold := func(at paidaction.Node, seed byte) (paidaction.InvoiceRequest, string) {
		p := paidaction.Preimage{seed, 0xf0}
		r := paidaction.InvoiceRequest{Hold: true, Hash: p.Hash(), Preimage: p, Amount: chased, Expiry: time.Hour, CLTVDelta: 200}
		bolt11, err := at.OpenInvoice(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return r, bolt11
	}
	held, bolt11 := hold(e.ours, 1)
	paid := make(chan devnet.Payment, 1)
	go func() {
		p, _ := payer.Pay(ctx, bolt11)
		paid <- p
	}()
	awaitState(t, e.ours, held.Hash, paidaction.InvoiceAccepted)
	before, err := e.ours.LookupInvoice(ctx, held.Hash)
	if err != nil {
		t.Fatal(err)
	}
	sent, bolt11 := hold(e.receiver, 2)
	gone := errors.New("gone")
	if err := e.ours.Pay(ctx, paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: 1_000_000, Timeout: 30 * time.Second},
		func(paidaction.PaymentUpdate) error { return gone }); !errors.Is(err, gone) {
		t.Fatal(err)
	}
	awaitState(t, e.receiver, sent.Hash, paidaction.InvoiceAccepted)

	for _, h := range []paidaction.Hash{held.Hash, sent.Hash} {
		forceClose(ctx, t, ours, h)
	}
	if err := e.network.Mine(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if now, err := e.ours.LookupInvoice(ctx, held.Hash); err != nil || now != before {
		t.Errorf("what was held as %+v is %+v, %v", before, now, err)
	}
	present := func() paidaction.PaymentUpdate {
		u, err := paidaction.PresentPayment(ctx, e.ours, sent.Hash)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	if u := present(); u.State != paidaction.PaymentInFlight {
		t.Errorf("what was sent: %+v", u)
	}
	for at, p := range map[*lightning.Client]paidaction.Preimage{e.ours: held.Preimage, e.receiver: sent.Preimage} {
		if err := at.SettleInvoice(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	awaitState(t, e.ours, held.Hash, paidaction.InvoiceSettled)
	var outcome *devnet.Payment
	for blocks := 0; outcome == nil || present().State == paidaction.PaymentInFlight; blocks++ {
		if blocks > 20 {
			t.Fatalf("after %d blocks: the payer's payment %+v, ours %+v", blocks, outcome, present())
		}
		if err := e.network.Mine(ctx, 1); err != nil {
			t.Fatal(err)
		}
		select {
		case p := <-paid:
			outcome = &p
		default:
		}
	}
	if !outcome.Settled {
		t.Errorf("the payer's payment: %+v", outcome)
	}
	if u := present(); u.State != paidaction.PaymentSucceeded || u.Preimage == nil || *u.Preimage != sent.Preimage || u.Paid != chased {
		t.Errorf("what was sent: %+v", u)
	}
}

// forceClose closes the channel of a node in which a payment is under way.
func forceClose(ctx context.Context, t *testing.T, node *devnet.Node, h paidaction.Hash) {
	t.Helper()
	client := lnrpc.NewLightningClient(node.Conn())
	all, err := client.ListChannels(ctx, &lnrpc.ListChannelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Channels {
		for _, htlc := range c.PendingHtlcs {
			if !bytes.Equal(htlc.HashLock, h[:]) {
				continue
			}
			txid, index, _ := strings.Cut(c.ChannelPoint, ":")
			output, err := strconv.ParseUint(index, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			point := &lnrpc.ChannelPoint{FundingTxid: &lnrpc.ChannelPoint_FundingTxidStr{FundingTxidStr: txid}, OutputIndex: uint32(output)}
			updates, err := client.CloseChannel(ctx, &lnrpc.CloseChannelRequest{ChannelPoint: point, Force: true})
			if err == nil {
				_, err = updates.Recv() // the closing transaction is in the pool
			}
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no channel of %s has a payment with the hash %s", node.Name(), h)
}
