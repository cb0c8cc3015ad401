package webhook

import (
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Deliveries under way in a process. A worker has several times as many places as one owner may take, so that servers which hang keep
// nobody but their owner waiting.
const (
	ownerShare   = 16 // of all webhooks of an owner
	failingShare = 2  // of one that was not delivered to at its last attempt

	ownerPause   = time.Second      // until what is above an owner's share is tried again
	failingPause = 20 * time.Second // the same, of a webhook that fails: when those under way have ended at the latest
)

// shares count what is under way.
type shares struct {
	mu       sync.Mutex
	owners   map[int64]int // the operator is 0
	webhooks map[int64]int
}

// take begins a delivery, which give ends; or says how long it must wait, where its owner or its webhook has all that is theirs.
func (s *shares) take(to db.Webhook) (wait time.Duration, give func()) {
	var owner int64
	if to.UserID != nil {
		owner = *to.UserID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if to.FailingSince != nil && s.webhooks[to.ID] >= failingShare {
		return failingPause, nil
	}
	if s.owners[owner] >= ownerShare {
		return ownerPause, nil
	}
	if s.owners == nil {
		s.owners, s.webhooks = map[int64]int{}, map[int64]int{}
	}
	s.owners[owner]++
	s.webhooks[to.ID]++
	return 0, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		less(s.owners, owner)
		less(s.webhooks, to.ID)
	}
}

// less keeps nothing of those that have nothing under way.
func less(counts map[int64]int, of int64) {
	if counts[of]--; counts[of] == 0 {
		delete(counts, of)
	}
}
