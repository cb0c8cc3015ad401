// Package locktest is the test suite that every strategy of package lock must pass, with real servers.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// Strategy is a strategy under test.
type Strategy struct {
	// Open makes another store on the same queues, as another process would.
	Open func() (lock.Store, error)
	// Waiting is how many wait for a key.
	Waiting func(ctx context.Context, key string) (int, error)
	// Left is how many holders and waiters are still stored for keys with this prefix.
	Left func(ctx context.Context, prefix string) (int, error)
	// Child is the environment that makes the test's own program another process ([Main]); nil if the strategy is for a
	// single process.
	Child []string
	// Guarded is the database in which children make guarded writes.
	Guarded *pgxpool.Pool
	// Cancels is how many waits are cancelled just when the lock arrives.
	Cancels int
}

// Run runs the suite.
func Run(t *testing.T, s Strategy) {
	tests := []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"Order", order}, {"OtherKeys", otherKeys}, {"Exclusive", exclusive}, {"WrongReleases", wrongReleases},
		{"LeasesEnd", leasesEnd}, {"NoLeaseEndsEarly", noLeaseEndsEarly},
		{"Drop", drop}, {"TouchAndLoss", touchAndLoss}, {"ManualTouch", manualTouch}, {"MaxHold", maxHold}, {"Limits", limits}, {"Counted", counted}, {"Keys", keys},
		{"CancelRacesWithGrant", cancelRace}, {"ManyHeldKeys", manyHeld}, {"ManyWaiters", manyWaiters}, {"Closing", closing},
		{"LateAnswers", lateAnswers}, {"Places", places}, {"PlacesAtClose", placesAtClose}, {"PlacesRace", placesRace},
	}
	if s.Child != nil {
		tests = append(tests, []struct {
			name string
			run  func(*testing.T, *suite)
		}{
			{"OrderOverProcesses", orderOverProcesses}, {"HolderKilled", holderKilled}, {"HeadKilled", headKilled},
			{"HolderStopped", holderStopped}, {"Counter", counter},
		}...)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, &suite{Strategy: s, key: "suite:" + test.name + ":"})
		})
	}
}

// suite is one test's view, with its own keys.
type suite struct {
	Strategy
	key string
}

// Leaks fails the test if it leaves a new goroutine behind. It is not for parallel tests.
func Leaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// Closes fails the test if a Locker that is closed leaves somebody waiting, or a goroutine. It is not for parallel tests.
func Closes(t *testing.T, s Strategy) {
	t.Helper()
	Leaks(t)
	l := Open(t, s, lock.Settings{})
	Acquire(t, l, "k", lock.Options{})
	waiting := Go(t.Context(), l, "k", lock.Options{})
	Queued(t, s, "k", 1)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if r := Wait(t, "the end of the wait", waiting); !errors.Is(r.Err, lock.ErrClosed) {
		t.Error(r.Err)
	}
}

// Open makes a Locker with the strategy; it is closed when the test ends.
func Open(t testing.TB, s Strategy, settings lock.Settings) *lock.Locker {
	t.Helper()
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	l, err := lock.New(store, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (s *suite) open(t *testing.T, settings lock.Settings) *lock.Locker {
	return Open(t, s.Strategy, settings)
}

// Patience is how long a test waits for what must happen.
const Patience = 30 * time.Second

// Patient is for tests in which no process dies. Until its first touch a lease that came from a queue lasts no longer
// than its process counts as alive. By default that is little more than a second, and on a busy machine this touch can
// take as long.
var Patient = lock.Settings{Heartbeat: 5 * time.Second, Patience: 20 * time.Second}

// Within fails the test if the time that do returns exceeds limit.
func Within(t testing.TB, limit time.Duration, what string, do func() time.Duration) {
	t.Helper()
	took := do()
	t.Logf("%s: %v", what, took)
	if took > limit {
		t.Errorf("%s took %v, more than %v", what, took, limit)
	}
}

// Eventually waits until the condition holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-again.C:
		}
	}
}

// Queued waits until n wait for the key.
func Queued(t testing.TB, s Strategy, key string, n int) {
	t.Helper()
	key, err := lock.Normalise(key)
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, fmt.Sprintf("%d wait for %s", n, key), func() bool {
		got, err := s.Waiting(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		return got == n
	})
}

// Acquire acquires, or fails the test.
func Acquire(t testing.TB, l *lock.Locker, key string, o lock.Options) *lock.Lease {
	t.Helper()
	lease, err := l.Acquire(context.Background(), key, o)
	if err != nil {
		t.Fatalf("acquire %s: %v", key, err)
	}
	return lease
}

// Release releases, or fails the test.
func Release(t testing.TB, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Errorf("release %s: %v", lease.Key(), err)
	}
}

// Result is the outcome of an acquisition in the background.
type Result struct {
	Lease *lock.Lease
	Err   error
	Took  time.Duration
}

// Go acquires in the background.
func Go(ctx context.Context, l *lock.Locker, key string, o lock.Options) <-chan Result {
	done := make(chan Result, 1)
	begun := time.Now()
	go func() {
		lease, err := l.Acquire(ctx, key, o)
		done <- Result{lease, err, time.Since(begun)}
	}()
	return done
}

// Wait waits for a value.
func Wait[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	select {
	case v := <-from:
		return v
	case <-deadline.C:
		t.Fatalf("never came: %s", what)
		panic("not reached")
	}
}

// got waits for a lease.
func got(t testing.TB, what string, from <-chan Result) *lock.Lease {
	t.Helper()
	r := Wait(t, what, from)
	if r.Err != nil {
		t.Fatalf("%s: %v", what, r.Err)
	}
	return r.Lease
}

func mustBe(t testing.TB, what string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%s: %v, want %v", what, err, w)
		}
	}
}
