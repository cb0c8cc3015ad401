package community_test

import (
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func inviteGiftScene(w *enginetest.World, payer int64, _ paidaction.Method) *scene {
	newcomer := w.User("newcomer", 0, 0)
	return &scene{args: community.InviteGiftArgs{Code: invite(w, payer, 21, 1), User: newcomer}, cost: 21 * sat,
		paid: map[ledger.Account]int64{ledger.UserCredits(newcomer): 21 * sat}, told: []int64{payer}}
}
