package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// lostFor is how long after the end of its invoice no node that has its data holds a payment any more: LND locks none
// for more than 2,016 blocks (max-cltv-expiry), which is two weeks, and slow blocks are allowed for. A node that has
// lost its data does not take back what it offered its peers: whether that is spent on the chain only the operator can
// see (docs/operations.md).
const lostFor = 21 * 24 * time.Hour

// Why a payment is not given up, though no node says what became of it.
var (
	errMayArrive  = errors.New("it may still reach its receiver")
	errGoesOn     = errors.New("it goes on by itself")
	errMovedOn    = fmt.Errorf("%w: it has moved on", errGoesOn)
	errNotAllSaid = errors.New("not every node has said that it does not have it")
)

// GiveUp implements paidaction.Relay. That a node does not know a payment proves nothing, so this is for an operator to
// decide, who knows that the node's data are gone for good, and what it offered its peers is spent. Nothing else that
// can still arrive is given up: neither while the payer's payment is held, which outlasts the receiver's by 80 blocks
// (spec 03 §3.2), nor, where no payer's payment tells, for three weeks.
func (r *Relay) GiveUp(ctx context.Context, action int64, told string) error {
	q := db.New(r.Pool)
	row, err := q.GetRelay(ctx, action)
	if err != nil {
		return fmt.Errorf("read the outgoing payment of action %d: %w", action, err)
	}
	stage := paidaction.Stage(row.Stage)
	switch {
	case stage != paidaction.StageInWork && stage != paidaction.StageIncoming:
		return fmt.Errorf("%w: its payment is %s", errGoesOn, row.Stage)
	case row.InsideID != nil:
		return fmt.Errorf("%w: it ends with action %d, whose invoice it pays", errGoesOn, *row.InsideID)
	case row.Node == nil:
		return fmt.Errorf("%w: its payment is %s, and no node was given it", errGoesOn, row.Stage)
	}
	var open *ending // of the claim as it is before the nodes are asked: what they say is no word of a later one
	switch claim, err := q.OpenAttempt(ctx, row.ID); {
	case err == nil:
		open = &ending{claim, endedFailed, "given up by an operator: its node has lost its data"}
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("read the claim: %w", err)
	}
	if _, err := r.Proceed(ctx, action); err == nil {
		return fmt.Errorf("%w: node %s answers for it", errGoesOn, *row.Node)
	} else if !errors.Is(err, paidaction.ErrLost) {
		return err
	}
	if err := r.cannotArrive(ctx, row); err != nil {
		return err
	}
	has, err := r.forGood(ctx, row, "")
	switch _, doubted := r.Doubted(); {
	case err != nil:
		return err
	case doubted:
		return errSilent
	case has.name != "":
		return fmt.Errorf("%w: node %s has it", errGoesOn, has.name)
	case has.silent:
		return errNotAllSaid
	}
	why := reason{givenUp, paidaction.Errorf(paidaction.CodeInternal, "%s", told)}
	_, err = r.fail(ctx, row, why, func(q *db.Queries, at time.Time) (bool, error) {
		switch free, err := freed(ctx, q, row, open, at); {
		case err != nil:
			return false, err
		case !free:
			return false, errMovedOn
		}
		return true, r.counts(ctx, q, has)
	})
	return err
}

// cannotArrive is nil if no part of a payment can be under way any more.
func (r *Relay) cannotArrive(ctx context.Context, row db.RelayPayment) error {
	until := row.ExpiresAt.Add(r.Settings.ExpirySlack)
	if back, err := r.wentBack(ctx, row); err != nil {
		return err
	} else if !back {
		until = row.ExpiresAt.Add(lostFor)
	}
	over, err := r.passed(ctx, until)
	if err == nil && !over {
		err = fmt.Errorf("%w until %s", errMayArrive, until.Format(time.RFC3339))
	}
	return err
}

// wentBack reports whether the payer's payment of a forward has gone back, and is an error while it is held.
func (r *Relay) wentBack(ctx context.Context, row db.RelayPayment) (bool, error) {
	if row.ReceiverID == nil {
		return false, nil
	}
	inv, err := db.New(r.Pool).GetInvoice(ctx, row.ActionID)
	if err != nil {
		return false, fmt.Errorf("read the payer's invoice: %w", err)
	}
	outer, err := r.outer(ctx, row, inv.Node)
	switch {
	case errors.Is(err, paidaction.ErrInvoiceNotFound):
		return false, nil
	case err != nil:
		return false, err
	case outer.State != paidaction.InvoiceCanceled:
		return false, fmt.Errorf("%w: its payer's payment is %s at node %s", errMayArrive, outer.State, inv.Node)
	}
	return true, nil
}
