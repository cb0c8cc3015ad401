package demo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// writer is a user with their own wallet, whose post is zapped.
type writer struct {
	client
	post string
}

const saveWallet = `mutation ($settings: WalletSettings!) { walletSave(settings: $settings) { id } }`

// signUpReceivers makes the users who have wallets, and those who have sats.
func (d *Demo) signUpReceivers(ctx context.Context) error {
	receiver := d.stack.Network.Node(devnet.Receiver)
	macaroon, err := os.ReadFile(receiver.InvoiceMacaroon())
	if err != nil {
		return err
	}
	certificate, err := os.ReadFile(receiver.TLSCert())
	if err != nil {
		return err
	}
	err = d.signUpWriter(ctx, &d.byAddress, "by_address", map[string]any{"lightningAddress": d.stack.Network.LightningAddress()})
	if err != nil {
		return err
	}
	err = d.signUpWriter(ctx, &d.byNode, "by_node", map[string]any{"lndRest": map[string]any{
		"url": "https://" + receiver.REST(), "macaroon": hex.EncodeToString(macaroon), "certificate": string(certificate)}})
	if err != nil {
		return err
	}
	for i, name := range []string{"saver", "other_saver"} {
		if d.savers[i], err = d.signUpSaver(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (d *Demo) signUpWriter(ctx context.Context, w *writer, name string, wallet map[string]any) error {
	key, err := SignUp(ctx, d.stack.URL(), name)
	if err != nil {
		return err
	}
	w.client = client{url: d.stack.URL(), key: key}
	var saved struct{ ID string }
	if err := w.do(ctx, &saved, saveWallet, map[string]any{"settings": wallet}); err != nil {
		return fmt.Errorf("save the wallet of %s: %w", name, err)
	}
	a, err := d.createPost(ctx, w.client, "Zap my own wallet, says "+name, "OPTIMISTIC")
	if err != nil {
		return err
	}
	w.post = a.Result.Item.ID
	_, err = d.payAndAwait(ctx, w.client, a)
	return err
}

// A zap of this many sats gives the writer 70,700 msat, and us zapFee less the routing fee.
const (
	zapSats  = 101
	zapFee   = 30_300
	directly = "PAID, 70700 msat"
)

func (d *Demo) wrap(ctx context.Context, payer client, to writer) (action, error) {
	return payer.act(ctx, zapMutation, map[string]any{"item": to.post, "sats": zapSats, "method": "P2P"})
}

// paidDirectly returns the outcome of a PAID wrapped zap: the receiver's share, and that our fee is booked.
func (d *Demo) paidDirectly(ctx context.Context, a action) (string, error) {
	o, err := d.booked(ctx, a)
	if err != nil {
		return "", err
	}
	ours, err := d.postedTo(ctx, a, func(to ledger.Account) bool { return to != ledger.Lightning && to != ledger.RoutingSats })
	if err == nil && ours != zapFee-o.fee {
		err = fmt.Errorf("a fee of %d msat is booked, %d are ours", ours, zapFee-o.fee)
	}
	return fmt.Sprintf("PAID, %d msat", o.msat), err
}

func wrappedZap(to func(*Demo) writer) func(context.Context, *Demo) (string, error) {
	return func(ctx context.Context, d *Demo) (string, error) {
		return d.wrapAndPay(ctx, d.payer, to(d))
	}
}

// wrapAndPay zaps and pays, and returns the outcome.
func (d *Demo) wrapAndPay(ctx context.Context, payer client, to writer) (string, error) {
	a, err := d.wrap(ctx, payer, to)
	if err != nil {
		return "", err
	}
	last, err := d.payAndAwait(ctx, payer, a)
	if err != nil || last.State != "PAID" {
		return last.State, err
	}
	return d.paidDirectly(ctx, a)
}

// wrappedByNobody is a wrapped zap by somebody who is not signed in: it is performed once the payment is held.
func wrappedByNobody(ctx context.Context, d *Demo) (string, error) {
	return d.wrapAndPay(ctx, client{url: d.stack.URL()}, d.byAddress)
}

func wrappedUnpaid(ctx context.Context, d *Demo) (string, error) {
	a, err := d.wrap(ctx, d.payer, d.byAddress)
	if err != nil {
		return "", err
	}
	last, err := d.payer.cancel(ctx, a)
	if err != nil || last.Failure == nil {
		return last.State, err
	}
	if p := <-d.pay(ctx, a); p.err == nil && p.Settled {
		return "", errors.New("the cancelled invoice could be paid")
	}
	inner, err := d.stack.Network.Node(devnet.Receiver).Issued(ctx, a.Invoice.Hash)
	if err == nil && inner.PaidMsat != 0 {
		err = fmt.Errorf("the receiver has %d msat", inner.PaidMsat)
	}
	return last.State + " " + last.Failure.Code, err
}

// walletRefuses zaps with any method. The receiver's wallet gives no invoice, so the money comes to us, for the
// receiver's balance.
func walletRefuses(ctx context.Context, d *Demo) (string, error) {
	d.stack.Network.ReceiverAnswers(devnet.Refusing)
	defer d.stack.Network.ReceiverAnswers(devnet.Honest)
	return d.zapAnyhow(ctx, d.byAddress)
}

func receiverDown(ctx context.Context, d *Demo) (string, error) {
	d.stack.Network.StopNode(devnet.Receiver)
	got, err := d.zapAnyhow(ctx, d.byNode)
	return got, errors.Join(err, d.stack.Network.StartNode(ctx, devnet.Receiver))
}

func (d *Demo) zapAnyhow(ctx context.Context, to writer) (string, error) {
	a, err := d.late.act(ctx, zapMutation, map[string]any{"item": to.post, "sats": zapSats})
	if err != nil {
		return "", err
	}
	last, err := d.payAndAwait(ctx, d.late, a)
	return last.State + " by " + last.Method, err
}

// outgoingFails has the receiver give back the payment of its own invoice. The payer gets their money back, and pays
// the next attempt, which is there without being asked for. The payer has no credits, or the attempt would be paid with
// these.
func outgoingFails(ctx context.Context, d *Demo) (string, error) {
	a, paid, err := d.wrapAndHang(ctx, d.late)
	if err != nil {
		return "", err
	}
	if err := d.stack.Network.Node(devnet.Receiver).Cancel(ctx, a.Invoice.Hash); err != nil {
		return "", err
	}
	last, err := d.late.await(ctx, a, "RETRYING", "PAID")
	if err != nil {
		return last.State, err
	}
	if p := <-paid; p.err != nil || p.Settled {
		return last.State + ", payment kept", p.err
	}
	next, err := d.offered(ctx, d.late, last.Successor)
	if err != nil {
		return last.State, err
	}
	after, err := d.payAndAwait(ctx, d.late, next)
	if err != nil || after.State != "PAID" {
		return last.State + ", " + after.State, err
	}
	_, err = d.paidDirectly(ctx, next)
	return last.State + ", " + after.State, err
}

// offered is an attempt that nobody has asked for, once it can be paid.
func (d *Demo) offered(ctx context.Context, c client, id string) (action, error) {
	for {
		a, err := c.act(ctx, `query ($id: ID!) { paidAction(id: $id)`+fields+` }`, map[string]any{"id": id})
		if err != nil || (a.Invoice != nil && a.Invoice.Bolt11 != "") {
			return a, err
		}
		if err := pause(ctx); err != nil {
			return a, err
		}
	}
}

// wrapAndHang zaps and pays. It returns once the receiver's node holds the payment of its hold invoice.
func (d *Demo) wrapAndHang(ctx context.Context, payer client) (action, <-chan payment, error) {
	d.stack.Network.ReceiverAnswers(devnet.Holding)
	a, err := d.wrap(ctx, payer, d.byAddress)
	d.stack.Network.ReceiverAnswers(devnet.Honest)
	if err != nil {
		return a, nil, err
	}
	paid := d.pay(ctx, a)
	return a, paid, d.stack.Network.Node(devnet.Receiver).AwaitHeld(ctx, a.Invoice.Hash)
}
