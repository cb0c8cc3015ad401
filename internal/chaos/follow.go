package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// lookEvery is how often a client looks at what it is waiting for.
const lookEvery = 500 * time.Millisecond

// follow watches an action and its following attempts to the end, and does with their invoices what the payer does.
func (c *crowd) follow(ctx context.Context, p *person, a action, m manner) (action, error) {
	var payments sync.WaitGroup
	defer payments.Wait()
	secret := a.Secret
	seen := "" // the invoice that was last dealt with
	for {
		c.book.saw(p, a)
		var err error
		switch {
		case a.State == paidaction.Paid, a.State == paidaction.Failed && m != returns:
			return a, nil
		case a.State == paidaction.Failed:
			m = pays
			a, err = c.again(ctx, p, a, secret)
		case a.State == paidaction.Retrying:
			a, err = p.look(ctx, a.Successor, secret)
		default:
			if a.Invoice != nil && a.Invoice.Bolt11 != "" && a.Invoice.Hash != seen {
				seen = a.Invoice.Hash
				c.deal(ctx, &payments, p, a, secret, m)
			}
			if err := wait(ctx, lookEvery); err != nil {
				return a, err
			}
			if c.gaveUp(m, a) {
				_ = p.cancel(ctx, a.ID, secret) // too late is an answer too, and is seen at the next look
			}
			a, err = p.look(ctx, a.ID, secret)
		}
		if err != nil {
			return a, err
		}
	}
}

// again begins the next attempt. If an answer was lost, that attempt exists already.
func (c *crowd) again(ctx context.Context, p *person, a action, secret string) (action, error) {
	next, err := p.retry(ctx, a.ID, secret)
	if refused := (*apiclient.Refusal)(nil); errors.As(err, &refused) {
		return p.look(ctx, a.ID, secret)
	}
	if err == nil { // the earlier attempt is history now
		before, err := p.look(ctx, a.ID, secret)
		if err != nil {
			return a, err
		}
		c.book.saw(p, before)
	}
	return next, err
}

// deal does with a new invoice what the payer does.
func (c *crowd) deal(ctx context.Context, payments *sync.WaitGroup, p *person, a action, secret string, m manner) {
	switch m {
	case pays:
		payments.Go(func() { c.pay(ctx, p, a, secret) })
	case cancels:
		_ = p.cancel(ctx, a.ID, secret)
	}
}

// gaveUp reports whether it is time to cancel an unpaid invoice.
func (c *crowd) gaveUp(m manner, a action) bool {
	select {
	case <-c.closing:
		return m != pays && (a.State == paidaction.Pending || a.State == paidaction.PendingHeld)
	default:
		return false
	}
}
