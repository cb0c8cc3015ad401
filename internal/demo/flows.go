package demo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// flows are all flows, in the order in which they are shown.
var flows = []flow{
	{"buy credits, by hold invoice", "PAID", buyCredits},
	{"zap from the balance of credits", "PAID by FEE_CREDIT", creditsZap},
	{"donation from the balance of sats", "PAID by REWARD_SATS", satsDonation},
	{"a post changed for nothing", "PAID by ZERO_COST", changedForNothing},
	{"zap, optimistic, paid", "PENDING, PAID", optimisticZap},
	{"anonymous post, by hold invoice", "PENDING_HELD, PAID", anonymousPost},
	{"performing fails while the payment is held: it comes back", "FAILED, payment back", performFails},
	{"cancelled by the payer", "FAILED CANCELED", cancelled},
	{"the same idempotency key twice: one action", "same action", idempotent},
	{"territory founded, a year of it, and the next", "PAID, PAID, PAID", territoryPaid},
	{"a link, a poll, a bounty, a job and a bio, optimistic", "PAID, PAID, PAID, PAID, PAID", kindsOfItems},
	{"a vote in the poll, optimistic", "PENDING, PAID", pollVote},
	{"anonymous comment with an image, by hold invoice", "PENDING_HELD, PAID", commentWithFile},
	{"a post changed and boosted, by hold invoice", "PENDING_HELD, PAID", updateWithBoost},
	{"down-zap, optimistic", "PENDING, PAID", simple("downZap", "OPTIMISTIC", "item: POST, sats: 5")},
	{"boost, optimistic", "PENDING, PAID", simple("boost", "OPTIMISTIC", "item: POST, sats: 7")},
	{"donation, by hold invoice", "PENDING_HELD, PAID", simple("donate", "PESSIMISTIC", "sats: 21")},
	{"sent to somebody without a wallet, anonymous", "PENDING_HELD, PAID", receive},
	{"sent to somebody with a wallet, anonymous: straight there", "PAID, 90000 msat", receiveDirectly},
	{"an invite redeemed: a gift from the inviter's credits", "10000 msat", redeemInvite},

	{"service killed (SIGKILL) while a payment is held", "PAID", serviceKilled},
	{"LND restarted while an invoice is open", "PAID", lndRestarted},
	{"our first LND stopped: the second issues", "PAID by holdfast2", nodeStopped},
	{"PostgreSQL restarted: the open invoice, and new payments, go on", "PAID, PAID", postgresRestarted},

	{"wrapped zap, to a lightning address", directly, wrappedZap(func(d *Demo) writer { return d.byAddress })},
	{"wrapped zap, to the receiver's own LND", directly, wrappedZap(func(d *Demo) writer { return d.byNode })},
	{"wrapped zap, anonymous", directly, wrappedByNobody},
	{"wrapped zap, not paid: cancelled, nothing sent", "FAILED CANCELED", wrappedUnpaid},
	{"the receiver's wallet gives no invoice: another method", "PAID by OPTIMISTIC", walletRefuses},
	{"the receiver's node is down: another method", "PAID by OPTIMISTIC", receiverDown},
	{"wrapped zap, refused by the receiver: money back, tried again", "RETRYING, PAID", outgoingFails},
	{"withdrawal to an invoice; what routing did not cost comes back", "PAID, 21000 msat", withdrawToInvoice},
	{"withdrawal to a lightning address", "PAID, 34000 msat", withdrawToAddress},
	{"withdrawal to an open invoice of ours: cancelled, paid inside", "PAID, PAID, 20000 msat", withdrawInside},
	{"withdrawal with too low a limit for routing", "FAILED, all back", withdrawTooLow},
	{"two withdrawals of the same invoice at once", "PAID, DUPLICATE", withdrawTwice},
	{"one of our nodes stopped: the other sends", "PAID, PAID by holdfast", senderStopped},

	{"killed (SIGKILL) between the claim and the send", directly, killedBeforeSend},
	{"killed (SIGKILL) between the send and its result", directly, killedBeforeResult},
	{"killed (SIGKILL) between the preimage and the settling", "FORWARDED, PAID", killedBeforeSettle},

	{"the receiver lets a payment hang: others go on, then money back", "FORWARDING, RETRYING", receiverHangs},

	{"a territory that nobody paid for is stopped, and taken over", "PENDING_HELD, PAID", takeOver},
}

