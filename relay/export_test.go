package relay

import (
	"maps"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// These are for tests.
var (
	BlameOf = blameOf
	LeftIn  = leftIn
)

// ReasonOf is how a reason is counted, and what its payer is told.
func ReasonOf(label string) (counted string, told *paidaction.Error) {
	why := reasonOf(label)
	return why.label, why.told
}

// Told are the reasons of which payers are told something of their own.
func Told() []string { return slices.Collect(maps.Keys(tells)) }
