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
	BoostLasts      time.Duration `help:"How long a boost ranks a post." default:"720h"`
	EditWindow      time.Duration `help:"How long an author may change a text that was paid for." default:"10m"`

	UploadSteps          []int64       `help:"Bytes that somebody uploads within a day up to which each of the first three upload fees is due." default:"250000000,500000000,1000000000"`
	UploadFees           []int64       `help:"Four fees of an upload, in msat; the last is due beyond the last step." default:"0,10000,100000,1000000"`
	AnonymousUploadFee   int64         `help:"Fee of an upload without signing in, in msat." default:"100000"`
	MaxUpload            int64         `help:"Largest upload, in bytes." default:"10000000"`
	MaxUnpaidUploads     int64         `help:"Uploads of one user, or of one address without signing in, that are not paid, at most." default:"50"`
	MaxUnpaidUploadBytes int64         `help:"And what they come to, in bytes." default:"100000000"`
	KeepUploads          time.Duration `help:"How long an upload is kept that is in no item." default:"24h"`

	TerritoryMonthly int64         `help:"Price of a territory for a month, in msat." default:"50000000"`
	TerritoryYearly  int64         `help:"Price of a territory for a year, in msat." default:"500000000"`
	TerritoryOnce    int64         `help:"Price of a territory for ever, in msat." default:"3000000000"`
	TerritoryGrace   time.Duration `help:"From when a territory is found unpaid until it is stopped." default:"120h"`
	TerritoryMaxCost int64         `help:"Most that a post or a comment in a territory may cost before any escalation, in msat." default:"100000000"`

	NewcomerWindow time.Duration `help:"How long after signing up an invite can be redeemed." default:"24h"`
	RewardTop      int           `help:"How many contributors of a day share its rewards." default:"100"`
	RewardDays     int           `help:"How many days back rewards are still paid, after a standstill." default:"7"`
}

// Community are the prices as the community takes them.
func (p Prices) Community() community.Settings {
	s := community.Settings{
		PostCost: paidaction.Msat(p.PostCost), CommentCost: paidaction.Msat(p.CommentCost), BioCost: paidaction.Msat(p.BioCost),
		AnonymousFactor: p.AnonymousFactor, SpamWindow: p.SpamWindow, DuplicateWindow: p.DuplicateWindow,
		SybilPct: p.SybilPct, RewardsPct: p.RewardsPct,
		MaxZap: paidaction.Msat(p.MaxZap), MaxVote: paidaction.Msat(p.MaxVote), MaxBounty: paidaction.Msat(p.MaxBounty),
		ReceivedPct: p.ReceivedPct, ReceiveFeePct: p.ReceiveFeePct, BoostLasts: p.BoostLasts,
		EditWindow: p.EditWindow, AnonymousUploadFee: paidaction.Msat(p.AnonymousUploadFee), MaxUpload: p.MaxUpload,
		MaxUnpaidUploads: p.MaxUnpaidUploads, MaxUnpaidUploadBytes: p.MaxUnpaidUploadBytes, KeepUploads: p.KeepUploads,
		TerritoryMonthly: paidaction.Msat(p.TerritoryMonthly), TerritoryYearly: paidaction.Msat(p.TerritoryYearly),
		TerritoryOnce: paidaction.Msat(p.TerritoryOnce), TerritoryGrace: p.TerritoryGrace, TerritoryMaxCost: paidaction.Msat(p.TerritoryMaxCost),
		NewcomerWindow: p.NewcomerWindow, RewardTop: p.RewardTop, RewardDays: p.RewardDays,
	}
	// Another number of them leaves zeroes, which the community's own check refuses.
	if len(p.UploadSteps) == len(s.UploadSteps) && len(p.UploadFees) == len(s.UploadFees) {
		copy(s.UploadSteps[:], p.UploadSteps)
		for i, fee := range p.UploadFees {
			s.UploadFees[i] = paidaction.Msat(fee)
		}
	}
	return s
}
