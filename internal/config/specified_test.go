package config

import (
	"slices"
	"testing"
	"time"
)

// The amounts, percentages and limits that the specification names are settings, and these are their defaults.
func TestDefaultsAreTheSpecified(t *testing.T) {
	t.Parallel()
	c, err := parse(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const sat, minute, day = 1000, time.Minute, 24 * time.Hour
	for name, d := range map[string]struct{ got, want any }{
		// 01 §1.5
		"hold-expiry-delta": {c.HoldExpiryDelta, uint32(18)},
		"safety-blocks":     {c.SafetyBlocks, uint32(12)},
		// 02 §2.1
		"max-pending":       {c.MaxPending, int64(100)},
		"relay-max-pending": {c.Relay.MaxPending, int64(25)},
		// 02 §2.4
		"bio-cost":             {c.Prices.BioCost, int64(1 * sat)},
		"comment-cost":         {c.Prices.CommentCost, int64(1 * sat)},
		"anonymous-factor":     {c.Prices.AnonymousFactor, int64(10)},
		"spam-window":          {c.Prices.SpamWindow, 10 * minute},
		"duplicate-window":     {c.Prices.DuplicateWindow, 10 * minute},
		"edit-window":          {c.Prices.EditWindow, 10 * minute},
		"anonymous-upload-fee": {c.Prices.AnonymousUploadFee, int64(100 * sat)},
		"sybil-pct":            {c.Prices.SybilPct, 30},
		"rewards-pct":          {c.Prices.RewardsPct, 30},
		"boost-lasts":          {c.Prices.BoostLasts, 30 * day},
		"territory-monthly":    {c.Prices.TerritoryMonthly, int64(50_000 * sat)},
		"territory-yearly":     {c.Prices.TerritoryYearly, int64(500_000 * sat)},
		"territory-once":       {c.Prices.TerritoryOnce, int64(3_000_000 * sat)},
		"territory-grace":      {c.Prices.TerritoryGrace, 5 * day},
		"received-pct":         {c.Prices.ReceivedPct, 90},
		"receive-fee-pct":      {c.Prices.ReceiveFeePct, 7},
		// 04 §4.1
		"lock-enabled":       {c.Lock.Enabled, true},
		"lock-strategy":      {c.Lock.Strategy, "postgres"},
		"lock-max-hold":      {c.Lock.MaxHold, 30 * time.Second},
		"lock-poll-interval": {c.Lock.PollInterval, 50 * time.Millisecond},
		// 04 §4.2
		"node-cooldown":         {c.Sending.Cooldown, 5 * time.Second},
		"node-failure-cooldown": {c.Sending.FailureCooldown, 20 * time.Second},
		"node-unknowns":         {c.Sending.Unknowns, 3},
	} {
		if d.got != d.want {
			t.Errorf("%s is %v, want %v", name, d.got, d.want)
		}
	}
	if steps := []int64{250_000_000, 500_000_000, 1_000_000_000}; !slices.Equal(c.Prices.UploadSteps, steps) {
		t.Errorf("upload-steps are %v", c.Prices.UploadSteps)
	}
	if fees := []int64{0, 10 * sat, 100 * sat, 1_000 * sat}; !slices.Equal(c.Prices.UploadFees, fees) {
		t.Errorf("upload-fees are %v", c.Prices.UploadFees)
	}
	// 04 §4.3: everything is the default.
	if roles := []string{"api", "worker", "listener"}; !slices.Equal(c.Roles, roles) {
		t.Errorf("roles are %v", c.Roles)
	}
}
