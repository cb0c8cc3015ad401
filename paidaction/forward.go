package paidaction

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// plan is what has to be known of the outside before an attempt's transaction: no node and no wallet is called inside of one.
type plan struct {
	node    string   // that opens the invoice
	forward *Forward // of P2P
	payout  *Payout  // of a withdrawal
	quoted  Msat     // the price that forward was made for
}

// plan finds out what a method needs. errNotOpen where another method may work.
func (e *Engine) plan(ctx context.Context, a *attempt, m Method) (p plan, err error) {
	if m.Flow() == FlowBalance {
		return p, nil
	}
	if (m == P2P || m == Outgoing) && e.Relay == nil {
		return p, errNotOpen
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
	if p.node, err = e.Nodes.Issuer(ctx); err != nil || m != P2P {
		return p, err
	}
	p.forward, err = e.wrap(ctx, a, p, peers)
	return p, err
}

// quote computes the price and the peers of an attempt before it begins. errNotOpen where there is nobody to pay directly.
func (e *Engine) quote(ctx context.Context, a *attempt) (cost Msat, peers []Peer, err error) {
	err = e.inTx(ctx, func(q *db.Queries, _ *db.Transaction) error {
		tx := &Tx{DB: q, Previous: a.previous, Payer: a.payer, Method: P2P, Now: e.now(), source: ledger.Lightning, proof: a.proof}
		if tx.Cost, err = a.def.cost(ctx, tx, a.args); err != nil {
			return err
		}
		if err := a.agreed(tx.Cost); err != nil {
			return err // before a wallet is asked and a route is tried
		}
		cost = tx.Cost
		peers, err = a.def.peers(ctx, tx, a.args)
		return err
	})
	if err == nil && (cost == 0 || len(peers) == 0) {
		err = errNotOpen
	}
	return cost, peers, err
}

// wrap gets an invoice of the first peer who has a wallet that gives one. errNotOpen where none has.
func (e *Engine) wrap(ctx context.Context, a *attempt, p plan, peers []Peer) (*Forward, error) {
	memo, err := a.def.describe(a.args)
	if err != nil {
		return nil, err
	}
	var shares Msat
	for _, peer := range peers {
		shares += peer.Share
	}
	if shares > p.quoted {
		return nil, fmt.Errorf("%s promises its peers %d msat of %d", a.def.Spec().Kind, shares, p.quoted)
	}
	var genesis int64
	if a.genesis != nil {
		genesis = *a.genesis
	}
	for _, peer := range peers {
		if peer.Share <= 0 || (a.payer != nil && *a.payer == peer.Receiver) {
			continue
		}
		forward, err := e.Relay.Wrap(ctx, WrapRequest{Receiver: peer.Receiver, Genesis: genesis, Node: p.node, Outer: p.quoted, Share: peer.Share,
			Promised: shares - peer.Share, Memo: memo, Calling: a.turn.Leave})
		switch {
		case err == nil:
			return &forward, nil
		case !errors.Is(err, ErrNoReceiver):
			return nil, err
		}
	}
	return nil, errNotOpen
}

// wrappedInvoice is the outer invoice of an attempt; its preimage is the receiver's. It stores what is inside. The hash must never
// have been used before: a second outer invoice with it could be settled with the preimage of the first, and a withdrawal with it
// would be paid with our money.
func wrappedInvoice(ctx context.Context, q *db.Queries, a *attempt, tx *Tx, node string) (db.InsertInvoiceParams, error) {
	f := tx.Forward
	memo, err := a.def.describe(a.args)
	if err != nil {
		return db.InsertInvoiceParams{}, err
	}
	n, err := q.UseForeignHash(ctx, db.UseForeignHashParams{PaymentHash: f.Hash[:], Used: "WRAPPED"})
	if err != nil {
		return db.InsertInvoiceParams{}, fmt.Errorf("note the hash: %w", err)
	}
	if n == 0 {
		return db.InsertInvoiceParams{}, fmt.Errorf("%w: it gave the hash %s twice", errNotOpen, f.Hash)
	}
	inv := db.InsertInvoiceParams{
		ActionID: tx.Action, Node: node, PaymentHash: f.Hash[:], Hold: true, AmountMsat: int64(tx.Cost), Memo: memo,
		CltvDelta: int32(f.CLTVDelta), ExpiresAt: tx.Now.Add(f.Expiry), Chosen: a.chosen,
	}
	if a.payer == nil {
		inv.ClientHash = a.client
	}
	return inv, nil
}

// storeInner stores what is inside of the outer invoice.
func storeInner(ctx context.Context, q *db.Queries, action int64, f *Forward) error {
	err := q.InsertInner(ctx, db.InsertInnerParams{ActionID: action, ReceiverID: f.Receiver, WalletID: f.Wallet, Bolt11: f.Bolt11,
		AmountMsat: int64(f.Amount), BudgetMsat: int64(f.Budget), FinalCltv: int32(f.FinalCLTV), ExpiresAt: f.Expires})
	if err != nil {
		return fmt.Errorf("store the receiver's invoice: %w", err)
	}
	return nil
}

// claimForwards puts the payments to the receivers of these actions into the pipeline, now that their payers' are held. What one receiver has under way is
// bounded: they could let it hang, and with it the payer's money and our channels. Those that would be too many come back, and are not in the pipeline.
func (e *Engine) claimForwards(ctx context.Context, q *db.Queries, now time.Time, actions ...int64) (crowded []int64, err error) {
	if err := q.LockReceivers(ctx, actions); err != nil {
		return nil, fmt.Errorf("lock the receivers: %w", err)
	}
	inners, err := q.ForwardsToClaim(ctx, db.ForwardsToClaimParams{ActionIds: actions, At: now})
	if err != nil {
		return nil, fmt.Errorf("read the receivers' invoices, and what is under way: %w", err)
	}
	if len(inners) != len(actions) {
		return nil, fmt.Errorf("%d of %d wrapped invoices have one inside", len(inners), len(actions))
	}
	type capital struct{ payments, msat int64 }
	added := map[int64]capital{} // by these, to each receiver
	for _, inner := range inners {
		more := added[inner.ReceiverID]
		more.payments++
		more.msat += inner.AmountMsat + inner.BudgetMsat
		if inner.Payments+more.payments > e.Settings.MaxForwards || Msat(inner.Msat+more.msat) > e.Settings.MaxForwarded {
			crowded = append(crowded, inner.ActionID)
			continue
		}
		added[inner.ReceiverID] = more
	}
	actions = slices.DeleteFunc(slices.Clone(actions), func(id int64) bool { return slices.Contains(crowded, id) })
	n, err := q.AcceptForwards(ctx, db.AcceptForwardsParams{ActionIds: actions, At: now})
	if err != nil {
		return nil, fmt.Errorf("put the payments into the pipeline: %w", err)
	}
	if n != int64(len(actions)) {
		return nil, Errorf(CodeDuplicate, "This invoice was paid before. Your payment goes back to you.")
	}
	return crowded, nil
}

// forwardOf is what is inside of an invoice, as OnPaid sees it.
func forwardOf(inner db.InnerInvoice) *Forward {
	return &Forward{Receiver: inner.ReceiverID, Wallet: inner.WalletID, Bolt11: inner.Bolt11, Amount: Msat(inner.AmountMsat),
		Budget: Msat(inner.BudgetMsat), FinalCLTV: uint32(inner.FinalCltv), Expires: inner.ExpiresAt}
}

// forwarded is a forward that was made, and what is known of it.
type forwarded struct {
	tx      *Tx
	outcome Outcome
}

// accountForwards sets aside out of what the payers of wrapped actions paid what forwarding it took, and books it as spent where all of that is known. For the
// others finishForward does so.
func accountForwards(ctx context.Context, q *db.Queries, now time.Time, forwards ...forwarded) error {
	byAction := make(map[int64]forwarded, len(forwards))
	final := db.RelaysCompletedParams{At: now}
	for _, f := range forwards {
		byAction[f.tx.Action] = f
		if f.outcome.Final {
			final.ActionIds, final.Fees = append(final.ActionIds, f.tx.Action), append(final.Fees, int64(f.outcome.Fee))
		}
	}
	if len(final.ActionIds) > 0 {
		completed, err := q.RelaysCompleted(ctx, final)
		if err != nil {
			return fmt.Errorf("complete the outgoing payments: %w", err)
		}
		for _, row := range completed {
			f := byAction[row.ActionID]
			delete(byAction, row.ActionID)
			f.tx.spent = paidOut(row, f.outcome, ledger.RewardSats)
			f.tx.Forward = &Forward{Receiver: *row.ReceiverID, Wallet: *row.WalletID, Bolt11: row.Bolt11, Amount: Msat(row.AmountMsat),
				Budget: Msat(row.BudgetMsat), FinalCLTV: uint32(row.FinalCltv), Expires: row.ExpiresAt}
		}
	}
	if len(byAction) > 0 {
		inners, err := q.GetInners(ctx, slices.Collect(maps.Keys(byAction)))
		if err != nil {
			return fmt.Errorf("read the receivers' invoices: %w", err)
		}
		if len(inners) != len(byAction) {
			return fmt.Errorf("%d of %d wrapped invoices have one inside", len(inners), len(byAction))
		}
		for _, inner := range inners {
			byAction[inner.ActionID].tx.Forward = forwardOf(inner)
		}
	}
	for _, f := range forwards {
		if err := f.tx.Pay(ledger.RoutingSats, f.tx.Forward.Amount+f.tx.Forward.Budget, "set aside for the forward"); err != nil {
			return err
		}
	}
	return nil
}
