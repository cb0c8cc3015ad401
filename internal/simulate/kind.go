package simulate

import (
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// kind is what the simulation has to know of one kind of action: how people ask for it, and, written down a second time and without a
// look at the code under test, what it costs, whose the money is, and what it leaves behind.
type kind struct {
	name      string
	weight    int // how often it is drawn
	anonymous bool
	first     bool                // mostly the first person's, who has founded and invites
	files     bool                // may carry files, which are uploaded before
	methods   []paidaction.Method // that may be forced
	args      func(w *world, r *request) any
	// price says between what bounds the price must lie, in msat.
	price func(m *model, a *attempt) (least, most int64)
	// shares are the parts of the price that are somebody's; the rest is the rewards'.
	shares func(m *model, a *attempt) []share
	// leaves notes what must be there once it is paid, beside the money. Nil: nothing.
	leaves func(m *model, a *attempt)
}

// share is what somebody gets of a price.
type share struct {
	user  int64
	asset asset
	msat  int64
}

type asset int

const (
	credits asset = iota
	sats
	same // as it was paid in
)

// kinds are all of them.
var kinds = slices.Concat(itemKinds, moneyKinds, territoryKinds)

// Methods of those that are never paid directly.
var (
	fromBalance = []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats}
	heldFirst   = append(slices.Clone(fromBalance), paidaction.Pessimistic)
	atOnce      = append(slices.Clone(fromBalance), paidaction.Optimistic)
	anyWay      = append(slices.Clone(atOnce), paidaction.Pessimistic)
)

// sats is an amount that no other act of the plan names.
func (a *act) sats(most uint64) int64 { return int64(a.id) + 100*int64(a.draw>>8%most) }

// target is one of the items that are there from the beginning.
func (r *request) target(m *model) int64 { return m.items[r.draw%uint64(len(m.items))].id }

func number(v any) int64 {
	n, _ := v.(float64)
	return int64(n)
}

func exactly(arg string, factor int64) func(*model, *attempt) (int64, int64) {
	return func(_ *model, a *attempt) (int64, int64) {
		price := number(a.args[arg]) * factor
		return price, price
	}
}

func nobodys(*model, *attempt) []share { return nil }
