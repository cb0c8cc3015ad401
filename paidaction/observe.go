package paidaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

var errBehindChain = errors.New("the node is behind the chain")

// observe finds out what has happened to an open action. It makes all the node calls, outside any transaction: first
// the one that is owed, then a look at what is true now.
func (e *Engine) observe(ctx context.Context, pa *PaidAction, driven bool) (finding, error) {
	owed := Owed(pa.Flow, pa.State)
	switch {
	case owed == SendPayment:
		return e.sendOut(ctx, pa)
	case owed == AskCost:
		return e.askCost(ctx, pa)
	case owed == SettleInvoice && pa.Flow == FlowWrapped:
		return e.takeIncoming(ctx, pa)
	case owed == LookUpInvoice:
		return e.lookAtIncoming(ctx, pa)
	case owed == NoCall: // a withdrawal that failed: what it took was a balance, and is given back without any node
		return finding{fact: BalanceWasDebited}, nil
	}
	node, err := e.Nodes.Node(pa.Invoice.Node)
	if err != nil {
		return finding{}, err
	}
	if pa.Flow == FlowWrapped && pa.Invoice.Bolt11 == "" {
		// Nothing was handed out, and the receiver may have given the hash to another program, too: what the node has
		// under it may be that one's (IsFor). It is neither taken nor cancelled, and means as little as none.
		inv, err := node.LookupInvoice(ctx, pa.Invoice.Hash)
		switch {
		case err != nil && !errors.Is(err, ErrInvoiceNotFound):
			return finding{}, fmt.Errorf("look up the invoice: %w", err)
		case err == nil && errors.Is(inv.IsFor(pa.Invoice.asked()), ErrInvoiceDiffers):
			return e.absent(ctx, pa)
		}
	}
	if owed == CancelInvoice {
		if err := node.CancelInvoice(ctx, pa.Invoice.Hash); err != nil && !errors.Is(err, ErrInvoiceNotFound) {
			return finding{}, fmt.Errorf("cancel the invoice: %w", err)
		}
	}
	if pa.settleNow {
		inv, err := e.reveal(ctx, node, pa)
		if err != nil {
			return finding{}, err
		}
		return e.judge(ctx, node, pa, inv, nil)
	}
	inv, chain, err := e.lookUp(ctx, node, pa, driven)
	if errors.Is(err, ErrInvoiceNotFound) {
		return e.absent(ctx, pa)
	}
	if err != nil {
		return finding{}, fmt.Errorf("look up the invoice: %w", err)
	}
	if owed == SettleInvoice && inv.State == InvoiceAccepted {
		if inv, err = e.settle(ctx, node, pa, inv); err != nil {
			return finding{}, err
		}
	}
	return e.judge(ctx, node, pa, inv, chain)
}

// asked is what the node was asked for, as far as IsFor compares it.
func (i *Invoice) asked() InvoiceRequest {
	return InvoiceRequest{Hold: i.Hold, Hash: i.Hash, Amount: i.Amount, Memo: i.memo, CLTVDelta: i.cltvDelta}
}

// lookUp asks the node for the invoice. A driven action that waits has most likely been paid, and then the chain is
// needed too, so both are asked for at the same time. chain is nil where it was not asked for or the node gave no
// answer.
func (e *Engine) lookUp(ctx context.Context, node Node, pa *PaidAction, driven bool) (inv NodeInvoice, chain *Chain, err error) {
	wait := func() {}
	if driven && pa.State == PendingHeld {
		wait = e.Hooks.Beside(func() {
			if now, err := node.Chain(ctx); err == nil {
				chain = &now
			}
		})
	}
	inv, err = node.LookupInvoice(ctx, pa.Invoice.Hash)
	wait()
	return inv, chain, err
}

// judge turns the node's view of the invoice into a fact about this action. It asks for the chain if that is needed and
// nil.
func (e *Engine) judge(ctx context.Context, node Node, pa *PaidAction, inv NodeInvoice, chain *Chain) (finding, error) {
	switch inv.State {
	case InvoiceSettled:
		if pa.State == PendingHeld && inv.Received >= pa.Cost {
			// Only we settle a hold invoice, and only after performing the action or paying on. So the database was
			// restored to a moment before that, or a replica that lagged behind took over. Do again what was done then;
			// there is nothing to give back.
			return finding{fact: InvoiceIsHeld, received: inv.paid(pa.Cost), taken: true}, nil
		}
		if pa.Flow == FlowOptimistic && inv.Awaits(pa.Cost) {
			return finding{}, fmt.Errorf("%w: node %s counts %d msat of it", errOnChain, pa.Invoice.Node, inv.OnChain)
		}
		return finding{fact: InvoiceIsPaid, received: inv.paid(pa.Cost)}, nil
	case InvoiceCanceled:
		return e.judgeCanceled(ctx, pa)
	case InvoiceAccepted:
		return e.judgeHeld(ctx, node, pa, inv, chain)
	}
	return e.judgeOpen(ctx, pa, inv)
}

// judgeCanceled is what a cancelled invoice means: nobody has paid it, unless a withdrawal from here does.
func (e *Engine) judgeCanceled(ctx context.Context, pa *PaidAction) (finding, error) {
	if inside, err := e.paidInside(ctx, pa); err != nil || inside != nil {
		return finding{fact: PaidInside, received: pa.Cost}, err
	}
	f := finding{fact: InvoiceIsGone}
	if pa.Failure == nil {
		f.failure = Errorf(CodeExpired, "The invoice was not paid in time.")
		if pa.State == Held {
			f.failure = Errorf(CodeExpired, "The payment was held for too long and went back to you.")
		}
	}
	return f, nil
}

