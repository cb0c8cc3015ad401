package relay

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Whoever lets payments hang holds places at a node, and by the expiry of their invoices they come before others, so
// they could hold all places again and again. The two kinds of payments are kept apart in this, so that withdrawals
// that hang hold up no forward, and forwards that hang keep no withdrawal waiting for good:
//
//   - Withdrawals hold at most half of a node's places, rounded up.
//   - Once a second, a place goes to a withdrawal if one waits, whatever expires first.
//
// Forwards have no bound of their own. They give their places back before their claims end, so to count claims would
// leave places empty; and to keep a place for withdrawals that may not come would, of two places, halve what is
// forwarded.

// Within a kind, whoever lets payments hang can always have some wait that expire before all others. So once a payment
// has waited for long, one of every few claims takes the one that has waited the longest: nobody can get in front of
// that any more. What is there is thus claimed in the end, however many come after it.

const (
	// waitsLong is how long a payment waits before it can come before those that expire sooner.
	waitsLong = 30 * time.Second
	// byExpiry is how many claims in a row take what expires first, however long others have waited.
	byExpiry = 3
)

// order is the order in which payments are claimed. Workers that claim at the same time may exceed byExpiry by one
// each.
type order struct{ row atomic.Int32 } // claims since the last one that might go by age

func (o *order) byAge() bool { return o.row.Load() >= byExpiry }

func (o *order) claimed(byAge bool) {
	if byAge {
		o.row.Store(0)
	} else {
		o.row.Add(1)
	}
}

// turn is the time between two claims of a process for a node that prefer a withdrawal.
const turn = time.Second

// share is the part of a node's places that withdrawals may hold.
type share struct {
	most int64 // so many; unbounded where the node has one place, or nobody says how many

	// claiming is held by the one worker of this process that may claim a withdrawal. Two at a time would both see the
	// last place of the share free. Of several processes that claim in the same moment, each but one can still take one
	// too many.
	claiming sync.Mutex
	next     time.Time // when the next turn begins, by Monotonic; claiming guards it

	all, withdrawals order // of claims that may take forwards, and of those that may not
}

const unbounded = math.MaxInt64

// MostWithdrawals is how many of a node's places withdrawals may hold. Of a single place, or where nobody says how many
// there are, they may hold all.
func MostWithdrawals(places int) int64 {
	if places < 2 {
		return unbounded
	}
	return int64(places+1) / 2
}

// begin reports whether it is the turn of withdrawals, which is over with that.
func (s *share) begin(now time.Time) bool {
	if now.Before(s.next) {
		return false
	}
	s.next = now.Add(turn)
	return true
}

// taken reports whether somebody may be claiming a withdrawal.
func (s *share) taken() bool {
	if !s.claiming.TryLock() {
		return true
	}
	s.claiming.Unlock()
	return false
}

// kinds are the payments that a claim may take.
type kinds struct {
	order       *order
	forwards    bool
	withdrawals int64 // while fewer than so many hold a place; 0: none
}
