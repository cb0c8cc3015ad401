package graph

import (
	"strconv"
	"sync"
)

// slots limit how many of something may be under way at once in this process: in all, and for one asker.
type slots struct {
	most, each int

	mu    sync.Mutex
	all   int
	taken map[string]int // by asker
}

func newSlots(most, each int) *slots { return &slots{most: most, each: each, taken: map[string]int{}} }

// take takes a place for an asker; free gives it back.
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

// who is the asker for slots and meters: a user with all their keys, or an address without a key.
func (s *session) who() string {
	if s.user != nil {
		return "user " + strconv.FormatInt(*s.user, 10)
	}
	return "address " + s.client
}
