package chaos

import (
	"context"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// pay has the payer's node pay an invoice until it is paid, or the action has ended otherwise. It asks for a payment
// again only once the node says that none is in flight.
func (c *crowd) pay(ctx context.Context, p *person, a action, secret string) {
	for {
		if c.payOnce(ctx, a).Settled || wait(ctx, lookEvery) != nil {
			return
		}
		now, err := p.look(ctx, a.ID, secret)
		if err != nil || now.State.Terminal() || now.State == paidaction.Canceling {
			return
		}
	}
}

// payOnce makes payments one after the other: each until the node that issued the invoice has the payment. LND 0.21
// miscounts the payments of one commitment if some of them have ended when the channel is re-established (htlcswitch,
// processRemoteAdds: it takes the index among the remaining payments for the index among all). It then never forgets
// one of them, and gives the channel up at the next re-establishment. So no two payments may come in one commitment.
func (c *crowd) payOnce(ctx context.Context, a action) devnet.Payment {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return devnet.Payment{}
	}
	ended := make(chan devnet.Payment, 1)
	go func() {
		payment, err := c.network.Node(devnet.Payer).Pay(ctx, a.Invoice.Bolt11)
		if err != nil { // the node is down, or already has such a payment
			payment = c.outcome(ctx, a.Invoice.Hash)
		}
		ended <- payment
	}()
	for look := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case payment := <-ended:
			look.Stop()
			<-c.turn
			return payment
		case <-look.C:
			if c.arrived(ctx, a.Invoice.Hash) {
				look.Stop()
				<-c.turn
				return <-ended
			}
		}
	}
}

// arrived reports whether one of the service's nodes holds the payment, or has already acted on it.
func (c *crowd) arrived(ctx context.Context, hash string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for _, ours := range c.network.Ours() {
		if invoice, err := ours.Issued(ctx, hash); err == nil && invoice.State != "OPEN" {
			return true
		}
	}
	return false
}

// outcome waits until the payer's node knows the outcome of its payment. A payment that was never made has failed.
func (c *crowd) outcome(ctx context.Context, hash string) devnet.Payment {
	for wait(ctx, lookEvery) == nil {
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		known, err := c.network.Node(devnet.Payer).Paid(asking, hash)
		cancel()
		switch {
		case err != nil:
		case known == nil:
			return devnet.Payment{Failure: "never made"}
		case known.Settled || known.Failure != "":
			return *known
		}
	}
	return devnet.Payment{}
}