// expired runs in parallel with the others, because it waits.
var expired = flow{"zap, optimistic, not paid: expired, failed, retried, paid", "FAILED EXPIRED, PAID", expiredAndRetried}

const (
	zapMutation  = `mutation ($item: ID!, $sats: Sats!, $method: PaymentMethod, $key: String) { zap(item: $item, sats: $sats, paymentMethod: $method, idempotencyKey: $key)` + fields + ` }`
	buyMutation  = `mutation ($credits: Sats!) { buyCredits(credits: $credits)` + fields + ` }`
	retryAction  = `mutation ($id: ID!, $secret: String) { retryPaidAction(id: $id, secret: $secret)` + fields + ` }`
	cancelAction = `mutation ($id: ID!, $secret: String) { cancelInvoice(id: $id, secret: $secret)` + fields + ` }`
)

var postMutation = `mutation ($title: String!, $method: PaymentMethod) { createPost(title: $title, paymentMethod: $method)` + itemFields + ` }`

func (d *Demo) zap(ctx context.Context, sats int, method string) (action, error) {
	return d.payer.act(ctx, zapMutation, map[string]any{"item": d.post, "sats": sats, "method": nonEmpty(method)})
}

func (d *Demo) createPost(ctx context.Context, c client, title, method string) (action, error) {
	return c.act(ctx, postMutation, map[string]any{"title": title, "method": nonEmpty(method)})
}

// pay pays an action's invoice from the payer's node. The outcome arrives on the channel.
func (d *Demo) pay(ctx context.Context, a action) <-chan payment {
	done := make(chan payment, 1)
	go func() {
		p, err := d.stack.Network.Node(devnet.Payer).Pay(ctx, a.Invoice.Bolt11)
		done <- payment{p, err}
	}()
	return done
}

type payment struct {
	devnet.Payment
	err error
}

