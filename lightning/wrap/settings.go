package wrap

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const sat paidaction.Msat = 1000

// MaxOuterCLTV is the limit on the number of blocks for which a payer's money may be locked.
const MaxOuterCLTV = 1_000

// The figures of the rules.
const (
	minAmount = 700           // of the inner, in msat
	maxAmount = 700_000 * sat // of the inner

	budgetPct = 3   // of the outer, for routing
	minBudget = sat // never more than the outer minus the inner

	minExpiryLeft = 240 * time.Second   // of the inner when it is wrapped
	maxExpiryLeft = 90 * 24 * time.Hour // of an invoice that is paid without an outer
	maxOuterLife  = 600 * time.Second   // before expiryMargin is subtracted
	expiryMargin  = 120 * time.Second   // by which the inner outlives the outer
	minOuterLife  = paidaction.MinOuterLife

	minCLTVMargin = 80
	paddingCLTV   = 3 // what LND adds to the inner's final CLTV

	attemptTimeout = 30 * time.Second // whole seconds after which no new attempt to pay the inner is made
)

// Fits reports whether an invoice for a receiver's share can keep to the rules of its amount (spec 03 §3.2). It may be
// short of the share by less than a sat, since a wallet may truncate.
func Fits(share paidaction.Msat) bool { return share >= minAmount && share-sat < maxAmount }

// Settings are what the rules have to know of the engine.
type Settings struct {
	// MinOuterCLTV is what the engine needs: its HoldExpiryDelta + SafetyBlocks + SettleBlocks.
	MinOuterCLTV uint32
}

// cltvMargin is by how many blocks the outer's HTLCs outlive the inner's. The node gives the outer back some blocks
// before it expires. With a margin below MinOuterCLTV, the inner could still be paid then.
func (s Settings) cltvMargin() uint32 { return max(minCLTVMargin, s.MinOuterCLTV) }
