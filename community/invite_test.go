package community_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// invite makes an invite and returns its code.
func invite(w *enginetest.World, inviter, credits, limit int64) string {
	w.Helper()
	made, err := tryInvite(w, inviter, credits, limit)
	if err != nil {
		w.Fatal(err)
	}
	return made.Code
}

func tryInvite(w *enginetest.World, inviter, credits, limit int64) (made db.Invite, err error) {
	err = pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
		made, err = community.CreateInvite(w.Ctx, db.New(tx), inviter, credits, limit, w.Clock.Now(), w.Engine.Random)
		return err
	})
	return made, err
}

// redeem asks for the gift as the door does: on behalf of the newcomer, at the inviter's cost.
func redeem(w *enginetest.World, inviter, newcomer int64, code string) (*paidaction.PaidAction, error) {
	return w.Try(inviter, community.KindInviteGift, community.InviteGiftArgs{Code: code, User: newcomer}, "", "")
}

// traces are all rows and balances that an invite can change.
func inviteTraces(w *enginetest.World) (n int64) {
	return w.Count(`SELECT (SELECT count(*) FROM paid_action) + (SELECT count(*) FROM invite_redemption) + (SELECT count(*) FROM posting) +
		(SELECT coalesce(sum(used), 0) FROM invite) + (SELECT count(*) FROM test_job)`)
}

