package config

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Prices are the amounts and percentages of the community's formulas; their defaults are those of
// community.DefaultSettings.
type Prices struct {
	PostCost        int64         `help:"Price of a post outside any territory, in msat." default:"1000"`
	CommentCost     int64         `help:"Price of a comment outside any territory, in msat." default:"1000"`
	BioCost         int64         `help:"Price of a bio, in msat." default:"1000"`
	AnonymousFactor int64         `help:"How many times as much posting costs without signing in." default:"10"`
	SpamWindow      time.Duration `help:"Each own post within this time makes the next one ten times as expensive." default:"10m"`
	DuplicateWindow time.Duration `help:"The same text is refused if it is posted again within this time." default:"10m"`
	SybilPct        int           `help:"Percent of a zap that does not go to the author." default:"30"`
	RewardsPct      int           `help:"Percent of a fee that goes to the rewards pool; the rest goes to the territory's founder." default:"30"`
	MaxZap          int64         `help:"Largest zap, in msat." default:"1000000000"`
	MaxVote         int64         `help:"Highest price that a poll can set for a vote, in msat." default:"1000000000"`
	MaxBounty       int64         `help:"Largest bounty, in msat." default:"10000000000"`
	ReceivedPct     int           `help:"Percent of what is sent to a user that the user receives." default:"90"`
	ReceiveFeePct   int           `help:"Percent of it that goes to the rewards pool, less where routing would have less than a sat; what is left is for routing." default:"7"`
	BoostLasts      time.Duration `help:"How long a boost raises a post's rank." default:"720h"`
	EditWindow      time.Duration `help:"How long an author may change the text and the forwards of an item that was paid for." default:"10m"`

	UploadSteps          []int64       `help:"Three steps, in bytes that somebody uploads within a day: up to each of them one of the first three upload fees is due." default:"250000000,500000000,1000000000"`
	UploadFees           []int64       `help:"Four fees for an upload, in msat; the last is due beyond the last step." default:"0,10000,100000,1000000"`
	AnonymousUploadFee   int64         `help:"Fee for an upload without signing in, in msat." default:"100000"`
	MaxUpload            int64         `help:"Largest upload, in bytes." default:"10000000"`
	MaxUnpaidUploads     int64         `help:"Most unpaid uploads of one user, or of one address without signing in." default:"50"`
	MaxUnpaidUploadBytes int64         `help:"Most bytes of these unpaid uploads in total." default:"100000000"`
	MaxUnpaidInAll       int64         `help:"Most bytes of the unpaid uploads of all users together, and as many of all who are not signed in." default:"10000000000"`
	KeepUploads          time.Duration `help:"How long an upload that is in no item is kept." default:"24h"`

	TerritoryMonthly int64         `help:"Price of a territory for a month, in msat." default:"50000000"`
	TerritoryYearly  int64         `help:"Price of a territory for a year, in msat." default:"500000000"`
	TerritoryOnce    int64         `help:"Price of a territory for ever, in msat." default:"3000000000"`
	TerritoryGrace   time.Duration `help:"Time from when a territory is found unpaid until it is stopped." default:"120h"`
	TerritoryMaxCost int64         `help:"Most that a post or a comment in a territory may cost, before any surcharge, in msat." default:"100000000"`

	NewcomerWindow time.Duration `help:"How long after signing up an invite can be redeemed." default:"24h"`
	RewardTop      int           `help:"How many of a day's contributors share its rewards, in each asset." default:"100"`
	RewardDays     int           `help:"How many days back rewards are still paid after an outage." default:"7"`
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
		MaxUnpaidUploads: p.MaxUnpaidUploads, MaxUnpaidUploadBytes: p.MaxUnpaidUploadBytes, MaxUnpaidInAll: p.MaxUnpaidInAll, KeepUploads: p.KeepUploads,
		TerritoryMonthly: paidaction.Msat(p.TerritoryMonthly), TerritoryYearly: paidaction.Msat(p.TerritoryYearly),
		TerritoryOnce: paidaction.Msat(p.TerritoryOnce), TerritoryGrace: p.TerritoryGrace, TerritoryMaxCost: paidaction.Msat(p.TerritoryMaxCost),
		NewcomerWindow: p.NewcomerWindow, RewardTop: p.RewardTop, RewardDays: p.RewardDays,
	}
	// A different number of steps and fees leaves zeroes, which the community's own check refuses.
	if len(p.UploadSteps) == len(s.UploadSteps) && len(p.UploadFees) == len(s.UploadFees) {
		copy(s.UploadSteps[:], p.UploadSteps)
		for i, fee := range p.UploadFees {
			s.UploadFees[i] = paidaction.Msat(fee)
		}
	}
	return s
}
