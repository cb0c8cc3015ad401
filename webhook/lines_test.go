package webhook

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
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

// Workers take up what is due in one order for all, ten times a second, each of them one try. However many owners have
// more messages than their servers take, a process comes to everybody else's in time; also one that has just begun, and
// finds all of them due.
func TestTriesOfManyOwnersDelayNobodyElse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ owners, messages, found int }{{8, 300, 0}, {24, 300, 0}, {24, 0, 300}} {
		const (
			workers = 2 * places
			hangs   = 19 * time.Second // and then answers 200
			late    = time.Second
			settles = 30 * time.Second
		)
		type try struct {
			owner           int64
			due, since, end time.Time
			give            func()
		}
		var s shares
		var waiting, underWay []try
		begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		comes := func(next try) {
			at, _ := slices.BinarySearchFunc(waiting, next.due, func(one try, due time.Time) int { return cmp.Or(one.due.Compare(due), -1) })
			waiting = slices.Insert(waiting, at, next)
		}
		for owner := range int64(c.owners) {
			for range c.messages {
				comes(try{owner: 1 + owner, due: begun.Add(s.line(1+owner, begun))})
			}
		}
		for range c.found {
			for owner := range int64(c.owners) {
				comes(try{owner: 1 + owner, due: begun})
			}
		}
		another := int64(c.owners)
		for now := begun; now.Before(begun.Add(2 * time.Minute)); now = now.Add(100 * time.Millisecond) {
			underWay = slices.DeleteFunc(underWay, func(one try) bool {
				if one.end.After(now) {
					return false
				}
				one.give()
				return true
			})
			if now.Sub(begun)%time.Second == 0 {
				another++
				comes(try{owner: another, since: now, due: now.Add(s.line(another, now))})
			}
			for free := workers - len(underWay); free > 0 && len(waiting) > 0 && !waiting[0].due.After(now); free-- {
				next := waiting[0]
				waiting = waiting[1:]
				wait, give := s.take(db.Webhook{ID: next.owner, UserID: &next.owner}, now)
				switch {
				case wait > 0:
					next.due = now.Add(wait)
					comes(next)
				case next.owner <= int64(c.owners):
					next.end, next.give = now.Add(hangs), give
					underWay = append(underWay, next)
				default:
					give()
					if waited := now.Sub(next.since); next.since.Sub(begun) > settles && waited > late {
						t.Errorf("%+v: after %s, a message of somebody else waits for %s", c, next.since.Sub(begun), waited)
					}
				}
			}
		}
		for _, one := range waiting {
			if one.owner > int64(c.owners) {
				t.Errorf("%+v: a message of somebody else is not called at all", c)
			}
		}
	}
}
