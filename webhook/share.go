package webhook

import (
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Limits for deliveries under way in a process, so that servers which hang delay only their owner's messages.
const (
	places       = 64         // a worker runs twice as many: to find that there is none does not wait for one
	firsts       = places / 4 // the last of them are for owners who have nothing under way
	failingShare = 2          // a webhook whose last attempt failed
	failingMost  = places / 2 // all such webhooks together: one dead server may be that of many owners

	ownerPause   = time.Second      // until a delivery beyond an owner's share is tried again
	failingPause = 20 * time.Second // the same for a webhook that fails: by then, those under way have ended
)

// A try that finds the share taken costs a worker, too, and workers take up what is due in one order for all owners, ten
// times a second. So the tries of one owner are set apart, however many messages they have, and farther where so many
// owners have a line that others would have to wait behind them.
const (
	ownerApart    = 25 * time.Millisecond
	operatorApart = 5 * time.Millisecond // the operator is told of everybody's actions
	apartOfAll    = time.Second / 320    // all other owners together: half of what there are workers for beside all places
	ownerBurst    = 64                   // so many may come at once
)

// operator is the owner of the operator's webhooks.
const operator = 0

// shares counts the deliveries under way, and sets apart those to come.
type shares struct {
	mu       sync.Mutex
	owners   map[int64]int // by user, or operator
	webhooks map[int64]int
	all      int
	failing  int                 // of all, those to webhooks whose last attempt failed
	lines    map[int64]time.Time // by owner: when the last of the tries that were set apart is due, as if there were no burst
	crowd    int                 // owners whose line was long when the lines were last swept
	latest   time.Time           // of all times that were told
	swept    time.Time           // when those whose line is empty were last forgotten
}

// line returns how long an owner's next try has to wait for those before it.
func (s *shares) line(owner int64, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lineUp(owner, now, 0)
}

// forget ends the lines of owners whose jobs were not made: each time that is tried again they would be longer.
func (s *shares) forget(rows []db.NewMessagesRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range rows {
		delete(s.lines, row.Owner)
	}
}

// refuse is line for a try that found the share taken. It leaves nothing of the burst: so an owner who is refused has a
// long line, however late the workers come to it.
func (s *shares) refuse(owner int64, now time.Time, pause time.Duration) time.Duration {
	return max(pause, s.lineUp(owner, now, ownerBurst))
}

// lineUp puts a try at the end of its owner's line, behind so many at least.
func (s *shares) lineUp(owner int64, now time.Time, behind int) time.Duration {
	// If the clock was set back, nobody's turn would come before it is where it was. A time can also be older than the
	// latest since its caller was slow.
	if s.lines == nil || now.Before(s.latest.Add(-time.Minute)) {
		s.lines, s.crowd, s.latest, s.swept = map[int64]time.Time{}, 0, now, now
	}
	if now.After(s.latest) {
		s.latest = now
	}
	if now.Sub(s.swept) >= time.Second { // each owner who was ever told something would stay otherwise
		s.crowd, s.swept = 0, now
		for owner, end := range s.lines {
			switch {
			case end.Before(now):
				delete(s.lines, owner)
			case end.Sub(now) > ownerPause:
				s.crowd++
			}
		}
	}
	least, apart := ownerApart, max(ownerApart, time.Duration(s.crowd)*apartOfAll)
	if owner == operator {
		least, apart = operatorApart, operatorApart
	}
	end := s.lines[owner]
	if first := now.Add(time.Duration(behind) * least); end.Before(first) {
		end = first
	}
	end = end.Add(apart)
	s.lines[owner] = end
	return max(end.Sub(now)-ownerBurst*apart, 0)
}

// take begins a delivery, which give ends. If its owner or its webhook has its full share, or its server has asked to
// be left alone, it returns how long to wait instead.
func (s *shares) take(to db.Webhook, now time.Time) (wait time.Duration, give func()) {
	owner := int64(operator)
	if to.UserID != nil {
		owner = *to.UserID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := to.LeftAloneUntil; until != nil && now.Before(*until) && possible(until.Sub(now)) {
		return s.refuse(owner, now, until.Sub(now)), nil
	}
	fails := 0
	if to.FailingSince != nil {
		fails = 1
	}
	if fails > 0 && (s.webhooks[to.ID] >= failingShare || s.failing >= failingMost) {
		return s.refuse(owner, now, failingPause), nil
	}
	if !s.mayTake(s.owners[owner]) {
		return s.refuse(owner, now, ownerPause), nil
	}
	if s.owners == nil {
		s.owners, s.webhooks = map[int64]int{}, map[int64]int{}
	}
	s.owners[owner]++
	s.webhooks[to.ID]++
	s.all++
	s.failing += fails
	return 0, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		less(s.owners, owner)
		less(s.webhooks, to.ID)
		s.all--
		s.failing -= fails
	}
}

// mayTake reports whether an owner with so many deliveries under way may begin another one. An owner alone may have a
// quarter of all places. The fewer are free, the less each may have, down to one: to take all of them at a time takes
// dozens of owners.
func (s *shares) mayTake(held int) bool {
	if held == 0 {
		return s.all < places
	}
	return 2*held < places-firsts-s.all
}

// less counts one less, and forgets a count of zero.
func less(counts map[int64]int, of int64) {
	if counts[of]--; counts[of] == 0 {
		delete(counts, of)
	}
}
