// Package community is the application that comes with Holdfast: posts, comments, zaps, donations, credits. Each thing that
// costs money is one file with one implementation of paidaction.Action; Actions is the list of them.
package community

import (
	"errors"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Settings are the amounts and percentages of the formulas (spec 02 §2.4).
type Settings struct {
	CommentCost     paidaction.Msat // a comment outside any territory
	PostCost        paidaction.Msat // a post outside any territory
	BioCost         paidaction.Msat
	AnonymousFactor int64         // how much dearer posting is without signing in
	SpamWindow      time.Duration // own posts within it make the next one dearer
	DuplicateWindow time.Duration // the same text again within it is refused
	SybilPct        int           // of a zap that does not go to the author
	RewardsPct      int           // of a fee that goes to the rewards pool, the rest to the founder
	MaxZap          paidaction.Msat
	MaxVote         paidaction.Msat // the dearest vote that a poll can ask for
	MaxBounty       paidaction.Msat
	ReceivedPct     int // of what is paid to a lightning address that its owner gets
	ReceiveFeePct   int // of it that goes to the rewards pool; what is left is for routing, or the rewards

	NewcomerWindow time.Duration // how long after signing up an invite can be redeemed

	RewardTop  int // contributors of a day who share its rewards
	RewardDays int // how many days back rewards are still paid; what older days left in the pool is paid with the first of these
}

// DefaultSettings are those of the specification.
func DefaultSettings() Settings {
	return Settings{
		CommentCost: 1000, PostCost: 1000, BioCost: 1000, AnonymousFactor: 10, SpamWindow: 10 * time.Minute, DuplicateWindow: 10 * time.Minute,
		SybilPct: 30, RewardsPct: 30, MaxZap: 1_000_000_000, MaxVote: 1_000_000_000, MaxBounty: 10_000_000_000, ReceivedPct: 90, ReceiveFeePct: 7,
		NewcomerWindow: 24 * time.Hour, RewardTop: 100, RewardDays: 7,
	}
}

// Check refuses what cannot be: percentages beyond 0 to 100 would make shares negative (spec 05.10), and so would costs.
func (s Settings) Check() error {
	if s.SybilPct < 0 || s.SybilPct > 100 || s.RewardsPct < 0 || s.RewardsPct > 100 ||
		s.ReceivedPct < 1 || s.ReceiveFeePct < 0 || s.ReceivedPct+s.ReceiveFeePct > 100 {
		return errors.New("a percentage must lie between 0 and 100")
	}
	if min(s.CommentCost, s.PostCost, s.BioCost) <= 0 || s.AnonymousFactor < 1 ||
		min(s.MaxZap, s.MaxVote, s.MaxBounty) < 1000 || max(s.MaxZap, s.MaxVote, s.MaxBounty) > paidaction.MaxMsat {
		return errors.New("costs must be above zero, and the largest zap, vote and bounty a sat at least")
	}
	if s.SpamWindow < 0 || s.DuplicateWindow < 0 || s.NewcomerWindow < 0 {
		return errors.New("a window cannot be negative")
	}
	if s.RewardTop < 1 || s.RewardTop > 1000 || s.RewardDays < 1 || s.RewardDays > 31 {
		return errors.New("rewards go to 1 to 1,000 people, for 1 to 31 days back")
	}
	return nil
}

// Actions are all actions of the application: one line each.
func Actions(s Settings) []paidaction.Definition {
	return []paidaction.Definition{
		paidaction.Define(ItemCreate{Settings: s}),
		paidaction.Define(Zap{Settings: s}),
		paidaction.Define(PollVote{Settings: s}),
		paidaction.Define(Donate{}),
		paidaction.Define(BuyCredits{}),
		paidaction.Define(Receive{Settings: s}),
		paidaction.Define(Withdraw{}),
		paidaction.Define(InviteGift{Settings: s}),
	}
}
