package simulate

import (
	"context"
	"slices"
	"testing"
)

// What is left of a seed is needed, each act and each fault of it, however they depend on each other: an act that is needed only beside
// another goes once that one is gone. A seed that fails in another way is not the same.
func TestShrinkingLeavesOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	again := func(_ context.Context, without less) (r Result, err error) {
		has := func(act int) bool { return !without.acts[act] }
		for act := 1; act <= 8; act++ {
			if has(act) {
				r.acts = append(r.acts, act)
			}
		}
		for _, fault := range []string{"a", "b", "c", "d", "e"} {
			if !without.faults[fault] {
				r.met = append(r.met, fault)
			}
		}
		// Of the acts with even numbers each is needed by the next one alone.
		chained := (has(6) || !has(8)) && (has(4) || !has(6)) && (has(2) || !has(4))
		switch {
		case has(1) && has(3) && has(7) && chained && !without.faults["d"] && has(5):
			r.Violations = []string{"model: as before"}
		case !has(5):
			r.Violations = []string{"stuck: otherwise"}
		}
		return r, nil
	}
	whole, _ := again(t.Context(), less{})
	s := newShrinking(whole, again)
	if err := s.halve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.best.acts, []int{1, 3, 5, 7}) || !slices.Equal(s.best.met, []string{"d"}) {
		t.Errorf("acts %v and faults %v are left after %d tries", s.best.acts, s.best.met, s.tried)
	}
}
