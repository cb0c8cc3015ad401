package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

const (
	receiveMutation  = `mutation ($user: ID!, $msat: Msat!) { receive(user: $user, msat: $msat)` + fields + ` }`
	withdrawMutation = `mutation ($to: String!, $sats: Sats, $fee: Sats!) { withdraw(to: $to, sats: $sats, maxFeeSats: $fee)` + fields + ` }`
)

// me is what a user sees of themselves. The balance of sats is in msat.
type me struct {
	User struct {
		ID string `json:"id"`
	} `json:"user"`
	Sats string `json:"satsMsat"`
}

func (c client) me(ctx context.Context) (user string, sats int64, err error) {
	var m me
	if err := c.do(ctx, &m, `query { me { user { id } satsMsat } }`, nil); err != nil {
		return "", 0, err
	}
	sats, err = strconv.ParseInt(m.Sats, 10, 64)
	return m.User.ID, sats, err
}

// signUpSaver makes somebody without a wallet who has received sats.
func (d *Demo) signUpSaver(ctx context.Context, name string) (client, error) {
	key, err := SignUp(ctx, d.stack.URL(), name)
	if err != nil {
		return client{}, err
	}
	c := client{url: d.stack.URL(), key: key}
	user, _, err := c.me(ctx)
	if err != nil {
		return c, err
	}
	anonymous := client{url: d.stack.URL()}
	a, err := anonymous.act(ctx, receiveMutation, map[string]any{"user": user, "msat": "10000000"})
	if err != nil {
		return c, err
	}
	_, err = d.payAndAwait(ctx, anonymous, a)
	return c, err
}

func (c client) withdraw(ctx context.Context, to string, sats *int64, maxFee int64) (action, error) {
	return c.act(ctx, withdrawMutation, map[string]any{"to": to, "sats": sats, "fee": maxFee})
}

// withdrawAndAwait withdraws, and checks that the balance has dropped by exactly the amount sent plus its fee.
func (d *Demo) withdrawAndAwait(ctx context.Context, c client, to string, sats *int64, maxFee int64) (string, error) {
	_, before, err := c.me(ctx)
	if err != nil {
		return "", err
	}
	a, err := c.withdraw(ctx, to, sats, maxFee)
	if err != nil {
		return "", err
	}
	last, err := c.await(ctx, a, "PAID", "FAILED")
	if err != nil {
		return last.State, err
	}
	_, after, err := c.me(ctx)
	if err != nil {
		return last.State, err
	}
	if last.State == "FAILED" {
		return fmt.Sprintf("FAILED, %s", back(before-after)), nil
	}
	o, err := d.booked(ctx, a)
	if err == nil && before-after != o.msat+o.fee {
		err = fmt.Errorf("the balance is less by %d msat; %d were sent, and routing cost %d", before-after, o.msat, o.fee)
	}
	return fmt.Sprintf("%s, %d msat", last.State, o.msat), err
}

// back says whether everything came back, given what is missing.
func back(missing int64) string {
	if missing == 0 {
		return "all back"
	}
	return fmt.Sprintf("%d msat missing", missing)
}

func (d *Demo) receiversInvoice(ctx context.Context, msat int64) (string, error) {
	return d.stack.Network.Node(devnet.Receiver).Invoice(ctx, msat, "withdrawn")
}

func withdrawToInvoice(ctx context.Context, d *Demo) (string, error) {
	bolt11, err := d.receiversInvoice(ctx, 21_000)
	if err != nil {
		return "", err
	}
	return d.withdrawAndAwait(ctx, d.savers[0], bolt11, nil, 10)
}

func withdrawToAddress(ctx context.Context, d *Demo) (string, error) {
	return d.withdrawAndAwait(ctx, d.savers[0], d.stack.Network.LightningAddress(), new(int64(34)), 10)
}