func TestInviteGift(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inviter := w.User("inviter", 100*sat, 0)
	newcomer := w.User("newcomer", 0, 0)
	code := invite(w, inviter, 30, 2)
	w.Clock.Advance(24 * time.Hour) // at the last moment
	pa, err := redeem(w, inviter, newcomer, code)
	if err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Paid)
	if pa.Cost != 30*sat || pa.Method != paidaction.FeeCredit {
		t.Errorf("it cost %d msat by %s", pa.Cost, pa.Method)
	}
	w.WantBalance(ledger.UserCredits(inviter), 70*sat)
	w.WantBalance(ledger.UserCredits(newcomer), 30*sat)
	w.Drain()
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'INVITE_REDEEMED' AND user_id = $1`, inviter); n != 1 {
		t.Errorf("the inviter is told %d times", n)
	}
	w.WantConserved()
}

func TestInvitesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inviter := w.User("inviter", 100*sat, 500*sat)
	old := w.User("old", 0, 0)
	w.Clock.Advance(24*time.Hour + time.Second)
	other, newcomer, lucky := w.User("other", 100*sat, 0), w.User("newcomer", 0, 0), w.User("lucky", 0, 0)
	code, second := invite(w, inviter, 30, 1), invite(w, inviter, 30, 1)
	dear, revoked := invite(w, inviter, 71, 1), invite(w, inviter, 1, 1)
	if _, err := community.RevokeInvite(w.Ctx, db.New(w.Pool), inviter, revoked, w.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := redeem(w, inviter, lucky, code); err != nil {
		t.Fatal(err)
	}
	before := inviteTraces(w)
	for name, c := range map[string]struct {
		payer, user int64
		code        string
		want        paidaction.Code
	}{
		"unknown":                   {inviter, newcomer, strings.Repeat("0", 32), paidaction.CodeNotFound},
		"no code":                   {inviter, newcomer, "", paidaction.CodeNotFound},
		"what cannot be stored":     {inviter, newcomer, "a\x00b", paidaction.CodeNotFound},
		"somebody else's":           {other, newcomer, second, paidaction.CodeForbidden},
		"one's own":                 {inviter, inviter, second, paidaction.CodeForbidden},
		"no newcomer":               {inviter, old, second, paidaction.CodeForbidden},
		"nobody":                    {inviter, 9999, second, paidaction.CodeForbidden},
		"used up":                   {inviter, newcomer, code, paidaction.CodeForbidden},
		"taken back":                {inviter, newcomer, revoked, paidaction.CodeForbidden},
		"a second one":              {inviter, lucky, second, paidaction.CodeDuplicate},
		"the same again":            {inviter, lucky, code, paidaction.CodeDuplicate},
		"more than the inviter has": {inviter, newcomer, dear, paidaction.CodeInsufficientFunds},
		"without signing in":        {0, newcomer, second, paidaction.CodeUnauthenticated},
	} {
		_, err := redeem(w, c.payer, c.user, c.code)
		if w.WantRefusal(err, c.want); err == nil {
			t.Error(name)
		}
	}
	// Sats are not asked for in place of credits.
	_, err := w.Try(inviter, community.KindInviteGift, community.InviteGiftArgs{Code: dear, User: newcomer}, paidaction.RewardSats, "")
	w.WantRefusal(err, paidaction.CodeMethodUnavailable)
	if now := inviteTraces(w); now != before {
		t.Errorf("%d traces of what was refused", now-before)
	}
	w.WantBalance(ledger.UserCredits(newcomer), 0)
	w.WantBalance(ledger.UserCredits(inviter), 70*sat)
}

func TestInvitesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inviter, other := w.User("inviter", 0, 0), w.User("other", 0, 0)
	for _, c := range []struct {
		credits, limit int64
		want           paidaction.Code
	}{
		{0, 1, paidaction.CodeInvalidAmount}, {-1, 1, paidaction.CodeInvalidAmount}, {1 << 62, 1, paidaction.CodeInvalidAmount},
		{1, 0, paidaction.CodeInvalidInput}, {1, -1, paidaction.CodeInvalidInput}, {1, 1001, paidaction.CodeInvalidInput},
	} {
		_, err := tryInvite(w, inviter, c.credits, c.limit)
		w.WantRefusal(err, c.want)
	}
	first := invite(w, inviter, 1, 1)
	for range 99 {
		invite(w, inviter, 1, 1)
	}
	_, err := tryInvite(w, inviter, 1, 1)
	w.WantRefusal(err, paidaction.CodeInvalidInput)
	_, err = community.RevokeInvite(w.Ctx, db.New(w.Pool), other, first, w.Clock.Now())
	w.WantRefusal(err, paidaction.CodeNotFound)
	for range 2 { // again, it is as it was
		revoked, err := community.RevokeInvite(w.Ctx, db.New(w.Pool), inviter, first, w.Clock.Now())
		if err != nil || !revoked.RevokedAt.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("revoked at %v, error %v", revoked.RevokedAt, err)
		}
		w.Clock.Advance(time.Minute)
	}
	invite(w, inviter, 1, 1)
}

// Of more newcomers at once than the limit says, exactly as many get the gift.
func TestConcurrentRedemptionsKeepTheLimit(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inviter := w.User("inviter", 1000*sat, 0)
	const limit, come = 3, 10
	code := invite(w, inviter, 10, limit)
	newcomers := make([]int64, come)
	for i := range newcomers {
		newcomers[i] = w.User("newcomer"+strings.Repeat("x", i), 0, 0)
	}
	var all sync.WaitGroup
	refusals := make(chan error, come)
	for _, n := range newcomers {
		all.Go(func() {
			if _, err := redeem(w, inviter, n, code); err != nil {
				refusals <- err
			}
		})
	}
	all.Wait()
	close(refusals)
	if len(refusals) != come-limit {
		t.Errorf("%d of %d are refused, want %d", len(refusals), come, come-limit)
	}
	for err := range refusals {
		w.WantRefusal(err, paidaction.CodeForbidden)
	}
	got := int64(0)
	for _, n := range newcomers {
		got += w.Balance(ledger.UserCredits(n))
	}
	if got != limit*10*sat {
		t.Errorf("%d msat were given", got)
	}
	w.WantBalance(ledger.UserCredits(inviter), (1000-limit*10)*sat)
	if used := w.Count(`SELECT used FROM invite`); used != limit {
		t.Errorf("used %d times", used)
	}
	if w.Faults.Conflicts != 0 {
		t.Errorf("%d conflicts", w.Faults.Conflicts)
	}
	w.WantConserved()
}

// One newcomer with many invites at once gets one gift.
func TestOneNewcomerRedeemsOneInvite(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inviter, newcomer := w.User("inviter", 1000*sat, 0), w.User("newcomer", 0, 0)
	var all sync.WaitGroup
	for range 6 {
		code := invite(w, inviter, 10, 5)
		all.Go(func() {
			if _, err := redeem(w, inviter, newcomer, code); err != nil {
				w.WantRefusal(err, paidaction.CodeDuplicate)
			}
		})
	}
	all.Wait()
	w.WantBalance(ledger.UserCredits(newcomer), 10*sat)
	if used := w.Count(`SELECT sum(used) FROM invite`); used != 1 {
		t.Errorf("used %d times", used)
	}
	w.WantConserved()
}
