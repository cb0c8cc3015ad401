package paidaction

import (
	"slices"
	"testing"
)

// The more receivers have their wallets asked for next attempts, the fewer each may have asked, and it takes six to have
// as many asked as may be.
func TestReceiversLeavePlacesToOthers(t *testing.T) {
	t.Parallel()
	p := &preparing{of: map[int64]int{}}
	var got []int
	var ends []func()
	for receiver := range int64(7) {
		n := 0
		for end, may := p.begin(receiver); may; end, may = p.begin(receiver) {
			n++
			ends = append(ends, end)
		}
		got = append(got, n)
	}
	if want := []int{4, 3, 2, 1, 1, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("one after the other, receivers have %v, want %v", got, want)
	}
	for _, end := range ends {
		end()
	}
	if p.all != 0 || len(p.of) != 0 {
		t.Errorf("once they have ended: %d, %v", p.all, p.of)
	}
}
