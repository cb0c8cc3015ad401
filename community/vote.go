package community

import (
	"context"
	"fmt"
	"math"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// vote adds what was paid to what its payer has zapped the item with, up or down, and returns what that changes: one vote at the
// first time, and the difference of the weighted vote in millionths, below zero where it goes down. The difference is also recorded
// by itself, for whoever asks what was voted when.
func vote(ctx context.Context, tx *paidaction.Tx, item db.Item, down bool) (votes, micros int64, err error) {
	total, err := tx.DB.AddZapTotal(ctx, db.AddZapTotalParams{ItemID: item.ID, UserID: *tx.Payer, Down: down, Msat: int64(tx.Cost)})
	if err != nil {
		return 0, 0, fmt.Errorf("add to the payer's zaps: %w", err)
	}
	trust, err := tx.DB.Trust(ctx, *tx.Payer)
	if err != nil {
		return 0, 0, fmt.Errorf("read the payer's trust: %w", err)
	}
	before := paidaction.Msat(total) - tx.Cost
	if before == 0 {
		votes = 1
	}
	micros = Vote(paidaction.Msat(total), trust) - Vote(before, trust)
	if down {
		micros = -micros
	}
	err = tx.DB.InsertVoteEvent(ctx, db.InsertVoteEventParams{ActionID: tx.Action, ItemID: item.ID, AuthorID: item.AuthorID, Micros: micros, At: tx.Now})
	if err != nil {
		return 0, 0, fmt.Errorf("record the vote: %w", err)
	}
	return votes, micros, nil
}

// Vote is the weight of one person's zaps on one item in one direction, in millionths: log10(total in sats, at least 1) × trust.
// Each zap adds the difference to the one before, log10(new ÷ max(old, 1)) × trust (spec 02 §2.4); as whole numbers these add up to
// the same weight in whatever order the zaps come.
func Vote(total paidaction.Msat, trustMicros int64) int64 {
	sats := float64(max(total.Sats(), 1))
	return int64(math.Round(math.Log10(sats) * float64(trustMicros)))
}
