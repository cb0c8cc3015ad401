package lock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

func opened(t *testing.T, state lock.State, err error) *lock.Locker {
	t.Helper()
	return openedWith(t, state, err, lock.Settings{})
}

func openedWith(t *testing.T, state lock.State, err error, settings lock.Settings) *lock.Locker {
	t.Helper()
	store := locktest.Answering{Memory: lock.NewMemory(0), State: state, Err: err}
	return locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, settings)
}

var (
	errAway = errors.New("away")
	open    = lock.Options{FailOpen: true}
)

// TestWithoutTheStoreOneGoesOnAtATime is known failure 33, within a process. Only those go on who may, and what they
// have says what it is. Each of them is logged as an error, and counted.
func TestWithoutTheStoreOneGoesOnAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		l := openedWith(t, "", errAway, lock.Settings{Metrics: lock.NewMetrics(registry), Log: slog.New(slog.NewJSONHandler(&log, nil))})
		wentOn := func(want ...string) { // with these keys
			t.Helper()
			var keys []string
			for lines := json.NewDecoder(strings.NewReader(log.String())); ; {
				var line struct{ Level, Msg, Key, Error string }
				if err := lines.Decode(&line); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(line.Msg, "going on with a lock of this process alone") && line.Level == "ERROR" && strings.Contains(line.Error, "away") {
					keys = append(keys, line.Key)
				}
			}
			if !slices.Equal(keys, want) {
				t.Errorf("the log says that these went on: %q, want %q", keys, want)
			}
		}
		degraded := func(want float64) {
			t.Helper()
			if n := locktest.Metric(t, registry, "holdfast_lock_acquisitions_total", "degraded"); n != want {
				t.Errorf("%v degraded leases are counted, want %v", n, want)
			}
		}
		if _, err := l.Acquire(t.Context(), "k", lock.Options{}); !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, errAway) {
			t.Errorf("who may not: %v", err)
		}
		wentOn()
		degraded(0)
		first := locktest.Acquire(t, l, "k", open)
		if !first.Degraded() || first.Fence() != 0 {
			t.Errorf("degraded %t, fence %d", first.Degraded(), first.Fence())
		}
		wentOn("k")
		degraded(1)
		second := locktest.Go(t.Context(), l, "k", open)
		synctest.Wait()
		if len(second) != 0 {
			t.Error("two went on at once")
		}
		if _, err := l.TryAcquire(t.Context(), "k", open); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("who does not wait: %v", err)
		}
		locktest.Release(t, locktest.Acquire(t, l, "other", open))
		locktest.Release(t, first)
		locktest.Release(t, locktest.Wait(t, "the second", second).Lease)
		wentOn("k", "k", "k", "other")
		degraded(3)
	})
}

// TestALockThatIsNotGivenIsNoAbsence: who may go on without the store does not go on against it.
func TestALockThatIsNotGivenIsNoAbsence(t *testing.T) {
	t.Parallel()
	for state, want := range map[lock.State]error{
		lock.Full: lock.ErrQueueFull, lock.TooMany: lock.ErrTooManyKeys, lock.Busy: lock.ErrBusy, lock.Queued: lock.ErrTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			if _, err := opened(t, state, nil).Acquire(t.Context(), "k", open); !errors.Is(err, want) {
				t.Errorf("%s: %v", state, err)
			}
		})
	}
}

// TestCloseEndsWhatWentOnWithoutTheStore as it ends everything else.
func TestCloseEndsWhatWentOnWithoutTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := opened(t, "", errAway)
		held := locktest.Acquire(t, l, "k", open)
		waiting := locktest.Go(t.Context(), l, "k", open)
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := held.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrClosed) || held.Context().Err() == nil {
			t.Errorf("the lease: %v", err)
		}
		if r := locktest.Wait(t, "the end of the wait", waiting); !errors.Is(r.Err, lock.ErrClosed) {
			t.Errorf("the wait: %v", r.Err)
		}
		if _, err := l.Acquire(t.Context(), "k", open); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// closing closes a Locker when it says that somebody goes on without the store.
type closing struct {
	slog.Handler
	locker **lock.Locker
}

func (h closing) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelError }

func (h closing) Handle(context.Context, slog.Record) error { return (*h.locker).Close() }

