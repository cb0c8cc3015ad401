// Package community is the application that comes with Holdfast: posts, comments, zaps, donations, credits. Everything
// that costs money is one file with one implementation of paidaction.Action; Actions lists them. Begin with donate.go,
// a small one; docs/add-an-action.md adds another, and says which file has what several of them need.
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
	AnonymousFactor int64         // how many times as much posting costs without signing in
	SpamWindow      time.Duration // own posts within this window make the next one dearer
	DuplicateWindow time.Duration // the same text is refused again within this window
	SybilPct        int           // of a zap, which does not go to the author
	RewardsPct      int           // of a fee, which goes to the rewards pool; the rest goes to the founder
	MaxZap          paidaction.Msat
	MaxVote         paidaction.Msat // the highest price of a vote in a poll
	MaxBounty       paidaction.Msat
	ReceivedPct     int // of a payment to a lightning address, which goes to its owner
	ReceiveFeePct   int // of it, which goes to the rewards pool, after a sat for routing; the remainder is for routing, or the rewards
	BoostLasts      time.Duration
	EditWindow      time.Duration // how long an author may change a text and its forwards after it was paid

	// The fee of a file depends on the bytes that its owner has uploaded within 24 hours, including the file: the first
	// fee up to the first step, and so on; the last fee beyond the last step.
	UploadSteps          [3]int64
	UploadFees           [4]paidaction.Msat
	AnonymousUploadFee   paidaction.Msat
	MaxUpload            int64         // bytes of one file
	MaxUnpaidUploads     int64         // unpaid files of one user, or of one address of anonymous users
	MaxUnpaidUploadBytes int64         // the bytes of these together
	MaxUnpaidInAll       int64         // the bytes of the unpaid files of all users, and as many of all who are anonymous
	KeepUploads          time.Duration // when a file that no item carries is deleted

	TerritoryMonthly paidaction.Msat // a territory for a month
	TerritoryYearly  paidaction.Msat
	TerritoryOnce    paidaction.Msat // for ever
	TerritoryGrace   time.Duration   // from when it is found unpaid until it is stopped
	TerritoryMaxCost paidaction.Msat // of a post or a comment in one

	NewcomerWindow time.Duration // how long after signing up somebody can redeem an invite

	RewardTop  int // how many contributors share the rewards of a day, in each asset
	RewardDays int // how many days back rewards are still paid; what older days left is paid with the first of these
}

// DefaultSettings are those of the specification.
func DefaultSettings() Settings {
	return Settings{
		CommentCost: 1000, PostCost: 1000, BioCost: 1000, AnonymousFactor: 10, SpamWindow: 10 * time.Minute, DuplicateWindow: 10 * time.Minute,
		SybilPct: 30, RewardsPct: 30, MaxZap: 1_000_000_000, MaxVote: 1_000_000_000, MaxBounty: 10_000_000_000, ReceivedPct: 90, ReceiveFeePct: 7,
		BoostLasts:  30 * 24 * time.Hour,
		EditWindow:  10 * time.Minute,
		UploadSteps: [...]int64{250_000_000, 500_000_000, 1_000_000_000}, UploadFees: [...]paidaction.Msat{0, 10_000, 100_000, 1_000_000},
		AnonymousUploadFee: 100_000, MaxUpload: 10_000_000, MaxUnpaidUploads: 50, MaxUnpaidUploadBytes: 100_000_000, MaxUnpaidInAll: 10_000_000_000, KeepUploads: 24 * time.Hour,
		TerritoryMonthly: 50_000_000, TerritoryYearly: 500_000_000, TerritoryOnce: 3_000_000_000, TerritoryGrace: 5 * 24 * time.Hour,
		TerritoryMaxCost: 100_000_000,
		NewcomerWindow:   24 * time.Hour, RewardTop: 100, RewardDays: 7,
	}
}

// Check refuses impossible settings: percentages outside 0 to 100 would make shares negative (spec 05.10), as would
// costs.
func (s Settings) Check() error {
	if s.SybilPct < 0 || s.SybilPct > 100 || s.RewardsPct < 0 || s.RewardsPct > 100 ||
		s.ReceivedPct < 1 || s.ReceiveFeePct < 0 || s.ReceivedPct+s.ReceiveFeePct > 100 {
		return errors.New("a percentage must lie between 0 and 100")
	}
	if min(s.CommentCost, s.PostCost, s.BioCost) <= 0 || s.AnonymousFactor < 1 ||
		min(s.MaxZap, s.MaxVote, s.MaxBounty) < 1000 ||
		max(s.CommentCost, s.PostCost, s.BioCost, s.MaxZap, s.MaxVote, s.MaxBounty) > paidaction.MaxMsat {
		return errors.New("costs must be above zero, the largest zap, vote and bounty a sat at least, and none of them more than there is")
	}
	for _, b := range Billings {
		if price := s.TerritoryPrice(b); price <= 0 || price > paidaction.MaxMsat {
			return errors.New("a territory must cost something, and no more than there is")
		}
	}
	if s.TerritoryMaxCost < 1000 || s.TerritoryMaxCost > paidaction.MaxMsat {
		return errors.New("the largest cost of a post in a territory must be a sat at least")
	}
	if s.SpamWindow < 0 || s.DuplicateWindow < 0 || s.EditWindow < 0 || s.TerritoryGrace < 0 || s.NewcomerWindow < 0 {
		return errors.New("a window or a grace cannot be negative")
	}
	if s.BoostLasts <= 0 {
		return errors.New("a boost lasts longer than no time")
	}
	if s.RewardTop < 1 || s.RewardTop > 1000 || s.RewardDays < 1 || s.RewardDays > 31 {
		return errors.New("rewards go to 1 to 1,000 people, for 1 to 31 days back")
	}
	return s.checkUploads()
}

// Actions are all actions of the application: one line each.
func Actions(s Settings) []paidaction.Definition {
	return []paidaction.Definition{
		paidaction.Define(ItemCreate{Settings: s}),
		paidaction.Define(ItemUpdate{Settings: s}),
		paidaction.Define(Zap{Settings: s}),
		paidaction.Define(PollVote{Settings: s}),
		paidaction.Define(DownZap{Zap{Settings: s}}),
		paidaction.Define(Boost{Settings: s}),
		paidaction.Define(Donate{}),
		paidaction.Define(BuyCredits{}),
		paidaction.Define(Receive{Settings: s}),
		paidaction.Define(Withdraw{}),
		paidaction.Define(TerritoryCreate{Settings: s}),
		paidaction.Define(TerritoryUpdate{Settings: s}),
		paidaction.Define(TerritoryBilling{Settings: s}),
		paidaction.Define(TerritoryUnarchive{Settings: s}),
		paidaction.Define(InviteGift{Settings: s}),
	}
}
