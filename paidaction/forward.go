package paidaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// quote computes the price and the peers of an attempt before it begins. errNotOpen where there is nobody to pay
// directly.
func (e *Engine) quote(ctx context.Context, a *attempt) (cost Msat, peers []Peer, err error) {
	err = e.inTx(ctx, func(q *db.Queries, _ *db.Transaction) error {
		tx := &Tx{DB: q, Payer: a.payer, Method: P2P, Now: e.now(), source: ledger.Lightning, proof: a.proof}
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

// wrap gets an invoice from the first peer who has a wallet that gives one. errNotOpen where none has.
func (e *Engine) wrap(ctx context.Context, a *attempt, p plan, peers []Peer) (*Forward, error) {
	var shares Msat
	for _, peer := range peers {
		shares += peer.Share
	}
	for _, peer := range peers {
		if shares+peer.Fee > p.quoted {
			return nil, fmt.Errorf("%s promises %d msat of %d", a.def.Spec().Kind, shares+peer.Fee, p.quoted)
		}
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
			Promised: shares - peer.Share + peer.Fee, Memo: p.memo, Calling: a.turn.Leave})
		switch {
		case err == nil:
			return &forward, nil
		case !errors.Is(err, ErrNoReceiver):
			return nil, err
		}
	}
	return nil, errNotOpen
}

// wrappedInvoice is the outer invoice of an attempt; only the receiver has its preimage. The hash must never have been
// used before: a second outer invoice with it could be settled with the preimage of the first, and a withdrawal with it
// would be paid with our money.
func wrappedInvoice(ctx context.Context, a *attempt, tx *Tx, p plan) (db.InsertInvoiceParams, error) {
	f := tx.Forward
	if f.Until.Sub(tx.Now) < MinOuterLife { // the payer's earlier requests were slow
		return db.InsertInvoiceParams{}, Errorf(CodeTryAgain, "The invoice could not be made in time. Try again.")
	}
	n, err := tx.DB.UseForeignHash(ctx, db.UseForeignHashParams{PaymentHash: f.Hash[:], Used: "WRAPPED"})
	if err != nil {
		return db.InsertInvoiceParams{}, fmt.Errorf("note the hash: %w", err)
	}
	if n == 0 {
		return db.InsertInvoiceParams{}, fmt.Errorf("%w: it gave the hash %s twice", errNotOpen, f.Hash)
	}
	return db.InsertInvoiceParams{
		ActionID: tx.Action, Node: p.node, PaymentHash: f.Hash[:], Hold: true, AmountMsat: int64(tx.Cost), Memo: p.memo,
		CltvDelta: int32(f.CLTVDelta), ExpiresAt: f.Until, Chosen: a.chosen,
	}, nil
}

// storeInner stores the receiver's invoice, which the outer one wraps.
func storeInner(ctx context.Context, q *db.Queries, action int64, f *Forward) error {
	err := q.InsertInner(ctx, db.InsertInnerParams{ActionID: action, ReceiverID: f.Receiver, WalletID: f.Wallet, Bolt11: f.Bolt11,
		AmountMsat: int64(f.Amount), BudgetMsat: int64(f.Budget), FinalCltv: int32(f.FinalCLTV), ExpiresAt: f.Expires})
	if err != nil {
		return fmt.Errorf("store the receiver's invoice: %w", err)
	}
	return nil
}

// performAndClaim is the step to FORWARDING. An anonymous payer's action is performed now; a known payer's was
// performed before.
func (e *Engine) performAndClaim(ctx context.Context, pg *db.Transaction, def Definition, tx *Tx, row db.PaidAction, found finding) error {
	if row.Result == nil {
		if err := e.performHeld(ctx, def, tx, row, found); err != nil {
			return err
		}
	} else if err := tx.DB.SetReceived(ctx, db.SetReceivedParams{ActionID: row.ID, ReceivedMsat: new(int64(found.received))}); err != nil {
		return fmt.Errorf("store what was received: %w", err)
	}
	if found.taken { // it is under way already: there is nothing to bound
		return acceptForwards(ctx, tx.DB, tx.Now, tx.Action)
	}
	asked, err := askForwards(ctx, tx.DB, pg, tx.Now, tx.Action)
	if err != nil {
		return err
	}
	crowded, err := e.claimForwards(ctx, tx.DB, asked, tx.Now, tx.Action)
	if len(crowded) > 0 {
		return Errorf(CodeReceiverBusy, "Too many payments to this receiver are under way. Your payment goes back to you; try again later.")
	}
	return err
}

// asking returns the answer to what was asked in a transaction (db.Transaction.NextActions).
type asking[T any] func(context.Context) ([]T, error)

// askForwards locks the receivers of these actions, whose rows are locked before, and asks what claimForwards needs.
func askForwards(ctx context.Context, q *db.Queries, pg *db.Transaction, now time.Time, actions ...int64) (asking[db.ForwardsToClaimRow], error) {
	if err := q.LockReceivers(ctx, actions); err != nil {
		return nil, fmt.Errorf("lock the receivers: %w", err)
	}
	return pg.ForwardsToClaim(db.ForwardsToClaimParams{ActionIds: actions, At: now}), nil
}

// claimForwards puts the payments to the receivers of these actions into the pipeline, now that their payers' are held.
// It bounds what one receiver has under way: receivers could let payments hang, and with them the payers' money and our
// channels. Actions beyond the bound are returned and not put into the pipeline. More actions may have been asked about
// than these.
func (e *Engine) claimForwards(ctx context.Context, q *db.Queries, asked asking[db.ForwardsToClaimRow], now time.Time, actions ...int64) (crowded []int64, err error) {
	inners, err := asked(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the receivers' invoices, and what is under way: %w", err)
	}
	inners = slices.DeleteFunc(slices.Clone(inners), func(r db.ForwardsToClaimRow) bool { return !slices.Contains(actions, r.ActionID) })
	if len(inners) != len(actions) {
		return nil, fmt.Errorf("%d of %d wrapped invoices have one inside", len(inners), len(actions))
	}
	type capital struct{ payments, msat int64 }
	added := map[int64]capital{} // by these actions, per receiver
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
	return crowded, acceptForwards(ctx, q, now, actions...)
}

// acceptForwards puts the payments to the receivers of these actions into the pipeline.
func acceptForwards(ctx context.Context, q *db.Queries, now time.Time, actions ...int64) error {
	if err := q.AcceptForwards(ctx, db.AcceptForwardsParams{ActionIds: actions, At: now}); err != nil {
		return fmt.Errorf("put the payments into the pipeline: %w", err)
	}
	return nil
}

// sentOn reports whether a step would end an action, or give its payer's payment back, although a node of ours pays its
// receiver: the database was restored, or failed over, to a moment before that. Such an action goes on to FORWARDING,
// where the relay finds its payment. If the payer's payment is given back the receiver's money is ours, and if it is
// gone the loss has to be booked. An invoice that is still open was never held, so nothing was sent for it.
func (e *Engine) sentOn(ctx context.Context, pa *PaidAction, step Step) (bool, error) {
	ends := step.To == Canceling && step.When != DeadlinePassed || step.When == InvoiceIsGone || step.When == GivenUp
	if pa.Flow != FlowWrapped || step.From != PendingHeld || !ends || e.Relay == nil {
		return false, nil
	}
	sent, err := e.Relay.Forgotten(ctx, pa.ID, pa.Invoice.Hash)
	if err != nil {
		return false, fmt.Errorf("whether it was sent on to its receiver: %w", err)
	}
	if sent {
		e.Log.ErrorContext(ctx, "a payment was sent on, and the database has forgotten it: it is not given back", "action", pa.ID, "fact", step.When)
	}
	return sent, nil
}

// accepted turns the failure of a step whose AcceptForwards met a payment of the same hash into the refusal that it
// stands for. Nobody waits for that statement: it fails the transaction at whatever this waits for next.
func accepted(err error) error {
	if db.Violates(err, "relay_payment_hash") {
		return Errorf(CodeDuplicate, "This invoice was already paid. Your payment goes back to you.")
	}
	return err
}

// takeIncoming settles the payer's payment with the receiver's preimage. It keeps no margin of blocks and accepts a
// node that is behind the chain: we have paid, and others may know the preimage anyway.
func (e *Engine) takeIncoming(ctx context.Context, pa *PaidAction) (finding, error) {
	if e.Relay == nil {
		return finding{}, errNoRelay
	}
	node, err := e.Nodes.Node(pa.Invoice.Node)
	if err != nil {
		return finding{}, err
	}
	inv, err := e.reveal(ctx, node, pa)
	if err != nil {
		return finding{}, err
	}
	found := finding{received: inv.paid(pa.Cost)}
	switch inv.State {
	case InvoiceSettled:
		found.fact = IncomingSettled
	case InvoiceCanceled:
		found.fact = IncomingLost
		e.Log.ErrorContext(ctx, "a receiver was paid, and the payer's payment is gone: the loss is booked", "action", pa.ID)
	default:
		return finding{}, nil
	}
	if found.outcome, err = e.Relay.Proceed(ctx, pa.ID); err != nil {
		// The cost of the payment is booked later; that we have taken the money is booked now.
		e.Log.WarnContext(ctx, "the routing fee is not known yet", "action", pa.ID, "error", err)
	}
	return found, nil
}

// lookAtIncoming looks at the payer's payment after the outgoing one failed for good.
func (e *Engine) lookAtIncoming(ctx context.Context, pa *PaidAction) (finding, error) {
	node, err := e.Nodes.Node(pa.Invoice.Node)
	if err != nil {
		return finding{}, err
	}
	inv, err := node.LookupInvoice(ctx, pa.Invoice.Hash)
	if err != nil {
		return finding{}, fmt.Errorf("look up the invoice: %w", err)
	}
	switch inv.State {
	case InvoiceAccepted:
		return finding{fact: InvoiceIsHeld}, nil
	case InvoiceCanceled:
		return finding{fact: InvoiceIsGone}, nil
	default:
		return finding{}, fmt.Errorf("node %s says %s of an invoice whose payment was held", pa.Invoice.Node, inv.State)
	}
}

// forwardOf is the receiver's invoice as OnPaid sees it.
func forwardOf(inner db.InnerInvoice) *Forward {
	return &Forward{Receiver: inner.ReceiverID, Wallet: inner.WalletID, Bolt11: inner.Bolt11, Amount: Msat(inner.AmountMsat),
		Budget: Msat(inner.BudgetMsat), FinalCLTV: uint32(inner.FinalCltv), Expires: inner.ExpiresAt}
}

// forwarded is a completed forward and what is known of it.
type forwarded struct {
	tx      *Tx
	outcome Outcome
}

// setAside sets aside the amount and the budget of each forward, out of what its payer paid. More actions may have been
// asked about.
func setAside(ctx context.Context, asked asking[db.InnerInvoice], forwards ...forwarded) error {
	inners, err := asked(ctx)
	if err != nil {
		return fmt.Errorf("read the receivers' invoices: %w", err)
	}
	byAction := make(map[int64]db.InnerInvoice, len(inners))
	for _, inner := range inners {
		byAction[inner.ActionID] = inner
	}
	for _, f := range forwards {
		inner, known := byAction[f.tx.Action]
		if !known {
			return fmt.Errorf("the wrapped invoice of action %d has none inside", f.tx.Action)
		}
		f.tx.Forward = forwardOf(inner)
		if err := f.tx.Pay(ledger.RoutingSats, f.tx.Forward.Amount+f.tx.Forward.Budget, "set aside for the forward"); err != nil {
			return err
		}
	}
	return nil
}

// completeForwards completes the forwards whose whole cost is known, and says afterwards what they have cost, which is
// booked as spent out of what was set aside. For the others finishForward does that later.
func completeForwards(pg *db.Transaction, now time.Time, forwards ...forwarded) (spent func(context.Context) error) {
	byAction := make(map[int64]forwarded, len(forwards))
	final := db.RelaysCompletedParams{At: now}
	for _, f := range forwards {
		byAction[f.tx.Action] = f
		if f.outcome.Final {
			final.ActionIds, final.Fees = append(final.ActionIds, f.tx.Action), append(final.Fees, int64(f.outcome.Fee))
		}
	}
	if len(final.ActionIds) == 0 {
		return func(context.Context) error { return nil }
	}
	asked := pg.RelaysCompleted(final)
	return func(ctx context.Context) error {
		completed, err := asked(ctx)
		if err != nil {
			return fmt.Errorf("complete the outgoing payments: %w", err)
		}
		for _, row := range completed {
			f := byAction[row.ActionID]
			f.tx.spent = paidOut(row, f.outcome, ledger.RewardSats)
		}
		return nil
	}
}

// bookForward makes a wrapped action count: our node has paid the receiver.
func (e *Engine) bookForward(ctx context.Context, pg *db.Transaction, def Definition, tx *Tx, row db.PaidAction, found finding) error {
	forward := forwarded{tx, found.outcome}
	spent := completeForwards(pg, tx.Now, forward)
	if err := setAside(ctx, pg.GetInners([]int64{tx.Action}), forward); err != nil {
		return err
	}
	if err := spent(ctx); err != nil {
		return err
	}
	return e.book(ctx, pg, def, tx, row.Args, row.Result, found.received)
}

// finishForward books the routing fee of a forward that was PAID before all its parts were final.
func (e *Engine) finishForward(ctx context.Context, pa *PaidAction) (Progress, error) {
	out, err := e.Relay.Proceed(ctx, pa.ID)
	if err != nil || !out.Final {
		return Waiting, err
	}
	err = e.inTx(ctx, func(q *db.Queries, _ *db.Transaction) error {
		return payOut(ctx, &Tx{DB: q, Action: pa.ID, Now: e.now()}, out, ledger.RewardSats)
	})
	if err != nil {
		return Owing, err
	}
	return Done, nil
}
