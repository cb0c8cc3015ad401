package lightning

import "sync"

// silence keeps a node that takes calls but does not answer from holding up everybody who asks it, since the same
// workers serve all nodes. After a call that ran into its deadline, one caller at a time asks; all others are refused
// at once until the node answers. The first update of a tracked payment counts as an answer, too.
type silence struct {
	mu     sync.Mutex
	silent bool
	asking bool // somebody is making the one call
}

// enter reports whether a call may be made. If so, call leave afterwards, with whether the node answered.
func (s *silence) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent && s.asking {
		return false
	}
	s.asking = s.silent
	return true
}

func (s *silence) leave(answered, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
	switch {
	case answered:
		s.silent = false
	case late:
		s.silent = true
	}
}
