package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

// byAClock does something by a clock that is wrong by so much, which nobody confirms.
func (w *world) byAClock(ahead time.Duration, do func()) {
	w.Clock.Advance(ahead)
	confirm := w.Webhooks.ConfirmClock
	w.Webhooks.ConfirmClock = func(context.Context) error { return errors.New("the clocks are apart") }
	do()
	w.Webhooks.ConfirmClock = confirm
	w.Clock.Advance(-ahead)
}

const year = 365 * 24 * time.Hour

// What was tried by a clock that is ahead is not put off until then.
func TestWhatAClockAheadPutsOffIsTriedAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	s.Status(http.StatusInternalServerError)
	w.test(&alice, id)
	w.byAClock(year, w.Deliver)
	s.Answers(nil)
	if w.Deliver(); !w.log(id)[0].Delivered {
		t.Errorf("it waits: %+v", w.log(id)[0])
	}
}

// A webhook has failed for three days only by a clock that is confirmed: neither does one that is ahead disable it, nor
// does one that is behind have it disabled at the next failure. What the server itself says counts.
func TestAClockThatIsWrongDisablesNoWebhook(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": year, "behind": -year} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			alice, s := w.User("alice", 0, 0), newServer(t)
			id, _ := w.Tell(&alice, s.URL)
			shown := func() webhook.Webhook {
				t.Helper()
				list, err := w.List(w.Ctx, &alice)
				if err != nil {
					t.Fatal(err)
				}
				return list[0]
			}
			try := func() {
				w.test(&alice, id)
				w.Deliver()
			}
			s.Status(http.StatusInternalServerError)
			w.byAClock(ahead, try)
			if is := shown(); is.FailingSince != nil {
				t.Errorf("by a clock that is wrong it has failed since %s", is.FailingSince)
			}
			try()
			since := w.Clock.Now()
			w.Clock.Advance(time.Minute)
			w.byAClock(ahead, try)
			if is := shown(); is.DisabledAt != nil || is.FailingSince == nil || !is.FailingSince.Equal(since) {
				t.Errorf("after a minute of failures, since %s: %+v", since, is)
			}
			s.Status(http.StatusGone)
			if w.byAClock(ahead, try); shown().DisabledAt == nil {
				t.Error("its server wants no more, and it is not disabled")
			}
		})
	}
}

// What a server asked for by a clock that is ahead does not hide what it asks for later.
func TestAServerIsLeftAloneByAClockThatIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	s.Answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	w.test(&alice, id)
	w.byAClock(year, w.Deliver)
	w.test(&alice, id)
	w.Deliver()
	s.Got()
	w.test(&alice, id)
	if w.Deliver(); len(s.Got()) != 0 {
		t.Error("the server has asked to be left alone, and is told another message")
	}
}

// What ended by a clock that was ahead is kept for a month all the same: as long as a message is kept, nothing later is
// archived.
func TestWhatEndedByAClockAheadIsKeptForAMonth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	w.test(&alice, id)
	w.byAClock(year, w.Deliver)
	w.sweep()
	w.Clock.Advance(29 * 24 * time.Hour)
	if w.sweep(); len(w.log(id)) != 1 {
		t.Error("forgotten too soon")
	}
	w.Clock.Advance(2 * 24 * time.Hour)
	if w.sweep(); len(w.log(id)) != 0 {
		t.Error("kept too long")
	}
}
