package webhook

import (
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Limits for deliveries under way in a process. A worker has several times as many places as one owner may take, so
// that servers which hang delay only their owner's messages.
const (
	ownerShare   = 16 // all webhooks of an owner together
	failingShare = 2  // a webhook whose last attempt failed

	ownerPause   = time.Second      // until a delivery beyond an owner's share is tried again
	failingPause = 20 * time.Second // the same for a webhook that fails: by then, those under way have ended
)

// shares counts the deliveries under way.
type shares struct {
	mu       sync.Mutex
	owners   map[int64]int // by user; the operator is 0
	webhooks map[int64]int
}

// take begins a delivery, which give ends. If its owner or its webhook has its full share, it returns how long to wait
// instead.
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

// less counts one less, and forgets a count of zero.
func less(counts map[int64]int, of int64) {
	if counts[of]--; counts[of] == 0 {
		delete(counts, of)
	}
}
