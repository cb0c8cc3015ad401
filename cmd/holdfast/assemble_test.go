package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth/keyauthtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What an operator sets is what is kept: the engine gets each bound, and not its own default, which is the same for
// most. The relay wraps only what stays held long enough for both distances, and knows what a node must be able to send
// for the pool to lease it. The wallets leave out one that is full.
func TestSettingsReachThoseWhoKeepThem(t *testing.T) {
	t.Parallel()
	s := assemble(t, "HOLDFAST_INVOICE_EXPIRY=11m", "HOLDFAST_CLTV_DELTA=200", "HOLDFAST_HOLD_EXPIRY_DELTA=19", "HOLDFAST_SAFETY_BLOCKS=13",
		"HOLDFAST_MAX_PENDING=101", "HOLDFAST_RELAY_MAX_PENDING=26", "HOLDFAST_RELAY_MAX_FORWARDS=6", "HOLDFAST_RELAY_MAX_FORWARDED=7000", "HOLDFAST_RELAY_MAX_WITHDRAWALS=8",
		"HOLDFAST_NODE_MIN_OUTBOUND=9000")
	got := s.engine.Settings
	want := paidaction.Settings{InvoiceExpiry: 11 * time.Minute, CLTVDelta: 200, HoldExpiryDelta: 19, SafetyBlocks: 13, MaxPending: 101,
		MaxWalletPending: 26, MaxForwards: 6, MaxForwarded: 7000, MaxWithdrawals: 8,
		IssueTimeout: got.IssueTimeout, SearchTimeout: got.SearchTimeout, SweepWorkers: got.SweepWorkers, MaxGroup: got.MaxGroup}
	if got != want {
		t.Errorf("the engine keeps %+v, want %+v", got, want)
	}
	if s.engine.ConfirmClock == nil {
		t.Error("the engine does not confirm its clock")
	}
	asked, end := context.WithCancel(t.Context())
	end()
	if s.webhooks.ConfirmClock(asked) == nil {
		t.Error("the webhooks do not confirm their clock")
	}
	if at := s.relay.Rules.MinOuterCLTV; at != 19+13+24 {
		t.Errorf("the relay wraps from %d blocks", at)
	}
	if least := s.relay.Settings.MinOutbound; least != 9000 {
		t.Errorf("the relay has nodes used that can send %d msat", least)
	}
	if n := s.wallets.Limits.Pending; n != 26 {
		t.Errorf("a wallet is full with %d invoices", n)
	}
}

// An operator decides whether a wallet that nobody knows makes a new user, and for how long somebody stays signed in.
func TestWhoMaySignInAndForHowLongIsTheOperators(t *testing.T) {
	t.Parallel()
	for _, may := range []bool{true, false} {
		pool := pgtest.New(t)
		s := serve(t, settings(pool, "HOLDFAST_PUBLIC_URL=https://example.org", fmt.Sprint("HOLDFAST_WALLET_SIGN_UP=", may), "HOLDFAST_SIGNED_IN_FOR=2h"))
		var answer struct {
			Data struct {
				It *struct {
					LNURL, Secret string
					ExpiresAt     time.Time
				}
			}
		}
		ask := func(operation string) {
			t.Helper()
			answer.Data.It = nil
			if err := json.Unmarshal([]byte(s.graphql(http.Header{}, "mutation { it: "+operation+" }", nil)), &answer); err != nil {
				t.Fatal(err)
			}
		}
		ask(`signIn { lnurl secret }`)
		signed, err := keyauthtest.Wallet("a stranger").Answer(answer.Data.It.LNURL)
		if err != nil {
			t.Fatal(err)
		}
		if status, body := s.get(signed.RequestURI()); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		ask(`signedIn(secret: "` + answer.Data.It.Secret + `") { expiresAt }`)
		in := answer.Data.It
		if (in != nil) != may || may && (time.Until(in.ExpiresAt) > 2*time.Hour || time.Until(in.ExpiresAt) < time.Hour) {
			t.Errorf("sign-up %t: signed in %+v", may, in)
		}
		var users int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM usr`).Scan(&users); err != nil || (users == 1) != may {
			t.Errorf("sign-up %t: %d users, %v", may, users, err)
		}
		s.stop()
	}
}