// TestNobodyGoesOnBesideClose: who would go on without the store at the moment of Close is turned away like all others,
// and nothing is begun for them that nobody would end.
func TestNobodyGoesOnBesideClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l *lock.Locker
		l = openedWith(t, "", errAway, lock.Settings{Log: slog.New(closing{slog.DiscardHandler, &l})})
		if _, err := l.Acquire(t.Context(), "k", open); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("who would go on: %v", err)
		}
	})
}

// firstFails is a store whose first answer to whoever wants a lock is a failure, once it may come.
type firstFails struct {
	*lock.Memory
	may   chan struct{}
	asked *atomic.Bool
}

func (s firstFails) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	if s.asked.CompareAndSwap(false, true) {
		<-s.may
		return lock.Entered{}, errAway
	}
	return s.Memory.Enter(ctx, e)
}

// TestAFailureThatComesAtOnceIsNobodyElses: those in line behind whom it hits ask the store themselves.
func TestAFailureThatComesAtOnceIsNobodyElses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := firstFails{lock.NewMemory(0), make(chan struct{}), &atomic.Bool{}}
		l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		first := locktest.Go(t.Context(), l, "k", lock.Options{})
		synctest.Wait()
		second := locktest.Go(t.Context(), l, "k", lock.Options{})
		synctest.Wait()
		close(store.may)
		if got := <-first; !errors.Is(got.Err, lock.ErrUnavailable) {
			t.Errorf("the first got %v", got.Err)
		}
		got := <-second
		if got.Err != nil {
			t.Fatalf("the second got %v", got.Err)
		}
		locktest.Release(t, got.Lease)
	})
}

// swept is a store that counts how often it is swept.
type swept struct {
	*lock.Memory
	times *atomic.Int64
}

func (s swept) Sweep(context.Context) error {
	s.times.Add(1)
	return errAway
}

// TestAStoreIsSweptAgainAndAgain: what processes that died have left would stay for ever. A failure ends nothing.
func TestAStoreIsSweptAgainAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := swept{lock.NewMemory(0), &atomic.Int64{}}
		locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
		<-time.After(24 * time.Hour)
		if n := store.times.Load(); n < 2 {
			t.Errorf("swept %d times in a day", n)
		}
	})
}

// stumbling is a store that fails once at a heartbeat, or at a look, when it is to.
type stumbling struct {
	*lock.Memory
	beat, look *atomic.Bool
}

func (s stumbling) Beat(ctx context.Context, p lock.Process, live time.Duration) error {
	if s.beat.CompareAndSwap(true, false) {
		return errAway
	}
	return s.Memory.Beat(ctx, p, live)
}

func (s stumbling) Look(ctx context.Context, tickets []lock.Ticket) ([]lock.Standing, error) {
	if s.look.CompareAndSwap(true, false) {
		return nil, errAway
	}
	return s.Memory.Look(ctx, tickets)
}

// TestOneFailureTurnsNobodyAway: however long the store has answered until then, and however long nobody had to ask it.
// Those who wait are turned away once it has failed for as long as they are patient.
func TestOneFailureTurnsNobodyAway(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(stumbling) *atomic.Bool{
		"a heartbeat": func(s stumbling) *atomic.Bool { return s.beat }, "a look": func(s stumbling) *atomic.Bool { return s.look },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := stumbling{lock.NewMemory(0), &atomic.Bool{}, &atomic.Bool{}}
				l := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, lock.Settings{})
				another := lock.Ticket{Key: "k", ID: "another", Process: "another"}
				for _, waited := range []time.Duration{time.Hour, 0} { // the second time nobody has waited for an hour
					if got, err := store.Enter(t.Context(), lock.Entry{Ticket: another, TTL: 24 * time.Hour, MaxHold: 24 * time.Hour}); err != nil || got.State != lock.Held {
						t.Fatal(got, err)
					}
					if waited == 0 {
						fails(store).Store(true)
					}
					waits := locktest.Go(t.Context(), l, "k", lock.Options{MaxWait: lock.Unlimited})
					<-time.After(waited)
					if waited > 0 {
						fails(store).Store(true)
					}
					<-time.After(time.Minute)
					if fails(store).Load() || len(waits) != 0 {
						t.Errorf("after a wait of %v: it has not failed, or who waits is turned away", waited)
					}
					if _, err := store.Memory.Release(t.Context(), another); err != nil {
						t.Fatal(err)
					}
					got := <-waits
					if got.Err != nil {
						t.Fatal(got.Err)
					}
					locktest.Release(t, got.Lease)
					<-time.After(time.Hour)
				}
			})
		})
	}
}
