package lightning

import "sync"

// silence keeps a node that takes calls and does not answer from holding up everybody who asks: the workers of all other nodes are the
// same. After a call that ran into its deadline one caller at a time asks; all others are refused at once, until the node answers. The first word of a
// tracked payment is the answer to a call, too.
type silence struct {
	mu     sync.Mutex
	silent bool
	asking bool // somebody has the one call
}

// enter says whether a call may be made. leave is then called with whether the node answered.
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
