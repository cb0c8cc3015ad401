package chaos

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// fake is a part without a process.
type fake struct {
	*part
	running atomic.Bool
	serving atomic.Bool
	starts  atomic.Int64
}

func newFake(name string, needs ...*part) *fake {
	f := &fake{part: newPart(name, services)}
	f.kill = func() { f.running.Store(false) }
	f.start = func(context.Context) error { f.starts.Add(1); f.running.Store(true); return nil }
	f.runs = f.running.Load
	f.serves = func(context.Context) error {
		if !f.serving.Load() {
			return errors.New("not yet")
		}
		return nil
	}
	for _, n := range needs {
		f.needs = append(f.needs, []*part{n})
	}
	return f
}

// alive has the part live until the test ends.
func (f *fake) alive(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.live(ctx) }()
	t.Cleanup(func() { end(); <-done })
}

func (f *fake) awaitServing(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := f.awaitIdle(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAPartIsKilledStartedAndTimed(t *testing.T) {
	t.Parallel()
	f := newFake("a")
	f.serving.Store(true)
	f.alive(t)
	f.awaitServing(t)
	for !f.strike(0) {
	}
	f.awaitServing(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.starts.Load() != 2 || f.kills != 1 || len(f.times) != 1 || f.ended != 0 {
		t.Errorf("%d starts, %d kills, served again after %v, ended by itself %d times", f.starts.Load(), f.kills, f.times, f.ended)
	}
}

func TestAPartThatEndsByItselfIsStartedAgain(t *testing.T) {
	t.Parallel()
	f := newFake("a")
	f.serving.Store(true)
	f.alive(t)
	f.awaitServing(t)
	f.running.Store(false)
	for f.starts.Load() < 2 {
		f.awaitServing(t)
	}
	f.awaitServing(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kills != 0 || f.ended != 1 || len(f.times) != 0 {
		t.Errorf("%d kills, ended by itself %d times, timed %v", f.kills, f.ended, f.times)
	}
}

// TestTheClockRunsWhileAllThatIsNeededRuns: a part whose database is down is not to blame for that, but only for the
// time after.
func TestTheClockRunsWhileAllThatIsNeededRuns(t *testing.T) {
	t.Parallel()
	database := newPart("pg", database)
	f := newFake("a", database)
	f.up()
	if _, all := f.complete(); all {
		t.Fatal("complete without a database")
	}
	database.up()
	since, all := f.complete()
	if !all || since != database.begun {
		t.Errorf("complete: %v since %v, the database since %v", all, since, database.begun)
	}
	database.down()
	if _, all := f.complete(); all {
		t.Error("complete after the database's kill")
	}

	took := make(chan time.Duration)
	go func() { took <- f.revive(t.Context()) }()
	database.up()
	begun := database.begun
	for time.Since(begun) < 100*time.Millisecond {
		if _, all := f.complete(); !all {
			t.Fatal("not complete")
		}
	}
	f.serving.Store(true)
	if longest := <-took; longest < 50*time.Millisecond || longest > time.Since(begun) {
		t.Errorf("it took %v", longest)
	}
}
