package paidaction_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// While nothing new may be begun, as after a restore of the database, nobody pays for anything, by whatever method, alone
// or with others. What was begun before goes on.
func TestNothingNewIsBegun(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100*sat, 100*sat)
	post := w.Post(w.User("author", 1000*sat, 0), "a post")
	before := donate(w, user, paidaction.Pessimistic)
	w.Engine.MayBegin = func() error { return paidaction.Errorf(paidaction.CodeTryAgain, "Not now.") }
	actions := w.Count(`SELECT count(*) FROM paid_action`)
	for name, try := range map[string]func() (*paidaction.PaidAction, error){
		"a zap from credits": func() (*paidaction.PaidAction, error) {
			return w.Try(user, community.KindZap, community.ZapArgs{Item: post, Sats: 10}, paidaction.FeeCredit, "a key")
		},
		"an invoice": func() (*paidaction.PaidAction, error) {
			return w.Try(user, community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.Pessimistic, "")
		},
		"sats": func() (*paidaction.PaidAction, error) {
			return w.Try(user, community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.RewardSats, "")
		},
		"somebody who is not known": func() (*paidaction.PaidAction, error) {
			return w.Try(0, community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.Pessimistic, "")
		},
	} {
		_, err := try()
		t.Log(name)
		w.WantRefusal(err, paidaction.CodeTryAgain)
	}
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != actions {
		t.Errorf("%d actions were begun", n-actions)
	}
	w.WantBalance(ledger.UserCredits(user), 100*sat)
	pay(w, before, simnode.Payment{})
	for w.Advance(before.ID) == paidaction.Moved {
	}
	w.WantState(before.ID, paidaction.Paid)
	w.WantConserved()
}
