package simulate

import (
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// kind is what the simulation has to know of one kind of action: how people ask for it, what it costs, who gets the
// money, and what it leaves behind. All this is written down a second time, independently of the code under test.
type kind struct {
	name      string
	weight    int // how often it is drawn
	anonymous bool
	first     bool                // mostly done by the first person, who has founded and invites
	files     bool                // may carry files, which are uploaded before
	methods   []paidaction.Method // methods that may be forced
	args      func(w *world, r *request) any
	// price returns the bounds of the price, in msat.
	price func(m *model, a *attempt) (least, most int64)
	// shares are the parts of the price that belong to somebody; the rest goes to the rewards.
	shares func(m *model, a *attempt) []share
	// leaves notes what must exist once it is paid, besides the money. Nil: nothing.
	leaves func(m *model, a *attempt)
}

// share is the part of a price that somebody gets.
type share struct {
	user  int64
	asset asset
	msat  int64
}

type asset int

const (
	credits asset = iota
	sats
	same // in the asset that was paid with
)

// kinds are all kinds.
var kinds = slices.Concat(itemKinds, moneyKinds, territoryKinds)

// Methods of kinds that are never paid directly.
var (
	fromBalance = []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats}
	heldFirst   = append(slices.Clone(fromBalance), paidaction.Pessimistic)
	atOnce      = append(slices.Clone(fromBalance), paidaction.Optimistic)
	anyWay      = append(slices.Clone(atOnce), paidaction.Pessimistic)
)

// sats is an amount that no other act of the plan uses.
func (a *act) sats(most uint64) int64 { return int64(a.id) + 100*int64(a.draw>>8%most) }

// target is one of the items that exist from the beginning.
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
