package webhook

import (
	"testing"
	"time"
)

// A process remembers only owners who have to wait, however many it has told something.
func TestAnOwnerWithoutALineIsForgotten(t *testing.T) {
	t.Parallel()
	var s shares
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for owner := range int64(1000) {
		s.line(owner, now)
	}
	for range 4 * time.Minute / ownerApart {
		s.line(1, now)
	}
	now = now.Add(2 * time.Minute)
	s.line(2, now)
	if len(s.lines) != 2 {
		t.Errorf("%d owners are remembered", len(s.lines))
	}
	if wait := s.line(1, now); wait < time.Minute {
		t.Errorf("who still had to wait waits for %s", wait)
	}
}
