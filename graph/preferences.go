package graph

import (
	"context"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

func (m mutations) SetPreferences(ctx context.Context, dropInvoicesAfterDays *int, hideInvoiceDescriptions bool) (*community.Preferences, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	p := community.Preferences{DropInvoicesAfterDays: dropInvoicesAfterDays, HideInvoiceDescriptions: hideInvoiceDescriptions}
	if err := community.SetPreferences(ctx, m.writes(), user, p, m.Now()); err != nil {
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
