package relay

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// reason is why a payment is given up for good.
type reason struct {
	label string            // in holdfast_relay_failed_total; it never changes its meaning
	told  *paidaction.Error // what the payer is told
}

// What the relay itself gives a payment up for. The other labels are reasons of nodes (paidaction.FailureReason) and
// rules (wrap.Code).
const (
	noNode        = "NO_NODE"        // none could send a withdrawal for long
	paidOtherwise = "PAID_OTHERWISE" // the invoice of ours that a withdrawal pays was paid by somebody else
	invoiceEnded  = "INVOICE_ENDED"  // it can no longer be paid
	givenUp       = "GIVEN_UP"       // by an operator, who says what the payer is told
	unnamed       = "UNKNOWN"        // the node names no reason that we know
)

var (
	heldTooLong = paidaction.Errorf(paidaction.CodeExpired, "The payment was held for too long. You get it back.")
	noneSends   = paidaction.Errorf(paidaction.CodePaymentFailed, "No node could send the payment. You get the money back.")
)

// tells is what the payer is told, by label; unreachable where it names none. What is told is stored before the money
// goes back.
var tells = map[string]*paidaction.Error{
	string(wrap.NotHeld):     heldTooLong,
	string(wrap.BlocksShort): heldTooLong,
	string(wrap.ByKeysend): paidaction.Errorf(paidaction.CodePaymentFailed,
		"The invoice was not paid in the usual way. You get the money back. Pay it with a wallet that pays invoices."),
	string(wrap.Expired): paidaction.Errorf(paidaction.CodePaymentFailed,
		"The receiver's invoice expired before it could be paid."),
	string(paidaction.ReasonIncorrectDetails): paidaction.Errorf(paidaction.CodePaymentFailed,
		"The receiver's wallet refused the payment. You get the money back."),
	string(errCrowded.Code): paidaction.Errorf(paidaction.CodePaymentFailed,
		"Too many payments are under way. You get the money back."),
	string(errLow.Code): noneSends,
	noNode:              noneSends,
	paidOtherwise: paidaction.Errorf(paidaction.CodePaymentFailed,
		"This invoice was paid by somebody else. You get the money back."),
	invoiceEnded: paidaction.Errorf(paidaction.CodePaymentFailed,
		"This invoice can no longer be paid. You get the money back."),
}

var unreachable = paidaction.Errorf(paidaction.CodePaymentFailed,
	"The receiver could not be reached. You get the money back.")

// outOfFee is what only who withdraws can do something about.
var outOfFee = paidaction.Errorf(paidaction.CodePaymentFailed,
	"No way to the receiver was found for the fee that you allow. You get the money back. Allow a higher one, or try again later.")

// nodesReason is why a payment is given up that has failed at a node.
func nodesReason(row db.RelayPayment, label string) reason {
	if row.PayerID != nil && label == string(paidaction.ReasonNoRoute) {
		return reason{label, outOfFee}
	}
	return reasonOf(label)
}

func reasonOf(label string) reason {
	return reason{cmp.Or(label, unnamed), cmp.Or(tells[label], unreachable)}
}

