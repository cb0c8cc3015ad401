package turns_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/turns"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const payer = 7

// of makes turns from locks in this memory; it belongs to a synctest bubble.
func of(t *testing.T, store lock.Store, settings lock.Settings) paidaction.Turns {
	t.Helper()
	return turns.New(locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, settings))
}

// waits begins to wait for a turn. The channel has the outcome.
func waits(t *testing.T, turn paidaction.Turn) <-chan error {
	over := make(chan error, 1)
	go func() { over <- turn.Wait(t.Context(), false) }()
	synctest.Wait()
	return over
}

// has fails the test unless the wait is over, with the turn.
func has(t *testing.T, what string, over <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-over:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	default:
		t.Fatalf("%s still waits", what)
	}
}

// A request that leaves holds up nobody, whether it had its turn or never asked for it. One that waits again after it
// has left is behind those who came meanwhile.
func TestWhoLeavesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := of(t, lock.NewMemory(0), lock.Settings{})
		unsure, first, second := all.Queue(payer), all.Queue(payer), all.Queue(payer)
		ahead := waits(t, first)
		if len(ahead) != 0 {
			t.Error("it did not wait for who came before it")
		}
		unsure.Leave()
		has(t, "the first", ahead)
		has(t, "the first, which has its turn", waits(t, first))
		behind := waits(t, second)
		if len(behind) != 0 {
			t.Error("two have the turn")
		}
		first.Leave()
		has(t, "the second", behind)
		again := waits(t, first)
		if len(again) != 0 {
			t.Error("who has left has the turn still")
		}
		second.Leave()
		has(t, "the first, again", again)
		first.Leave()
	})
}

// Who has lost the turn by taking too long goes on, and is not put behind those who came later.
func TestALostTurnWasATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := of(t, lock.NewMemory(0), lock.Settings{Options: lock.Options{MaxHold: 10 * time.Second}})
		slow, next := all.Queue(payer), all.Queue(payer)
		has(t, "the slow one", waits(t, slow))
		behind := waits(t, next)
		<-time.After(15 * time.Second)
		has(t, "the next", behind)
		has(t, "the slow one, which has had its turn", waits(t, slow))
		slow.Leave()
		next.Leave()
	})
}

// Whatever keeps the turn away, the payer is told to try again, and the operator why.
func TestNoTurnIsARefusal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store lock.Store
		cause error
	}{
		"too many wait":          {locktest.Answering{Memory: lock.NewMemory(0), State: lock.Full}, lock.ErrQueueFull},
		"too many keys":          {locktest.Answering{Memory: lock.NewMemory(0), State: lock.TooMany}, lock.ErrTooManyKeys},
		"the store is away":      {locktest.Answering{Memory: lock.NewMemory(0), Err: errors.New("away")}, lock.ErrUnavailable},
		"it never comes":         {locktest.Answering{Memory: lock.NewMemory(0), State: lock.Queued}, lock.ErrTimeout},
		"the process is stopped": {nil, lock.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := c.store == nil
			if closed {
				c.store = lock.NewMemory(0)
			}
			locker := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return c.store, nil }}, lock.Settings{Options: lock.Options{MaxWait: 50 * time.Millisecond}})
			if closed {
				if err := locker.Close(); err != nil {
					t.Fatal(err)
				}
			}
			turn := turns.New(locker).Queue(payer)
			defer turn.Leave()
			err := turn.Wait(t.Context(), false)
			if r, ok := paidaction.AsRefusal(err); !ok || r.Code != paidaction.CodeTryAgain || !errors.Is(err, c.cause) {
				t.Errorf("told: %v", err)
			}
		})
	}
}

// The time for a request ends after the longest wait for its turn, though it began before: the payer is told what they
// wait for, the operator's alert counts it, and who gets their turn in the last moment has the time to get an invoice
// from a node that is slow. Where much of that time was over before the wait, it ends that wait, and means the same.
func TestATurnThatNeverComesIsMissedWithinTheRequest(t *testing.T) {
	t.Parallel()
	const invoice = 10 * time.Second // a node's time for an answer
	for name, c := range map[string]struct{ before, left time.Duration }{
		"at once":                   {0, invoice},
		"after the balance":         {time.Second, invoice},
		"after a receiver's wallet": {25 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				store := locktest.Answering{Memory: lock.NewMemory(0), State: lock.Queued}
				turn := of(t, store, lock.Settings{Metrics: lock.NewMetrics(registry)}).Queue(payer)
				defer turn.Leave()
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), graph.Patience)
				defer cancel()
				<-time.After(c.before)
				err := turn.Wait(ctx, false)
				if r, ok := paidaction.AsRefusal(err); !ok || r.Code != paidaction.CodeTryAgain || !errors.Is(err, lock.ErrTimeout) || !strings.Contains(r.Message, "earlier requests") {
					t.Errorf("told: %v", err)
				}
				if left := graph.Patience - time.Since(begun); left < c.left {
					t.Errorf("%v of the request's time are left, want %v", left, c.left)
				}
				if n := locktest.Metric(t, registry, "holdfast_lock_acquisitions_total", "timeout"); n != 1 {
					t.Errorf("%v turns are counted as missed", n)
				}
			})
		})
	}
}
