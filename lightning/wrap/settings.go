package wrap

import (
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const sat paidaction.Msat = 1000

// MaxOuterCLTV is the default limit on the number of blocks for which a payer's money may be locked (see [Settings]).
const MaxOuterCLTV = 1_000

// Settings are the figures of the rules. The zero value of a field stands for its default.
type Settings struct {
	MinAmount paidaction.Msat // of the inner; default 700 msat
	MaxAmount paidaction.Msat // of the inner; default 700,000 sat

	BudgetPct int64           // of the outer, for routing; default 3
	MinBudget paidaction.Msat // default 1 sat; never more than the outer minus the inner

	MinExpiryLeft time.Duration // of the inner when it is wrapped; default 240 s
	MaxOuterLife  time.Duration // before ExpiryMargin is subtracted; default 600 s
	ExpiryMargin  time.Duration // by which the inner outlives the outer; default 120 s
	MinOuterLife  time.Duration // default 60 s

	CLTVMargin   uint32 // blocks by which the outer's HTLCs outlive the inner's; default 80, at least MinOuterCLTV
	MinOuterCLTV uint32 // what the engine needs: its HoldExpiryDelta + SafetyBlocks + 24; default 54
	MaxOuterCLTV uint32 // default [MaxOuterCLTV]
	PaddingCLTV  uint32 // what LND adds to the inner's final CLTV; default 3

	AttemptTimeout time.Duration // whole seconds after which no new attempt to pay the inner is made; default 30 s
	MaxParts       uint32        // of the payment of the inner; 0: the node's default
}

func (s Settings) withDefaults() Settings {
	setDefault(&s.MinAmount, 700)
	setDefault(&s.MaxAmount, 700_000*sat)
	setDefault(&s.BudgetPct, 3)
	setDefault(&s.MinBudget, sat)
	setDefault(&s.MinExpiryLeft, 240*time.Second)
	setDefault(&s.MaxOuterLife, 600*time.Second)
	setDefault(&s.ExpiryMargin, 120*time.Second)
	setDefault(&s.MinOuterLife, 60*time.Second)
	setDefault(&s.MinOuterCLTV, 18+12+24)
	// The node gives the outer back some blocks before it expires. With a smaller margin, the inner could still be paid
	// then.
	setDefault(&s.CLTVMargin, max(80, s.MinOuterCLTV))
	setDefault(&s.MaxOuterCLTV, MaxOuterCLTV)
	setDefault(&s.PaddingCLTV, 3)
	setDefault(&s.AttemptTimeout, 30*time.Second)
	return s
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
