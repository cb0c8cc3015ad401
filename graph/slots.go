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

// take takes n places for an asker, if there are as many; free gives them back.
func (s *slots) take(who string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all > s.most-n || s.taken[who] > s.each-n {
		return false
	}
	s.move(who, n)
	return true
}

// add takes them whether there are as many or not.
func (s *slots) add(who string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(who, n)
}

func (s *slots) free(who string, n int) { s.add(who, -n) }

func (s *slots) move(who string, n int) {
	s.all += n
	if s.taken[who] += n; s.taken[who] == 0 {
		delete(s.taken, who)
	}
}

// full reports whether an asker has all that they may have.
func (s *slots) full(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[who] >= s.each
}

// who is the asker for slots and meters: a user with all their keys, or an address without a key.
func (s *session) who() string {
	if s.user != nil {
		return "user " + strconv.FormatInt(*s.user, 10)
	}
	return "address " + s.client
}
