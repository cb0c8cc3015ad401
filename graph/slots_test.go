package graph

import "testing"

// There are so many places in all and so many for each asker, and whoever leaves gives theirs to anybody.
func TestPlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	s := newSlots(3, 2)
	for round := range 3 {
		for _, step := range []struct {
			who string
			got bool
		}{{"alice", true}, {"alice", true}, {"alice", false}, {"bob", true}, {"carol", false}} {
			if got := s.take(step.who, 1); got != step.got {
				t.Errorf("round %d, %s: %t", round, step.who, got)
			}
		}
		s.free("bob", 1)
		if !s.take("carol", 1) {
			t.Errorf("round %d: bob's place is given to nobody", round)
		}
		for _, who := range []string{"alice", "alice", "carol"} {
			s.free(who, 1)
		}
		if len(s.taken) > 0 {
			t.Errorf("round %d: those who have left are remembered: %v", round, s.taken)
		}
	}
}
