package lightning

import "sync"

// silence keeps a node that takes calls but does not answer from holding up everybody who asks it, since the same
// workers serve all nodes. After a call that ran into its deadline, one caller at a time asks; all others are refused
// at once until the node answers. The first update of a tracked payment counts as an answer, too.
type silence struct {
	mu     sync.Mutex
	silent bool
	asking *asker // who makes the one call; nil: nobody
}

// asker is one call. It is not empty, so that each has an address of its own.
type asker struct{ of *silence }

// enter reports whether a call may be made. If so, call leave afterwards, with whether the node answered; a call whose
// answer comes after that may leave again.
func (s *silence) enter() (leave func(answered, late bool), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent && s.asking != nil {
		return nil, false
	}
	own := &asker{s}
	if s.silent {
		s.asking = own
	}
	return own.leave, true
}

func (a *asker) leave(answered, late bool) {
	s := a.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking == a { // calls from before the silence end one by one, and none of them was the one
		s.asking = nil
	}
	switch {
	case answered:
		s.silent = false
	case late:
		s.silent = true
	}
}
