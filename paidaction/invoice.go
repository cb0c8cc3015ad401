package paidaction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// newInvoice is the invoice of an attempt before any node has heard of it. We choose the preimage ourselves, so that
// opening the invoice at the node can be repeated: the same hash is the same invoice (spec 01 §1.3).
func (e *Engine) newInvoice(ctx context.Context, a *attempt, tx *Tx, p plan) (db.InsertInvoiceParams, error) {
	if tx.Forward != nil {
		return wrappedInvoice(ctx, a, tx, p)
	}
	var preimage Preimage
	if _, err := io.ReadFull(e.Random, preimage[:]); err != nil {
		return db.InsertInvoiceParams{}, fmt.Errorf("read randomness: %w", err)
	}
	hash := preimage.Hash()
	return db.InsertInvoiceParams{
		ActionID: tx.Action, Node: p.node, PaymentHash: hash[:], Preimage: preimage[:], Hold: tx.Method != Optimistic,
		AmountMsat: int64(tx.Cost), Memo: p.memo, CltvDelta: int32(e.Settings.CLTVDelta), ExpiresAt: tx.Now.Add(e.Settings.InvoiceExpiry),
		Chosen: a.chosen,
	}, nil
}

// issue opens the invoice of an action (as just read or written) at its node, stores the bolt11, and returns the
// action. It may be repeated, and does nothing for an action that has no invoice or has its bolt11 already.
//
// LIGHTNING_UNAVAILABLE where the node cannot be reached, or nobody can pay the invoice any more: the action was begun,
// and the watchdog finds out what becomes of it.
func (e *Engine) issue(ctx context.Context, pa *PaidAction) (*PaidAction, error) {
	if pa.State != Pending && pa.State != PendingHeld || pa.Invoice.Bolt11 != "" {
		return e.withSecret(pa), nil
	}
	node, err := e.Nodes.Node(pa.Invoice.Node)
	if err != nil {
		return nil, err
	}
	left := pa.Invoice.ExpiresAt.Sub(e.now()).Truncate(time.Second)
	if left < time.Second {
		return nil, errNoInvoice()
	}
	def, err := e.definition(pa.Kind)
	if err != nil {
		return nil, fmt.Errorf("issue the invoice of action %d: %w", pa.ID, err)
	}
	description, err := def.descriptionHash(pa.Args)
	if err != nil {
		return nil, err
	}
	bolt11, err := openAt(ctx, node, InvoiceRequest{
		Hold: pa.Invoice.Hold, Hash: pa.Invoice.Hash, Preimage: pa.Invoice.preimage, Amount: pa.Invoice.Amount,
		Memo: pa.Invoice.memo, DescriptionHash: description, Expiry: left, CLTVDelta: pa.Invoice.cltvDelta,
	})
	switch {
	case errors.Is(err, ErrInvoiceCanceled):
		return nil, errNoInvoice().Because(err)
	case err != nil:
		return nil, Errorf(CodeLightningUnavailable, "No invoice can be made at the moment. Try again in a minute.").Because(err)
	}
	n, err := db.New(e.Pool).SetBolt11(ctx, db.SetBolt11Params{ActionID: pa.ID, Bolt11: &bolt11})
	if err != nil {
		return nil, fmt.Errorf("store the bolt11: %w", err)
	}
	if n == 0 {
		return e.overtaken(ctx, node, pa.ID)
	}
	e.changed(pa.ID)
	// The bolt11 was stored under the action's lock, while the action was in the state read above: pa is still right.
	pa.Invoice.Bolt11 = bolt11
	return e.withSecret(pa), nil
}

// overtaken is the answer where an action moved on, or got its bolt11, before the one just issued could be stored.
func (e *Engine) overtaken(ctx context.Context, node Node, id int64) (*PaidAction, error) {
	pa, err := e.get(ctx, id)
	if err != nil {
		return nil, err
	}
	if pa.Invoice.Bolt11 != "" {
		// Somebody else stored it meanwhile, and it was handed out: the answer is whatever became of it.
		return e.withSecret(pa), nil
	}
	if pa.State != Canceling && pa.State != Failed && pa.State != Retrying {
		// The invoice was paid before it was handed out: the receiver of a wrapped payment knows its hash and preimage,
		// which is all that a keysend takes. The held money may be on its way to them, so we cannot give it back.
		return e.withSecret(pa), nil
	}
	// The action was given up while the node was at work, so no bolt11 can be stored any more. Nobody has seen this
	// invoice, and nobody must pay it.
	if err := node.CancelInvoice(ctx, pa.Invoice.Hash); err != nil {
		e.Log.WarnContext(ctx, "an invoice that came too late stays open until it expires", "action", pa.ID, "error", err)
	}
	return nil, errNoInvoice()
}

// errNoInvoice is the refusal where an action was begun, and its invoice was not issued before its deadline.
func errNoInvoice() *Error {
	return Errorf(CodeLightningUnavailable, "The invoice could not be made in time. Try again in a minute.")
}

// openAt opens an invoice at a node. After an error it looks the invoice up: only the answer may have been lost. It
// never returns the bolt11 of an invoice other than the one asked for, or of one that nobody can pay.
func openAt(ctx context.Context, node Node, r InvoiceRequest) (bolt11 string, err error) {
	if bolt11, err = node.OpenInvoice(ctx, r); err == nil {
		return bolt11, nil
	}
	found, lookupErr := node.LookupInvoice(ctx, r.Hash)
	if lookupErr != nil {
		return "", errors.Join(err, lookupErr)
	}
	if unfit := found.IsFor(r); unfit != nil {
		return "", fmt.Errorf("invoice %s over %v msat: %w", r.Hash, found.Amount, unfit)
	}
	return found.Bolt11, nil
}

// withSecret adds the secret of an anonymous payer. Use it only in answers to whoever asked for the action or proved it
// is theirs.
func (e *Engine) withSecret(pa *PaidAction) *PaidAction {
	if pa.Payer == nil {
		pa.Secret = e.SecretOf(pa.Genesis)
	}
	return pa
}
