package main

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What an operator sets is what is kept: the engine gets each bound, and not its own default, which is the same for
// most. The relay wraps only what stays held long enough for both distances, and the wallets leave out one that is full.
func TestSettingsReachThoseWhoKeepThem(t *testing.T) {
	t.Parallel()
	s := assemble(t, "HOLDFAST_INVOICE_EXPIRY=11m", "HOLDFAST_CLTV_DELTA=200", "HOLDFAST_HOLD_EXPIRY_DELTA=19", "HOLDFAST_SAFETY_BLOCKS=13",
		"HOLDFAST_MAX_PENDING=101", "HOLDFAST_RELAY_MAX_PENDING=26", "HOLDFAST_RELAY_MAX_FORWARDS=6", "HOLDFAST_RELAY_MAX_FORWARDED=7000", "HOLDFAST_RELAY_MAX_WITHDRAWALS=8")
	got := s.engine.Settings
	want := paidaction.Settings{InvoiceExpiry: 11 * time.Minute, CLTVDelta: 200, HoldExpiryDelta: 19, SafetyBlocks: 13, MaxPending: 101,
		MaxWalletPending: 26, MaxForwards: 6, MaxForwarded: 7000, MaxWithdrawals: 8,
		IssueTimeout: got.IssueTimeout, SweepWorkers: got.SweepWorkers, MaxGroup: got.MaxGroup}
	if got != want {
		t.Errorf("the engine keeps %+v, want %+v", got, want)
	}
	if s.engine.ConfirmClock == nil {
		t.Error("the engine does not confirm its clock")
	}
	if at := s.relay.Rules.MinOuterCLTV; at != 19+13+24 {
		t.Errorf("the relay wraps from %d blocks", at)
	}
	if n := s.wallets.Limits.Pending; n != 26 {
		t.Errorf("a wallet is full with %d invoices", n)
	}
}
