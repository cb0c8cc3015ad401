package graph

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

func (m mutations) SetPreferences(ctx context.Context, dropInvoicesAfterDays *int, hideInvoiceDescriptions bool) (*community.Preferences, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	p := community.Preferences{DropInvoicesAfterDays: dropInvoicesAfterDays, HideInvoiceDescriptions: hideInvoiceDescriptions}
	err = m.inTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := community.SetPreferences(ctx, q, user, p, m.Now()); err != nil {
			return err
		}
		return m.holdKey(ctx, q) // this may have waited for its turn
	})
	if err != nil {
		return nil, err
	}
	return &p, nil
}

func (q queries) Preferences(ctx context.Context) (*community.Preferences, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	p, err := community.PreferencesOf(ctx, q.reads(), user)
	return &p, err
}