// unwanted says why a payment must not be sent any more; nil if it may. A forward is wanted only while its payer's
// payment is held with enough blocks left to pay on. That is looked at before each send, too, but what no node claims
// would wait for ever. Nor is it wanted where only nodes are left that can send too little to be given anything. A
// withdrawal is bounded by no blocks, and its invoice may be valid for a week. Nobody could use the money for so long,
// so MaxWait bounds it.
func (r *Relay) unwanted(ctx context.Context, row db.RelayPayment) (*reason, error) {
	if row.ReceiverID == nil {
		since := row.CreatedAt
		if row.RequeuedAt != nil {
			since = *row.RequeuedAt
		}
		if passed, err := r.passed(ctx, since.Add(r.Settings.MaxWait)); err != nil || !passed {
			return nil, err
		}
		return new(reasonOf(noNode)), nil
	}
	inv, err := db.New(r.Pool).GetInvoice(ctx, row.ActionID)
	if err != nil {
		return nil, fmt.Errorf("read the payer's invoice: %w", err)
	}
	issuer, err := r.Issuers.Node(inv.Node)
	if err != nil {
		return nil, err
	}
	outer, err := outerAt(ctx, issuer, row)
	if err != nil {
		return nil, err
	}
	if outer.State != paidaction.InvoiceAccepted {
		return new(reasonOf(string(wrap.NotHeld))), nil
	}
	chain, err := issuer.Chain(ctx) // if the node is behind, it sees too many blocks left: the next look corrects that
	if err != nil {
		return nil, fmt.Errorf("ask for the chain: %w", err)
	}
	facts := wrap.Facts{Chain: chain, Held: outer, OuterCLTV: uint32(inv.CltvDelta)}
	facts.Inner.CLTVDelta = uint32(row.FinalCltv)
	if r.Rules.Late(facts) {
		return new(reasonOf(string(wrap.BlocksShort))), nil
	}
	if low, err := r.allLow(ctx, row); err != nil || !low {
		return nil, err
	}
	return new(reasonOf(string(errLow.Code))), nil
}

// outer is the payer's payment of a forward, as the node that issued its invoice shows it now.
func (r *Relay) outer(ctx context.Context, row db.RelayPayment, issuer string) (paidaction.NodeInvoice, error) {
	node, err := r.Issuers.Node(issuer)
	if err != nil {
		return paidaction.NodeInvoice{}, err
	}
	return outerAt(ctx, node, row)
}

func outerAt(ctx context.Context, issuer paidaction.Node, row db.RelayPayment) (paidaction.NodeInvoice, error) {
	inv, err := issuer.LookupInvoice(ctx, hashOf(row))
	if err != nil {
		return inv, fmt.Errorf("look up the payer's payment: %w", err)
	}
	return inv, nil
}

// passed reports whether a moment has passed, for what is not taken back. A clock that is ahead would have every
// payment given up before it can be sent.
func (r *Relay) passed(ctx context.Context, moment time.Time) (bool, error) {
	if r.now().Before(moment) {
		return false, nil
	}
	err := r.ConfirmClock(ctx)
	return err == nil, err
}

// giveUp ends a payment for good, unless somebody was faster, or it was claimed and put back since it was read: then
// the reason may have gone, and its node may have been given it. has is what the nodes said.
func (r *Relay) giveUp(ctx context.Context, row db.RelayPayment, why reason, has possession) (out paidaction.Outcome,
	err error) {
	failed, err := r.fail(ctx, row, why, func(q *db.Queries, _ time.Time) (bool, error) {
		if asRead, err := unchanged(ctx, q, row); err != nil || !asRead {
			return false, err
		}
		return true, r.stands(ctx, q, row, has)
	})
	if err != nil {
		return out, fmt.Errorf("give the payment up: %w", err)
	}
	if failed {
		out.Failure = why.told
	}
	return out, nil
}

// fail gives a payment up for good, in the transaction in which sure says under the lock of its row that it has failed.
// It counts what is committed. errMovedOn, and nothing is changed, where the payment has left the stage that it was
// read in.
func (r *Relay) fail(ctx context.Context, row db.RelayPayment, why reason,
	sure func(q *db.Queries, at time.Time) (bool, error)) (failed bool, err error) {
	at := r.now()
	err = r.inTx(ctx, func(q *db.Queries) error {
		var err error
		if failed, err = sure(q, at); err != nil || !failed {
			return err
		}
		n, err := q.FailRelay(ctx, db.FailRelayParams{ID: row.ID, FromStage: row.Stage,
			FailureCode: new(string(why.told.Code)), FailureMessage: &why.told.Message, At: at})
		if err == nil && n == 0 {
			err = errMovedOn // a claim stays, too: a payment in work without one would be looked at by nobody
		}
		return err
	})
	if err != nil || !failed {
		return false, err
	}
	r.Metrics.failed(why.label)
	return true, nil
}
