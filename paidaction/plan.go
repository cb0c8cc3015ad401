package paidaction

import (
	"context"
	"fmt"
	"time"
)

// plan is what must be known from outside before an attempt's transaction: no node or wallet is called inside one.
type plan struct {
	node    string   // the node that opens the invoice
	memo    string   // what the invoice says of the action, unless the payer hides that
	forward *Forward // for P2P
	payout  *Payout  // for a withdrawal
	quoted  Msat     // the price that forward was made for
}

// afterSearch is what a search for a wallet leaves of a request, whose mutations have its time together: an earlier one may
// have taken most of it.
const afterSearch = 2 * time.Second

// hideMemo has the invoice say nothing of the action if its payer wants that: a custodian of their wallet would read it.
// hides is nil where there is no invoice.
func (p *plan) hideMemo(ctx context.Context, hides func(context.Context) (bool, error)) error {
	if hides == nil {
		return nil
	}
	hidden, err := hides(ctx)
	if err != nil {
		return fmt.Errorf("read whether the payer hides descriptions: %w", err)
	}
	if hidden {
		p.memo = ""
	}
	return nil
}

// plan finds out what a method needs. errNotOpen where another method may work.
func (e *Engine) plan(ctx context.Context, a *attempt, m Method) (p plan, err error) {
	if m.Flow() == FlowBalance {
		return p, nil
	}
	if (m == P2P || m == Outgoing) && e.Relay == nil || m == P2P && a.indirect {
		return p, errNotOpen
	}
	if m == P2P || m == Outgoing {
		if err := e.unused(ctx, a); err != nil {
			return p, err
		}
	}
	if m == Outgoing {
		a.turn.Leave() // nobody waits for a stranger's server
		payee, err := a.def.payee(a.args)
		if err != nil {
			return p, err
		}
		payout, err := e.Relay.Resolve(ctx, payee)
		p.payout = &payout
		return p, err
	}
	var peers []Peer
	if m == P2P {
		if p.quoted, peers, err = e.quote(ctx, a); err != nil {
			return p, err
		}
	}
	if p.memo, err = a.def.describe(a.args); err != nil {
		return p, err
	}
	if p.node, err = e.Nodes.Issuer(ctx); err != nil || m != P2P {
		return p, err
	}
	search, cancel := context.WithTimeout(ctx, e.Settings.SearchTimeout)
	defer cancel()
	limited := search
	if until, ends := ctx.Deadline(); ends {
		limited, cancel = context.WithDeadline(search, until.Add(-afterSearch))
		defer cancel()
	}
	p.forward, err = e.wrap(limited, a, p, peers)
	if err != nil && limited.Err() != nil && ctx.Err() == nil { // the time that is left is for another method
		if search.Err() == nil && a.chosen && !a.unasked { // there is none: it had less time than the receiver's wallets may take
			return p, Errorf(CodeTryAgain, "There was no time left to ask the receiver's wallet. Nothing was changed. Try again.")
		}
		return p, fmt.Errorf("%w: there was no time to find a way to a wallet", errNotOpen)
	}
	return p, err
}

// unused is errKeyUsed where the key of an attempt was used before. No stranger is asked again for what is done: whoever
// repeats a request would wait for them, and what they fail to give would count against them. Whoever repeats it while it
// is under way waits for its end.
func (e *Engine) unused(ctx context.Context, a *attempt) error {
	if a.key == nil {
		return nil
	}
	if a.done == nil {
		var payer int64
		if a.payer != nil {
			payer = *a.payer
		}
		var err error
		a.done, err = e.keys.Take(ctx, fmt.Sprint(payer, " ", *a.key), func(ctx context.Context, still func() bool) {
			a.turn.Leave() // the one that is under way may have to wait for this turn
			if e.Hooks.Wait != nil {
				e.Hooks.Wait(ctx, still)
			}
		})
		if err != nil {
			return err
		}
	}
	_, used, err := e.winner(ctx, a)
	if used {
		return errKeyUsed
	}
	return err
}
