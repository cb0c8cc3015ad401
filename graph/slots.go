package graph

import (
	"strconv"
	"sync"
)

// slots bound how much of something is under way at once in this process, and how much of that is one asker's.
type slots struct {
	most, each int

	mu    sync.Mutex
	all   int
	taken map[string]int // by who asks
}

func newSlots(most, each int) *slots { return &slots{most: most, each: each, taken: map[string]int{}} }

// take takes a place for who asks; it is given back with free.
func (s *slots) take(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.most || s.taken[who] >= s.each {
		return false
	}
	s.all++
	s.taken[who]++
	return true
}

func (s *slots) free(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.taken[who]--; s.taken[who] == 0 {
		delete(s.taken, who)
	}
}

// who is the asker as slots and meters count: a user with all their keys, or an address without one.
func (s *session) who() string {
	if s.user != nil {
		return "user " + strconv.FormatInt(*s.user, 10)
	}
	return "address " + s.client
}
