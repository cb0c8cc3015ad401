package paidaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

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
	err = e.inTx(ctx, func(q *db.Queries, _ pgx.Tx) error {
		tx := &Tx{DB: q, Previous: a.previous, Payer: a.payer, Method: P2P, Now: e.now(), source: ledger.Lightning, proof: a.proof}
		if tx.Cost, err = a.def.cost(ctx, tx, a.args); err != nil {
			return err
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
		CltvDelta: int32(f.CLTVDelta), ExpiresAt: tx.Now.Add(f.Expiry),
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

// claimForward puts the receiver's payment into the pipeline, now that the payer's is held. What one receiver has under way is
// bounded: they could let it hang, and with it the payer's money and our channels.
func (e *Engine) claimForward(ctx context.Context, q *db.Queries, tx *Tx) error {
	inner, err := q.GetInner(ctx, tx.Action)
	if err != nil {
		return fmt.Errorf("read the receiver's invoice: %w", err)
	}
	if _, err := q.LockUser(ctx, inner.ReceiverID); err != nil {
		return fmt.Errorf("lock the receiver: %w", err)
	}
	capital, err := q.CapitalAtReceiver(ctx, db.CapitalAtReceiverParams{ReceiverID: inner.ReceiverID, At: tx.Now})
	if err != nil {
		return fmt.Errorf("sum up what is under way: %w", err)
	}
	if capital.Payments >= e.Settings.MaxForwards || Msat(capital.Msat+inner.AmountMsat+inner.BudgetMsat) > e.Settings.MaxForwarded {
		return Errorf(CodeReceiverBusy, "Too many payments to this receiver are under way. Your payment goes back to you; try again later.")
	}
	n, err := q.AcceptRelay(ctx, db.AcceptRelayParams{ActionID: tx.Action, PaymentHash: inner.PaymentHash, Bolt11: inner.Bolt11,
		ReceiverID: &inner.ReceiverID, WalletID: &inner.WalletID, AmountMsat: inner.AmountMsat, BudgetMsat: inner.BudgetMsat,
		FinalCltv: inner.FinalCltv, ExpiresAt: inner.ExpiresAt, At: tx.Now})
	if err != nil {
		return fmt.Errorf("put the payment into the pipeline: %w", err)
	}
	if n == 0 {
		return Errorf(CodeDuplicate, "This invoice was paid before. Your payment goes back to you.")
	}
	return nil
}

// forwardOf is the Forward of a row, as OnPaid sees it.
func forwardOf(ctx context.Context, q *db.Queries, action int64) (*Forward, error) {
	inner, err := q.GetInner(ctx, action)
	if err != nil {
		return nil, fmt.Errorf("read the receiver's invoice: %w", err)
	}
	return &Forward{Receiver: inner.ReceiverID, Wallet: inner.WalletID, Bolt11: inner.Bolt11, Amount: Msat(inner.AmountMsat),
		Budget: Msat(inner.BudgetMsat), FinalCLTV: uint32(inner.FinalCltv), Expires: inner.ExpiresAt}, nil
}
