package simulate

import (
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Accounts of the system (ledger/account.go) and of users.
const (
	lightningAccount, issuedAccount, backingAccount      = 0, 1, 2
	rewardCreditsAccount, rewardSatsAccount, lossAccount = 3, 4, 8
)

// book moves what a paid action must have moved.
func (m *model) book(a *attempt, received, sent, fee int64, inside *attempt, loss bool) {
	move := func(account, msat int64) {
		m.balances[account] += msat
		if account == rewardCreditsAccount || account == rewardSatsAccount {
			m.pooled[pooling{a.id, account}] += msat
		}
	}
	user := func(id int64, kind asset) int64 {
		if kind == credits {
			return id*16 + 1
		}
		return id * 16
	}
	if a.kind.leaves != nil {
		a.kind.leaves(m, a)
	}
	if a.leaving != nil {
		if a.leaving.inside == nil {
			move(user(*a.payer, sats), -sent-fee)
			move(lightningAccount, sent+fee)
			return
		}
		move(user(*a.payer, sats), -a.cost)
		return
	}
	if a.cost == 0 {
		return
	}
	inCredits := a.method == "FEE_CREDIT"
	switch {
	case inCredits:
		move(user(*a.payer, credits), -a.cost)
	case a.method == "REWARD_SATS":
		move(user(*a.payer, sats), -a.cost)
	case inside != nil: // paid from the withdrawal's balance
	case loss:
		move(lossAccount, -a.cost)
	default:
		move(lightningAccount, -received)
	}
	toCredits := func(id, msat int64) {
		move(user(id, credits), msat)
		if !inCredits {
			move(backingAccount, msat)
			move(issuedAccount, -msat)
		}
	}
	rest := a.cost
	if a.direct != nil {
		move(lightningAccount, sent+fee)
		rest -= sent + fee
	}
	for _, s := range a.kind.shares(m, a) {
		if a.direct != nil && s.user == a.direct.receiver && s.asset != same {
			continue
		}
		rest -= s.msat
		switch {
		case s.asset == credits:
			toCredits(s.user, s.msat)
		case s.asset == same && inCredits:
			move(user(s.user, credits), s.msat)
		default:
			move(user(s.user, sats), s.msat)
		}
	}
	if inCredits {
		move(rewardCreditsAccount, rest)
		return
	}
	move(rewardSatsAccount, rest)
	if excess := received - a.cost; excess > 0 && a.flow != "BALANCE" && inside == nil && !loss {
		if a.payer != nil {
			toCredits(*a.payer, excess)
		} else {
			move(rewardSatsAccount, excess)
		}
	}
}

// checkNodes: every payment that a node has received or sent belongs to an action.
func (m *model) checkNodes() {
	for _, n := range m.world.nodes {
		for _, sent := range n.Payments() {
			if sent.Present.Preimage == nil {
				continue
			}
			h := sent.Present.Hash
			if !slices.ContainsFunc(m.attempts, func(a *attempt) bool {
				return a.hash == h && a.state == "PAID" && (a.flow == "WRAPPED" || a.flow == "OUTGOING")
			}) {
				m.world.violate("model", "%s has paid %d msat that no action paid for", n.Name(), sent.Present.Amount)
			}
		}
		for _, inv := range n.Invoices() {
			if inv.State == paidaction.InvoiceSettled && inv.Created != epoch && !slices.ContainsFunc(m.attempts, func(a *attempt) bool { return a.hash == inv.Request.Hash && a.state == "PAID" }) {
				m.world.violate("model", "%s has taken %d msat, and nothing counts for it", n.Name(), inv.NodeInvoice().Received)
			}
		}
	}
}