// payAndAwait pays, and waits until the action is PAID or has failed.
func (d *Demo) payAndAwait(ctx context.Context, c client, a action) (action, error) {
	if a.Invoice == nil {
		return a, fmt.Errorf("action %s has no invoice", a.ID)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	paid := make(chan payment, 1)
	go func() {
		p := <-d.pay(ctx, a)
		if p.err != nil {
			cancel(fmt.Errorf("pay: %w", p.err))
		}
		paid <- p
	}()
	last, err := c.await(ctx, a, "PAID", "FAILED")
	if err != nil {
		return last, err
	}
	if p := <-paid; p.err != nil {
		return last, fmt.Errorf("pay: %w", p.err)
	} else if p.Settled != (last.State == "PAID") {
		return last, fmt.Errorf("the action is %s, and the payer's node says settled: %t (%s)", last.State, p.Settled, p.Failure)
	}
	return last, nil
}

func buyCredits(ctx context.Context, d *Demo) (string, error) {
	a, err := d.payer.act(ctx, buyMutation, map[string]any{"credits": 500})
	if err != nil {
		return "", err
	}
	last, err := d.payAndAwait(ctx, d.payer, a)
	return last.State, err
}

func creditsZap(ctx context.Context, d *Demo) (string, error) {
	a, err := d.zap(ctx, 10, "")
	return a.State + " by " + a.Method, err
}

func optimisticZap(ctx context.Context, d *Demo) (string, error) {
	a, err := d.zap(ctx, 10, "OPTIMISTIC")
	if err != nil {
		return "", err
	}
	last, err := d.payAndAwait(ctx, d.payer, a)
	return a.State + ", " + last.State, err
}

func expiredAndRetried(ctx context.Context, d *Demo) (string, error) {
	a, err := d.late.act(ctx, zapMutation, map[string]any{"item": d.post, "sats": 21})
	if err != nil {
		return "", err
	}
	failed, err := d.late.await(ctx, a, "FAILED", "PAID")
	if err != nil || failed.Failure == nil {
		return failed.State, err
	}
	d.serving.RLock()
	defer d.serving.RUnlock()
	again, err := d.late.act(ctx, retryAction, map[string]any{"id": a.ID})
	if err != nil {
		return "", err
	}
	last, err := d.payAndAwait(ctx, d.late, again)
	return failed.State + " " + failed.Failure.Code + ", " + last.State, err
}

func anonymousPost(ctx context.Context, d *Demo) (string, error) {
	anonymous := client{url: d.stack.URL()}
	a, err := d.createPost(ctx, anonymous, "Nobody wrote this", "")
	if err != nil {
		return "", err
	}
	last, err := d.payAndAwait(ctx, anonymous, a)
	return a.State + ", " + last.State, err
}

// performFails pays for the same post twice. The second cannot be performed, because the same text was just posted.
func performFails(ctx context.Context, d *Demo) (string, error) {
	anonymous := client{url: d.stack.URL()}
	var both [2]action
	var err error
	for i := range both {
		if both[i], err = d.createPost(ctx, anonymous, "Twice the same", ""); err != nil {
			return "", err
		}
	}
	if first, err := d.payAndAwait(ctx, anonymous, both[0]); err != nil || first.State != "PAID" {
		return "the first: " + first.State, err
	}
	paid := d.pay(ctx, both[1])
	last, err := anonymous.await(ctx, both[1], "FAILED", "PAID")
	if err != nil {
		return "", err
	}
	if p := <-paid; p.err != nil || p.Settled {
		return last.State + ", payment kept", p.err
	}
	return last.State + ", payment back", nil
}

func cancelled(ctx context.Context, d *Demo) (string, error) {
	a, err := d.zap(ctx, 10, "OPTIMISTIC")
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
	return last.State + " " + last.Failure.Code, nil
}

func idempotent(ctx context.Context, d *Demo) (string, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	variables := map[string]any{"item": d.post, "sats": 10, "key": hex.EncodeToString(random[:])}
	first, err := d.payer.act(ctx, zapMutation, variables)
	if err != nil {
		return "", err
	}
	second, err := d.payer.act(ctx, zapMutation, variables)
	if err != nil || first.ID != second.ID {
		return fmt.Sprintf("actions %s and %s", first.ID, second.ID), err
	}
	return "same action", nil
}

// serviceKilled kills the service in the middle of performing an action whose payment is held. The table that it writes
// to is locked, so it cannot get further, and the kill hits it there every time.
func serviceKilled(ctx context.Context, d *Demo) (string, error) {
	anonymous := client{url: d.stack.URL()}
	a, err := d.createPost(ctx, anonymous, "Written through a crash", "")
	if err != nil {
		return "", err
	}
	items, err := d.lockTable(ctx, "item")
	if err != nil {
		return "", err
	}
	defer items.release(ctx)
	paid := d.pay(ctx, a)
	if err := items.reached(ctx); err != nil { // the service waits there while the payment is held
		return "", err
	}
	if err := d.whileKilled(ctx, func() error { items.release(ctx); return nil }); err != nil {
		return "", err
	}
	last, err := anonymous.await(ctx, a, "PAID", "FAILED")
	if err != nil {
		return "", err
	}
	if p := <-paid; p.err != nil || !p.Settled {
		return last.State + ", payment not settled", p.err
	}
	return last.State, nil
}

func lndRestarted(ctx context.Context, d *Demo) (string, error) {
	anonymous := client{url: d.stack.URL()}
	a, err := d.createPost(ctx, anonymous, "Older than the node's uptime", "")
	if err != nil {
		return "", err
	}
	node, err := d.issuer(ctx, a)
	if err != nil {
		return "", err
	}
	if err := d.stack.Network.RestartNode(ctx, node.Name()); err != nil {
		return "", err
	}
	last, err := d.payAndAwait(ctx, anonymous, a)
	return last.State, err
}

// issuer is the node that issued the action's invoice.
func (d *Demo) issuer(ctx context.Context, a action) (*devnet.Node, error) {
	var unknown []error
	for _, node := range d.stack.Network.Ours() {
		_, err := node.Issued(ctx, a.Invoice.Hash)
		if err == nil {
			return node, nil
		}
		unknown = append(unknown, err)
	}
	return nil, errors.Join(unknown...)
}

func nodeStopped(ctx context.Context, d *Demo) (string, error) {
	d.stack.Network.StopNode(devnet.Holdfast)
	anonymous := client{url: d.stack.URL()}
	a, err := d.createPost(ctx, anonymous, "The other node is up", "")
	var last action
	if err == nil {
		last, err = d.payAndAwait(ctx, anonymous, a)
	}
	if err := errors.Join(err, d.stack.Network.StartNode(ctx, devnet.Holdfast)); err != nil {
		return "", err
	}
	node, err := d.issuer(ctx, a)
	if err != nil {
		return "", err
	}
	return last.State + " by " + node.Name(), nil
}

func postgresRestarted(ctx context.Context, d *Demo) (string, error) {
	a, err := d.zap(ctx, 10, "OPTIMISTIC")
	if err != nil {
		return "", err
	}
	if err := d.stack.Postgres.Restart(ctx); err != nil {
		return "", err
	}
	last, err := d.payAndAwait(ctx, d.payer, a)
	if err != nil {
		return "", err
	}
	next, err := d.zap(ctx, 10, "FEE_CREDIT")
	return last.State + ", " + next.State, err
}

// eventToPaid zaps once, and measures the time between the settled event of our own subscription at the node and PAID
// at a subscriber of the API. Both are clients outside the service, so the cost of the network is in neither or in
// both.
func (d *Demo) eventToPaid(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, flowTimeout)
	defer cancel()
	a, err := d.zap(ctx, 1, "OPTIMISTIC")
	if err != nil {
		return 0, err
	}
	hash, err := hashOf(a)
	if err != nil {
		return 0, err
	}
	node, err := d.issuer(ctx, a)
	if err != nil {
		return 0, err
	}
	settled := make(chan time.Time, 1)
	watching := make(chan error, 1)
	go func() {
		watching <- d.nodes[node.Name()].WatchInvoice(ctx, hash, func(e paidaction.InvoiceEvent) error {
			if e.State == paidaction.InvoiceSettled {
				settled <- time.Now()
			}
			return nil
		})
	}()
	subscribed := make(chan struct{})
	seen := make(chan time.Time, 1)
	following := make(chan error, 1)
	go func() {
		first := true
		following <- d.payer.follow(ctx, a, func(now action) bool {
			if first {
				close(subscribed)
				first = false
			}
			if now.State == "PAID" {
				seen <- time.Now()
			}
			return now.State != "PAID"
		})
	}()
	select {
	case <-subscribed:
	case err := <-following:
		return 0, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if p := <-d.pay(ctx, a); p.err != nil || !p.Settled {
		return 0, fmt.Errorf("the zap was not paid: %w", p.err)
	}
	if err := errors.Join(<-watching, <-following); err != nil {
		return 0, err
	}
	return max(0, (<-seen).Sub(<-settled)), nil
}

func hashOf(a action) (hash paidaction.Hash, err error) {
	_, err = hex.Decode(hash[:], []byte(a.Invoice.Hash))
	return hash, err
}
