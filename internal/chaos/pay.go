package chaos

import (
	"context"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// pay has the payer's node pay an invoice until it is paid, or the action has ended otherwise. A payment is asked for again only once
// the node says that there is none under way.
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

// payOnce pays one after the other, until the node that issued the invoice has the payment. LND 0.21 counts the payments of one
// commitment wrongly if some of them have ended when the channel is taken up again (htlcswitch, processRemoteAdds: the place among those
// that are left is taken for the place among all), never forgets one of them, and gives the channel up when it is taken up once more. So
// no two may come in one commitment.
func (c *crowd) payOnce(ctx context.Context, a action) devnet.Payment {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return devnet.Payment{}
	}
	ended := make(chan devnet.Payment, 1)
	go func() {
		payment, err := c.network.Node(devnet.Payer).Pay(ctx, a.Invoice.Bolt11)
		if err != nil { // the node is down, or has such a payment
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

// arrived tells whether one of the service's nodes holds the payment, or has done something with it.
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

// outcome waits until the payer's node knows what became of its payment; one that was never made has failed.
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