// withdrawInside withdraws to somebody's invoice for a zap, which is a plain one of ours. The node takes no payment for
// it any more, and the zap counts all the same.
func withdrawInside(ctx context.Context, d *Demo) (string, error) {
	zap, err := d.late.act(ctx, zapMutation, map[string]any{"item": d.post, "sats": 20, "method": "OPTIMISTIC"})
	if err != nil {
		return "", err
	}
	_, before, err := d.savers[1].me(ctx)
	if err != nil {
		return "", err
	}
	a, err := d.savers[1].withdraw(ctx, zap.Invoice.Bolt11, nil, 10)
	if err != nil {
		return "", err
	}
	last, err := d.savers[1].await(ctx, a, "PAID", "FAILED")
	if err != nil {
		return last.State, err
	}
	zapped, err := d.late.await(ctx, zap, "PAID", "FAILED")
	if err != nil {
		return last.State + ", " + zapped.State, err
	}
	_, after, err := d.savers[1].me(ctx)
	if err != nil {
		return "", err
	}
	if p := <-d.pay(ctx, zap); p.err == nil && p.Settled {
		return "", errors.New("the invoice was paid a second time")
	}
	return fmt.Sprintf("%s, %s, %d msat", last.State, zapped.State, before-after), nil
}

func withdrawTooLow(ctx context.Context, d *Demo) (string, error) {
	bolt11, err := d.receiversInvoice(ctx, 55_000)
	if err != nil {
		return "", err
	}
	return d.withdrawAndAwait(ctx, d.savers[0], bolt11, nil, 0)
}

// withdrawTwice has two people withdraw to the same invoice at the same moment. One of them pays it; the other keeps
// their money.
func withdrawTwice(ctx context.Context, d *Demo) (string, error) {
	bolt11, err := d.receiversInvoice(ctx, 89_000)
	if err != nil {
		return "", err
	}
	type outcome struct {
		got string
		err error
	}
	outcomes := make(chan outcome, len(d.savers))
	for _, c := range d.savers {
		go func() {
			_, before, err := c.me(ctx)
			if err != nil {
				outcomes <- outcome{err: err}
				return
			}
			a, err := c.withdraw(ctx, bolt11, nil, 10)
			if refused := (*apiclient.Refusal)(nil); errors.As(err, &refused) {
				_, after, err := c.me(ctx)
				if err == nil && before != after {
					err = errors.New(back(before - after))
				}
				outcomes <- outcome{string(refused.Code), err}
				return
			}
			if err != nil {
				outcomes <- outcome{err: err}
				return
			}
			last, err := c.await(ctx, a, "PAID", "FAILED")
			if err == nil {
				_, err = d.booked(ctx, a)
			}
			outcomes <- outcome{last.State, err}
		}()
	}
	one, other := <-outcomes, <-outcomes
	if other.got == "PAID" {
		one, other = other, one
	}
	return one.got + ", " + other.got, errors.Join(one.err, other.err)
}

// senderStopped withdraws, and zaps somebody directly, while our second node is down.
func senderStopped(ctx context.Context, d *Demo) (string, error) {
	d.stack.Network.StopNode(devnet.Holdfast2)
	got, err := d.sendWithOne(ctx)
	return got, errors.Join(err, d.stack.Network.StartNode(ctx, devnet.Holdfast2))
}

func (d *Demo) sendWithOne(ctx context.Context) (string, error) {
	bolt11, err := d.receiversInvoice(ctx, 13_000)
	if err != nil {
		return "", err
	}
	a, err := d.savers[0].withdraw(ctx, bolt11, nil, 10)
	if err != nil {
		return "", fmt.Errorf("withdraw: %w", err)
	}
	withdrawn, err := d.savers[0].await(ctx, a, "PAID", "FAILED")
	if err != nil {
		return "", err
	}
	b, err := d.wrap(ctx, d.payer, d.byAddress)
	if err != nil {
		return "", fmt.Errorf("zap: %w", err)
	}
	zapped, err := d.payAndAwait(ctx, d.payer, b)
	if err != nil {
		return "", err
	}
	payment, err := d.stack.Network.Node(devnet.Holdfast).Paid(ctx, b.Invoice.Hash)
	if err == nil && (payment == nil || !payment.Settled) {
		err = fmt.Errorf("the first node's payment: %+v", payment)
	}
	return withdrawn.State + ", " + zapped.State + " by " + devnet.Holdfast, err
}
