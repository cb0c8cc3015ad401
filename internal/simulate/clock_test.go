package simulate

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// What is left of a context that ends by the monotonic clock becomes less while its process stands still, though hardly
// any real time passes. One that was made for a span of time has all of it.
func TestAContextThatEndsByTheMonotonicClock(t *testing.T) {
	w := &world{tick: time.Minute}
	until, cancel := context.WithDeadline(t.Context(), (&process{world: w}).monotonic().Add(30*time.Second))
	defer cancel()
	span, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, stood := range []time.Duration{0, 20 * time.Second, 2 * time.Hour} {
		w.tick = time.Minute + stood
		if left, bounded := w.timeLeft(until); max(left, 0) != max(30*time.Second-stood, 0) || !bounded {
			t.Errorf("after %s, %s is left of it, %t", stood, left, bounded)
		}
		if left, bounded := w.timeLeft(span); left != 30*time.Second || !bounded {
			t.Errorf("after %s, %s is left of the span, %t", stood, left, bounded)
		}
	}
	if _, bounded := w.timeLeft(t.Context()); bounded {
		t.Error("a context without an end has one")
	}
}

// A seed in which somebody waits for a Go mutex that a stopped process has says where.
func TestWhoWaitsForAMutexIsNamed(t *testing.T) {
	var mu sync.Mutex
	var waiter sync.WaitGroup
	mu.Lock()
	waiter.Go(func() { waitsForIt(&mu) })
	for deadline := time.Now().Add(time.Minute); !strings.Contains(atMutexes(), "waitsForIt"); {
		if time.Now().After(deadline) {
			t.Fatalf("nobody waits for a mutex:\n%s", atMutexes())
		}
	}
	mu.Unlock()
	waiter.Wait()
}

func waitsForIt(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}
