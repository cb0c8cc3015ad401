// Package community is the application that comes with Holdfast: posts, comments, zaps, donations, credits. Each thing that
// costs money is one file with one implementation of paidaction.Action; Actions is the list of them.
package community

import (
	"errors"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Settings are the amounts and percentages of the formulas (spec 02 §2.4). The zero value of each stands for its default.
type Settings struct {
	CommentCost     paidaction.Msat // a comment outside any territory; default 1 sat
	PostCost        paidaction.Msat // a post outside any territory; default 1 sat
	AnonymousFactor int64           // how much dearer posting is without signing in; default 10
	SpamWindow      time.Duration   // own posts within it make the next one dearer; default 10 minutes
	DuplicateWindow time.Duration   // the same text again within it is refused; default 10 minutes
	SybilPct        int             // of a zap that does not go to the author; default 30
	RewardsPct      int             // of a fee that goes to the rewards pool, the rest to the founder; default 30
	MaxZap          paidaction.Msat // default 1,000,000 sats
}

// Defaults fills in what is zero and refuses what cannot be: percentages beyond 0 to 100 would make shares negative.
func (s Settings) Defaults() (Settings, error) {
	if s.CommentCost == 0 {
		s.CommentCost = 1000
	}
	if s.PostCost == 0 {
		s.PostCost = 1000
	}
	if s.AnonymousFactor == 0 {
		s.AnonymousFactor = 10
	}
	if s.SpamWindow == 0 {
		s.SpamWindow = 10 * time.Minute
	}
	if s.DuplicateWindow == 0 {
		s.DuplicateWindow = 10 * time.Minute
	}
	if s.SybilPct == 0 {
		s.SybilPct = 30
	}
	if s.RewardsPct == 0 {
		s.RewardsPct = 30
	}
	if s.MaxZap == 0 {
		s.MaxZap = 1_000_000_000
	}
	if s.SybilPct < 0 || s.SybilPct > 100 || s.RewardsPct < 0 || s.RewardsPct > 100 {
		return s, errors.New("community: a percentage must lie between 0 and 100")
	}
	if s.CommentCost < 0 || s.PostCost < 0 || s.AnonymousFactor < 1 || s.MaxZap < 1000 {
		return s, errors.New("community: costs must be above zero")
	}
	return s, nil
}

// Actions are all actions of the application: one line each.
func Actions(s Settings) []paidaction.Definition {
	return []paidaction.Definition{
		paidaction.Define(ItemCreate{Settings: s}),
		paidaction.Define(Zap{Settings: s}),
		paidaction.Define(Donate{}),
		paidaction.Define(BuyCredits{}),
	}
}
