package community

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Preferences are what somebody wants instead of the defaults.
type Preferences struct {
	// DropInvoicesAfterDays is how long after an action has ended the texts of its invoices are deleted; nil keeps
	// them.
	DropInvoicesAfterDays *int
	// HideInvoiceDescriptions leaves out of the invoices of their actions what these are for.
	HideInvoiceDescriptions bool
}

const maxDropDays = 3650

// SetPreferences replaces somebody's preferences.
func SetPreferences(ctx context.Context, q *db.Queries, user int64, p Preferences, now time.Time) error {
	arg := db.SetPreferenceParams{UserID: user, HideDescriptions: p.HideInvoiceDescriptions, At: now}
	if days := p.DropInvoicesAfterDays; days != nil {
		if *days < 1 || *days > maxDropDays {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "Choose between 1 and %d days after which invoices are deleted.", maxDropDays)
		}
		arg.DropInvoicesAfterDays = new(int32(*days))
	}
	if err := q.SetPreference(ctx, arg); err != nil {
		return fmt.Errorf("store preferences: %w", err)
	}
	return nil
}

// PreferencesOf are somebody's preferences.
func PreferencesOf(ctx context.Context, q *db.Queries, user int64) (Preferences, error) {
	row, err := q.PreferenceOf(ctx, user)
	if errors.Is(err, pgx.ErrNoRows) {
		return Preferences{}, nil
	}
	if err != nil {
		return Preferences{}, fmt.Errorf("read preferences: %w", err)
	}
	p := Preferences{HideInvoiceDescriptions: row.HideDescriptions}
	if days := row.DropInvoicesAfterDays; days != nil {
		p.DropInvoicesAfterDays = new(int(*days))
	}
	return p, nil
}

const (
	dropPage  = 500       // actions processed in one transaction
	dropEvery = time.Hour // per person
)

// DropInvoices deletes the texts of old invoices of one person who wants that and is due, inside the caller's
// transaction, and reports whether there was one. Hashes and amounts stay. Whatever is open or ended too recently is
// left alone: it may still be paid, retried or held against its node. The person's actions are processed once, in the
// order in which they began, and an open one stops the round.
func DropInvoices(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
	p, err := q.NextToDropFor(ctx, now)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find whose invoices are to be dropped: %w", err)
	}
	actions, err := q.ActionsAfter(ctx, db.ActionsAfterParams{PayerID: p.UserID, After: p.DroppedTo, Page: dropPage,
		Before: now.AddDate(0, 0, -int(*p.DropInvoicesAfterDays))})
	if err != nil {
		return false, fmt.Errorf("read the actions of a payer: %w", err)
	}
	next := db.DroppedToParams{UserID: p.UserID, DroppedTo: p.DroppedTo, DueAt: now}
	var ids []int64
	for _, a := range actions {
		if !a.Ended {
			break
		}
		ids, next.DroppedTo = append(ids, a.ID), a.ID
	}
	if len(ids) > 0 {
		if err := drop(ctx, q, ids, now); err != nil {
			return false, err
		}
	}
	if len(ids) < dropPage {
		next.DueAt = now.Add(dropEvery)
	}
	if err := q.DroppedTo(ctx, next); err != nil {
		return false, fmt.Errorf("note what was dropped: %w", err)
	}
	return true, nil
}

func drop(ctx context.Context, q *db.Queries, actions []int64, now time.Time) error {
	if _, err := q.DropBolt11(ctx, db.DropBolt11Params{Ids: actions, At: &now}); err != nil {
		return fmt.Errorf("drop invoices: %w", err)
	}
	// DropPayee finds a withdrawal's argument by the invoice that was paid, so it comes first.
	if err := q.DropPayee(ctx, actions); err != nil {
		return fmt.Errorf("drop the payees of withdrawals: %w", err)
	}
	if _, err := q.DropPaidBolt11(ctx, actions); err != nil {
		return fmt.Errorf("drop invoices that were paid: %w", err)
	}
	return nil
}
