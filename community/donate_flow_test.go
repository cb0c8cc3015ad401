package community_test

import (
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func donateScene(_ *enginetest.World, _ int64, m paidaction.Method) *scene {
	return &scene{args: community.DonateArgs{Sats: 21}, cost: 21 * sat,
		paid: map[ledger.Account]int64{ledger.Rewards(assetOf(m)): 21 * sat}}
}

func buyCreditsScene(_ *enginetest.World, payer int64, _ paidaction.Method) *scene {
	return &scene{args: community.BuyCreditsArgs{Credits: 21}, cost: 21 * sat,
		paid: map[ledger.Account]int64{ledger.UserCredits(payer): 21 * sat}}
}
