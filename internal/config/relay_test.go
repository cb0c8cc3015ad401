package config

import (
	"testing"

	"github.com/alecthomas/kong"

	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Flags want their defaults as text, so these stand in two places: they are the same.
func TestDefaultsOfTheRelayAreItsOwn(t *testing.T) {
	t.Parallel()
	var c Config
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(nil); err != nil {
		t.Fatal(err)
	}
	want := relay.DefaultSettings()
	got := c.Relay.Settings()
	got.Grace, got.ExpirySlack, got.LookTimeout, got.NoteTimeout = want.Grace, want.ExpirySlack, want.LookTimeout, want.NoteTimeout
	got.Pause, got.Poll = want.Pause, want.Poll
	got.Lacking = c.Sending.FailureCooldown
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestImpossibleSettingsOfTheRelayAreRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []Relay{{}, {MaxAttempts: 1, SendWindow: 1e9, SendTimeout: 15e8, Audit: 1, WithdrawLimit: 1000, MaxForwards: 1, MaxForwarded: 1000, MaxWithdrawals: 1, MaxPending: 1}} {
		refused := false
		r.check(func(when bool, _ string, _ ...any) { refused = refused || when })
		if !refused {
			t.Errorf("%+v was accepted", r)
		}
	}
}
