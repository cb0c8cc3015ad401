package community_test

import (
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func receiveScene(w *enginetest.World, _ int64, m paidaction.Method) *scene {
	receiver := w.User("receiver", 0, 0)
	s := &scene{
		args: community.ReceiveArgs{User: receiver, Msat: 100 * sat, Comment: "for lunch"}, cost: 100 * sat,
		paid: map[ledger.Account]int64{ledger.UserSats(receiver): 90 * sat, ledger.RewardSats: 10 * sat}, told: []int64{receiver}, receiver: receiver,
	}
	if m == paidaction.P2P {
		s.wallet = w.Wallets.Add(receiver)
		// Of what is for routing 1 sat was spent.
		s.paid = map[ledger.Account]int64{ledger.Lightning: 91 * sat, ledger.RewardSats: 9 * sat}
	}
	return s
}

func withdrawScene(w *enginetest.World, payer int64, _ paidaction.Method) *scene {
	payee := w.User("payee", 0, 0)
	w.Node.SetRoute(simnode.Route{Fee: 1_234, Blocks: 40})
	return &scene{
		args: community.WithdrawArgs{To: fmt.Sprintf("%d@holdfast.example", payee), Sats: new(int64(50)), MaxFeeSats: 5}, cost: 55 * sat,
		wallet: w.Wallets.Add(payee), told: []int64{payer},
		paid: map[ledger.Account]int64{ledger.Lightning: 50*sat + 1_234, ledger.UserSats(payer): 5*sat - 1_234},
	}
}
