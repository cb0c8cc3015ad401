package config

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Prices are the amounts and percentages of the community's formulas; their defaults are those of community.DefaultSettings.
type Prices struct {
	PostCost        int64         `help:"Price of a post outside any territory, in msat." default:"1000"`
	CommentCost     int64         `help:"Price of a comment outside any territory, in msat." default:"1000"`
	BioCost         int64         `help:"Price of a bio, in msat." default:"1000"`
	AnonymousFactor int64         `help:"How much dearer posting is without signing in." default:"10"`
	SpamWindow      time.Duration `help:"Own posts within it make the next one ten times dearer." default:"10m"`
	DuplicateWindow time.Duration `help:"The same text again within it is refused." default:"10m"`
	SybilPct        int           `help:"Percent of a zap that do not go to the author." default:"30"`
	RewardsPct      int           `help:"Percent of a fee that go to the rewards pool; the rest is the founder's." default:"30"`
	MaxZap          int64         `help:"Largest zap, in msat." default:"1000000000"`
	MaxVote         int64         `help:"Dearest vote that a poll can ask for, in msat." default:"1000000000"`
	MaxBounty       int64         `help:"Largest bounty, in msat." default:"10000000000"`
	ReceivedPct     int           `help:"Percent of what is sent to a user that the user gets." default:"90"`
	ReceiveFeePct   int           `help:"Percent of it that go to the rewards pool; what is left is for routing." default:"7"`
	NewcomerWindow  time.Duration `help:"How long after signing up an invite can be redeemed." default:"24h"`
	RewardTop       int           `help:"How many contributors of a day share its rewards." default:"100"`
	RewardDays      int           `help:"How many days back rewards are still paid, after a standstill." default:"7"`
}

// Community are the prices as the community takes them.
func (p Prices) Community() community.Settings {
	return community.Settings{
		PostCost: paidaction.Msat(p.PostCost), CommentCost: paidaction.Msat(p.CommentCost), BioCost: paidaction.Msat(p.BioCost),
		AnonymousFactor: p.AnonymousFactor, SpamWindow: p.SpamWindow, DuplicateWindow: p.DuplicateWindow,
		SybilPct: p.SybilPct, RewardsPct: p.RewardsPct,
		MaxZap: paidaction.Msat(p.MaxZap), MaxVote: paidaction.Msat(p.MaxVote), MaxBounty: paidaction.Msat(p.MaxBounty),
		ReceivedPct: p.ReceivedPct, ReceiveFeePct: p.ReceiveFeePct,
		NewcomerWindow: p.NewcomerWindow, RewardTop: p.RewardTop, RewardDays: p.RewardDays,
	}
}
