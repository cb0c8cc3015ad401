package graph

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func (m mutations) CreateInvite(ctx context.Context, giftCredits int64, limit int) (*db.Invite, error) {
	inviter, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	// Nothing is paid, but the row stays for ever.
	if err := m.meters.paying(sessionOf(ctx), m.Now()); err != nil {
		return nil, err
	}
	var invite db.Invite
	err = m.inTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if invite, err = community.CreateInvite(ctx, q, inviter, giftCredits, int64(limit), m.Now(), rand.Reader); err != nil {
			return err
		}
		return m.holdKey(ctx, q) // this may have waited for its turn
	})
	if err != nil {
		return nil, err
	}
	return &invite, nil
}

func (m mutations) RevokeInvite(ctx context.Context, code string) (*db.Invite, error) {
	inviter, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	invite, err := community.RevokeInvite(ctx, m.writes(), inviter, code, m.Now())
	if err != nil {
		return nil, err
	}
	return &invite, nil
}

// RedeemInvite asks for the gift on the inviter's behalf. The newcomer sees nothing of the inviter's action but the
// gift.
func (m mutations) RedeemInvite(ctx context.Context, code string) (*schema.InviteRedemption, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.meters.paying(sessionOf(ctx), m.Now()); err != nil {
		return nil, err
	}
	invite, err := community.FindInvite(ctx, db.New(m.Pool), code)
	if err != nil {
		return nil, err
	}
	pa, err := m.Engine.Pay(ctx, paidaction.Request{Kind: community.KindInviteGift, Terms: paidaction.Terms{Method: paidaction.FeeCredit},
		Args:   community.InviteGiftArgs{Code: code, User: user},
		Key:    fmt.Sprintf("invite %s redeemed by %d", code, user), // so that the request can be repeated
		Caller: paidaction.Caller{User: &invite.InviterID}, OnBehalf: true})
	if errors.Is(err, paidaction.Refused(paidaction.CodeInsufficientFunds)) {
		return nil, paidaction.Errorf(paidaction.CodeInsufficientFunds, "The gift cannot be given at the moment. Ask whoever invited you.")
	}
	if err != nil {
		return nil, err
	}
	return &schema.InviteRedemption{GiftMsat: pa.Cost}, nil
}

func (q queries) Invites(ctx context.Context, first int, after *int64) (*schema.InvitePage, error) {
	if err := q.Limits.checkList(first); err != nil {
		return nil, err
	}
	inviter, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := q.reads().InvitesOf(ctx, db.InvitesOfParams{InviterID: inviter, Before: orElse(after, math.MaxInt64), Page: int32(first) + 1})
	if err != nil {
		return nil, fmt.Errorf("read invites: %w", err)
	}
	page := &schema.InvitePage{}
	rows, page.Next = cut(rows, first, func(i db.Invite) int64 { return i.ID })
	for _, row := range rows {
		page.Nodes = append(page.Nodes, &row)
	}
	return page, nil
}

func (inviteGiftResults) User(ctx context.Context, r *community.InviteGiftResult) (*db.Usr, error) {
	return loadersOf(ctx).users.Load(ctx, r.User)
}
