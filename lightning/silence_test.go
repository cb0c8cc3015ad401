package lightning

import "testing"

// Calls that were under way when a node fell silent end one after the other, and their workers come back. However many
// they are, one of them asks the node and the others are refused: they have other nodes to serve.
func TestOneAsksASilentNodeHoweverManyHaveWaited(t *testing.T) {
	t.Parallel()
	var s silence
	var waiting []func(answered, late bool)
	for range 32 {
		leave, ok := s.enter()
		if !ok {
			t.Fatal("refused, though nothing is known against the node")
		}
		waiting = append(waiting, leave)
	}
	var asking []func(answered, late bool)
	for _, leave := range waiting {
		leave(false, true)
		if leave, ok := s.enter(); ok {
			asking = append(asking, leave)
		}
	}
	if len(asking) != 1 {
		t.Fatalf("%d ask at once", len(asking))
	}
	asking[0](false, true)
	next, ok := s.enter()
	if !ok {
		t.Fatal("nobody asks any more")
	}
	next(true, false)
	for range 2 {
		if _, ok := s.enter(); !ok {
			t.Error("refused, though the node answers")
		}
	}
}
