package community

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// InviteGift gives a newcomer what their invite promises. Its payer is the inviter, who is not there when it is
// redeemed: it may be asked for only on behalf of the newcomer.
type InviteGift struct {
	paidaction.Base[InviteGiftArgs, InviteGiftResult]
	Settings Settings
}

// InviteGiftArgs say which invite is redeemed by whom.
type InviteGiftArgs struct {
	Code string `json:"code"`
	User int64  `json:"user"`
}

// InviteGiftResult is who got what, in msat of credits.
type InviteGiftResult struct {
	User int64 `json:"user"`
	Msat int64 `json:"msat"`
}

// KindInviteGift names the action.
const KindInviteGift = "INVITE_GIFT"

const (
	maxInviteUses  = 1000
	maxOpenInvites = 100 // per inviter
)

// Spec follows the table of spec 02 §2.3.
func (InviteGift) Spec() paidaction.Spec {
	return paidaction.Spec{Kind: KindInviteGift, Methods: []paidaction.Method{paidaction.FeeCredit}}
}

// Cost is the gift. Only the inviter may pay it, and only somebody who has just signed up may get it.
func (ig InviteGift) Cost(ctx context.Context, tx *paidaction.Tx, a InviteGiftArgs) (paidaction.Msat, error) {
	invite, err := FindInvite(ctx, tx.DB, a.Code)
	if err != nil {
		return 0, err
	}
	if *tx.Payer != invite.InviterID {
		return 0, paidaction.Errorf(paidaction.CodeForbidden, "This invite is somebody else's.")
	}
	if a.User == invite.InviterID {
		return 0, paidaction.Errorf(paidaction.CodeForbidden, "You cannot redeem an invite of your own.")
	}
	found, err := tx.DB.UsersByID(ctx, []int64{a.User})
	if err != nil {
		return 0, fmt.Errorf("read the newcomer: %w", err)
	}
	if len(found) == 0 || tx.Now.Sub(found[0].CreatedAt) > ig.Settings.NewcomerWindow {
		return 0, paidaction.Errorf(paidaction.CodeForbidden, "Only people who have just signed up can redeem an invite.")
	}
	return paidaction.Msat(invite.GiftMsat), nil
}

// Perform uses the invite: once per person, and never more often than its limit allows, even at the same time.
func (InviteGift) Perform(ctx context.Context, tx *paidaction.Tx, a InviteGiftArgs) (InviteGiftResult, error) {
	n, err := tx.DB.InsertRedemption(ctx, db.InsertRedemptionParams{UserID: a.User, Code: a.Code, ActionID: tx.Action, At: tx.Now})
	if err != nil {
		return InviteGiftResult{}, fmt.Errorf("insert the redemption: %w", err)
	}
	if n == 0 {
		return InviteGiftResult{}, paidaction.Errorf(paidaction.CodeDuplicate, "You have already redeemed an invite.")
	}
	if n, err = tx.DB.UseInvite(ctx, a.Code); err != nil {
		return InviteGiftResult{}, fmt.Errorf("use the invite: %w", err)
	}
	if n == 0 {
		return InviteGiftResult{}, paidaction.Errorf(paidaction.CodeForbidden, "This invite is used up or was revoked.")
	}
	return InviteGiftResult{User: a.User, Msat: int64(tx.Cost)}, nil
}

// OnPaid gives the money to the newcomer.
func (InviteGift) OnPaid(_ context.Context, tx *paidaction.Tx, a InviteGiftArgs, _ InviteGiftResult) error {
	return tx.Pay(ledger.UserCredits(a.User), tx.Cost, "invite gift")
}

// Describe is for the inviter's own list.
func (InviteGift) Describe(InviteGiftArgs) string { return "gift for a newcomer" }

// AfterPaid tells the inviter.
func (InviteGift) AfterPaid(ctx context.Context, tx *paidaction.Tx, _ InviteGiftArgs, _ InviteGiftResult) error {
	return tell(ctx, tx, "INVITE_REDEEMED", nil, []int64{*tx.Payer})
}

var codePattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// FindInvite reads the invite with this code; NOT_FOUND where there is none.
func FindInvite(ctx context.Context, q *db.Queries, code string) (db.Invite, error) {
	unknown := paidaction.Errorf(paidaction.CodeNotFound, "There is no such invite.")
	if !codePattern.MatchString(code) {
		return db.Invite{}, unknown
	}
	invite, err := q.GetInvite(ctx, code)
	if errors.Is(err, pgx.ErrNoRows) {
		return invite, unknown
	}
	if err != nil {
		return invite, fmt.Errorf("read an invite: %w", err)
	}
	return invite, nil
}

// CreateInvite makes an invite inside the caller's transaction: up to limit newcomers get a gift each. The code has 128
// random bits; whoever has it can redeem it. Nothing is set aside: the gift is taken from the inviter's credits when it
// is redeemed.
//
// Errors: INVALID_AMOUNT, and INVALID_INPUT where the limit is out of bounds or too many invites are open.
func CreateInvite(ctx context.Context, q *db.Queries, inviter, giftCredits, limit int64, now time.Time, random io.Reader) (db.Invite, error) {
	if err := checkSats(giftCredits); err != nil {
		return db.Invite{}, err
	}
	if limit < 1 || limit > maxInviteUses {
		return db.Invite{}, paidaction.Errorf(paidaction.CodeInvalidInput, "An invite is for 1 to %d people.", maxInviteUses)
	}
	if _, err := q.LockUser(ctx, inviter); err != nil {
		return db.Invite{}, fmt.Errorf("lock the inviter: %w", err)
	}
	open, err := q.CountOpenInvites(ctx, inviter)
	if err != nil {
		return db.Invite{}, fmt.Errorf("count invites: %w", err)
	}
	if open >= maxOpenInvites {
		return db.Invite{}, paidaction.Errorf(paidaction.CodeInvalidInput, "You have %d invites that are not used up yet. Revoke some first.", open)
	}
	var code [16]byte
	if _, err := io.ReadFull(random, code[:]); err != nil {
		return db.Invite{}, fmt.Errorf("read randomness: %w", err)
	}
	invite, err := q.InsertInvite(ctx, db.InsertInviteParams{Code: hex.EncodeToString(code[:]), InviterID: inviter, GiftMsat: giftCredits * 1000,
		UsesLimit: limit, CreatedAt: now})
	if err != nil {
		return invite, fmt.Errorf("insert an invite: %w", err)
	}
	return invite, nil
}

// RevokeInvite takes an invite back: nobody can redeem it any more. NOT_FOUND where it is not the inviter's.
func RevokeInvite(ctx context.Context, q *db.Queries, inviter int64, code string, now time.Time) (db.Invite, error) {
	invite, err := FindInvite(ctx, q, code)
	if err != nil {
		return invite, err
	}
	invite, err = q.RevokeInvite(ctx, db.RevokeInviteParams{Code: invite.Code, InviterID: inviter, At: &now})
	if errors.Is(err, pgx.ErrNoRows) {
		return invite, paidaction.Errorf(paidaction.CodeNotFound, "There is no such invite.")
	}
	if err != nil {
		return invite, fmt.Errorf("revoke an invite: %w", err)
	}
	return invite, nil
}
