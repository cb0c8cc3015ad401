package community_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Nothing starts with settings by which more would be handed out than was paid, or something be had for nothing.
func TestImpossibleSettings(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*community.Settings){
		"a share below nothing":                func(s *community.Settings) { s.SybilPct = -1 },
		"a fee of more than all":               func(s *community.Settings) { s.SybilPct = 101 },
		"rewards below nothing":                func(s *community.Settings) { s.RewardsPct = -1 },
		"rewards of more than all":             func(s *community.Settings) { s.RewardsPct = 101 },
		"nothing for who receives":             func(s *community.Settings) { s.ReceivedPct = 0 },
		"a fee below nothing":                  func(s *community.Settings) { s.ReceiveFeePct = -1 },
		"a share and a fee of more than all":   func(s *community.Settings) { s.ReceivedPct, s.ReceiveFeePct = 60, 41 },
		"a comment for nothing":                func(s *community.Settings) { s.CommentCost = 0 },
		"a post for nothing":                   func(s *community.Settings) { s.PostCost = 0 },
		"a bio for nothing":                    func(s *community.Settings) { s.BioCost = 0 },
		"a comment for more than there is":     func(s *community.Settings) { s.CommentCost = paidaction.MaxMsat + 1 },
		"a post for more than there is":        func(s *community.Settings) { s.PostCost = paidaction.MaxMsat + 1 },
		"a bio for more than there is":         func(s *community.Settings) { s.BioCost = paidaction.MaxMsat + 1 },
		"less from the anonymous than nothing": func(s *community.Settings) { s.AnonymousFactor = 0 },
		"no zap":                               func(s *community.Settings) { s.MaxZap = 999 },
		"no vote":                              func(s *community.Settings) { s.MaxVote = 999 },
		"no bounty":                            func(s *community.Settings) { s.MaxBounty = 999 },
		"a zap of more than there is":          func(s *community.Settings) { s.MaxZap = paidaction.MaxMsat + 1 },
		"a vote of more than there is":         func(s *community.Settings) { s.MaxVote = paidaction.MaxMsat + 1 },
		"a bounty of more than there is":       func(s *community.Settings) { s.MaxBounty = paidaction.MaxMsat + 1 },
		"a territory for nothing":              func(s *community.Settings) { s.TerritoryMonthly = 0 },
		"a territory for a year for nothing":   func(s *community.Settings) { s.TerritoryYearly = 0 },
		"a year for more than there is":        func(s *community.Settings) { s.TerritoryYearly = paidaction.MaxMsat + 1 },
		"a territory for more than there is":   func(s *community.Settings) { s.TerritoryOnce = paidaction.MaxMsat + 1 },
		"no cost in a territory":               func(s *community.Settings) { s.TerritoryMaxCost = 999 },
		"a cost of more than there is":         func(s *community.Settings) { s.TerritoryMaxCost = paidaction.MaxMsat + 1 },
		"a window that ends before it begins":  func(s *community.Settings) { s.SpamWindow = -1 },
		"duplicates before they are any":       func(s *community.Settings) { s.DuplicateWindow = -1 },
		"newcomers before they have come":      func(s *community.Settings) { s.NewcomerWindow = -1 },
		"a grace that ends before it begins":   func(s *community.Settings) { s.TerritoryGrace = -1 },
		"a boost that lasts no time":           func(s *community.Settings) { s.BoostLasts = 0 },
		"rewards for nobody":                   func(s *community.Settings) { s.RewardTop = 0 },
		"rewards for nearly everybody":         func(s *community.Settings) { s.RewardTop = 1001 },
		"rewards of no day":                    func(s *community.Settings) { s.RewardDays = 0 },
		"rewards of long ago":                  func(s *community.Settings) { s.RewardDays = 32 },
	} {
		s := community.DefaultSettings()
		if spoil(&s); s.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// What hinders nobody any more is forgotten, and what may still be in somebody's way is not, by whatever clock.
func TestAFingerprintIsNotForgottenTooSoon(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item, now := w.Post(w.User("author", 100*sat, 0), "a post"), w.Clock.Now()
	mustExec(w, `DELETE FROM item_fingerprint`)
	for _, until := range []time.Time{now.Add(time.Hour), now.Add(-59 * time.Minute), now.Add(-61 * time.Minute)} {
		if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO item_fingerprint (fingerprint, item_id, until) VALUES (sha256($1::text::bytea), $2, $3)`, until.String(), item, until); err != nil {
			t.Fatal(err)
		}
	}
	if more, err := community.SweepFingerprints(w.Ctx, db.New(w.Pool), now); more || err != nil {
		t.Errorf("more is left: %t, error %v", more, err)
	}
	if n := w.Count(`SELECT count(*) FROM item_fingerprint WHERE until > $1`, now.Add(-time.Hour)); n != 2 || w.Count(`SELECT count(*) FROM item_fingerprint`) != n {
		t.Errorf("%d of the two that count are left", n)
	}
}