// judgeHeld is what a held payment means: the blocks left decide whether it can be relied on.
func (e *Engine) judgeHeld(ctx context.Context, node Node, pa *PaidAction, inv NodeInvoice, chain *Chain) (finding, error) {
	if chain == nil {
		now, err := node.Chain(ctx)
		if err != nil {
			return finding{}, fmt.Errorf("ask for the chain: %w", err)
		}
		chain = &now
	}
	safety := e.safetyHeight(inv.ExpiryHeight)
	if chain.Height >= safety {
		return finding{fact: TooFewBlocks, received: inv.Received, safety: safety,
			failure: Errorf(CodeExpired, "The payment arrived with too little time left and goes back to you.")}, nil
	}
	if pa.State == PendingHeld && !chain.Synced {
		// A node behind the chain may report a height at which the payment is still safe although it no longer is.
		return finding{}, errBehindChain
	}
	return finding{fact: InvoiceIsHeld, received: inv.Received, safety: safety}, nil
}

// judgeOpen is what an unpaid invoice means: nothing before the deadline.
func (e *Engine) judgeOpen(ctx context.Context, pa *PaidAction, inv NodeInvoice) (finding, error) {
	now := e.now()
	if pa.Invoice.Bolt11 == "" && (pa.State == Pending || pa.State == PendingHeld) && inv.IsFor(pa.Invoice.asked()) == nil {
		// The invoice was issued, but the answer was lost before it was stored. Stored now, the invoice can still be
		// paid.
		if _, err := db.New(e.Pool).SetBolt11(ctx, db.SetBolt11Params{ActionID: pa.ID, Bolt11: &inv.Bolt11}); err != nil {
			return finding{}, fmt.Errorf("store the bolt11: %w", err)
		}
		e.changed(pa.ID)
	}
	if now.Before(*pa.Deadline) {
		return finding{}, nil
	}
	if err := e.ConfirmClock(ctx); err != nil {
		return finding{}, err
	}
	return finding{fact: DeadlinePassed, failure: Errorf(CodeExpired, "The invoice was not paid in time.")}, nil
}

// absent is what it means that the node does not know the invoice. That alone proves nothing (spec 01 §1.6): only if no
// bolt11 was ever stored, so that none was handed out, can nobody have paid.
func (e *Engine) absent(ctx context.Context, pa *PaidAction) (finding, error) {
	if pa.Invoice.Bolt11 != "" {
		return finding{}, fmt.Errorf("%w, though it issued it: was node %s wiped or restored?", ErrInvoiceNotFound, pa.Invoice.Node)
	}
	// In CANCELING no bolt11 can be stored any more. Before that the node gets time to answer.
	if pa.State != Canceling {
		if e.now().Sub(pa.CreatedAt) < e.Settings.IssueTimeout {
			return finding{}, nil
		}
		if err := e.ConfirmClock(ctx); err != nil {
			return finding{}, err
		}
	}
	return finding{fact: NeverIssued, failure: Errorf(CodeLightningUnavailable, "No invoice could be made. Try again.")}, nil
}

// safetyHeight is the height from which a held payment must not be relied on. LND gives the payment back
// HoldExpiryDelta blocks before its first HTLC expires, and we keep SafetyBlocks away from that (spec 01 §1.5).
func (e *Engine) safetyHeight(expiry uint32) uint32 {
	margin := e.Settings.HoldExpiryDelta + e.Settings.SafetyBlocks
	if expiry < margin {
		return 0
	}
	return expiry - margin
}

// settle takes the held payment of a performed action, and returns the invoice as the node shows it afterwards. The
// permission is committed before the call. From then on the action can no longer be cancelled: a permitted call may
// reach the node at any time, even from a process that was stopped for an hour.
func (e *Engine) settle(ctx context.Context, node Node, pa *PaidAction, inv NodeInvoice) (NodeInvoice, error) {
	chain, err := node.Chain(ctx)
	if err != nil {
		return inv, fmt.Errorf("ask for the chain: %w", err)
	}
	if !chain.Synced {
		// The node reports an old height. The payment may have expired, and the preimage would be revealed for nothing.
		// Not calling is always safe, even after a permission.
		return inv, errBehindChain
	}
	if pa.settlePermitted == nil {
		if chain.Height >= e.safetyHeight(inv.ExpiryHeight) {
			return inv, nil
		}
		n, err := db.New(e.Pool).PermitSettle(ctx, db.PermitSettleParams{ID: pa.ID, At: new(e.now())})
		if err != nil {
			return inv, fmt.Errorf("permit the settling: %w", err)
		}
		if n == 0 {
			// Another worker permitted it, or gave the payment back: the row says which.
			again, err := e.get(ctx, pa.ID)
			if err != nil || again.State != Held {
				return inv, err
			}
		}
	}
	return e.reveal(ctx, node, pa)
}

// reveal gives the node the preimage of a held payment that may be settled (permitted, or already paid on), and returns
// the invoice as the node shows it afterwards.
func (e *Engine) reveal(ctx context.Context, node Node, pa *PaidAction) (NodeInvoice, error) {
	if err := node.SettleInvoice(ctx, pa.Invoice.preimage); err != nil {
		e.Log.WarnContext(ctx, "settling failed; looking up what is true", "action", pa.ID, "error", err)
	}
	inv, err := node.LookupInvoice(ctx, pa.Invoice.Hash)
	if err != nil {
		return inv, fmt.Errorf("look up the invoice after settling: %w", err)
	}
	return inv, nil
}
