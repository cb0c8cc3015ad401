package locktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

func fenceOf(t *testing.T, words []string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(words[len(words)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// orderOverProcesses: 100 waiters in three processes, who asked one after the other, are served in that order.
func orderOverProcesses(t *testing.T, s *suite) {
	l := s.open(t, Patient)
	held := Acquire(t, l, s.key, lock.Options{MaxHold: lock.Unlimited})
	var processes []*process
	for range 3 {
		processes = append(processes, s.spawn(t, Patient.Heartbeat))
	}
	const n = 100
	for i := range n {
		processes[i%3].tell(t, "turn", i, s.key)
		Queued(t, s.Strategy, s.key, i+1)
	}
	begun := time.Now()
	Release(t, held)
	fences := make([]int64, n)
	for i := range n {
		// The answers of one process come in the order of its turns.
		words := processes[i%3].expect(t, "held", strconv.Itoa(i))
		fences[i] = fenceOf(t, words)
	}
	t.Logf("%d turns in %v", n, time.Since(begun))
	for i := 1; i < n; i++ {
		if fences[i] <= fences[i-1] {
			t.Errorf("place %d has fence %d, the one before %d", i, fences[i], fences[i-1])
		}
	}
}

// holderKilled: the next waiter has the lock within the TTL plus a second.
func holderKilled(t *testing.T, s *suite) {
	const ttl = 2 * time.Second
	l := s.open(t, lock.Settings{})
	Within(t, ttl+time.Second, "the way of a killed holder's lock to the next", func() time.Duration {
		p := s.spawn(t, lock.DefaultSettings().Heartbeat)
		p.tell(t, "acquire", "a", s.key, ttl)
		fence := fenceOf(t, p.expect(t, "held", "a"))
		next := Go(t.Context(), l, s.key, lock.Options{})
		Queued(t, s.Strategy, s.key, 1)
		killed := time.Now()
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		lease := got(t, "the lock", next)
		took := time.Since(killed)
		if lease.Fence() <= fence {
			t.Errorf("fence %d after %d", lease.Fence(), fence)
		}
		Release(t, lease)
		return took
	})
}

// headKilled: a dead waiter is skipped within two seconds.
func headKilled(t *testing.T, s *suite) {
	l, other := s.open(t, lock.Settings{}), s.open(t, lock.Settings{})
	Within(t, 2*time.Second, "the way past a killed head", func() time.Duration {
		held := Acquire(t, l, s.key, lock.Options{})
		p := s.spawn(t, lock.DefaultSettings().Heartbeat)
		p.tell(t, "acquire", "a", s.key, 10*time.Second)
		Queued(t, s.Strategy, s.key, 1)
		next := Go(t.Context(), other, s.key, lock.Options{})
		Queued(t, s.Strategy, s.key, 2)
		killed := time.Now()
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		Release(t, held) // at once: nobody can know yet that the head is dead
		lease := got(t, "the lock", next)
		took := time.Since(killed)
		Release(t, lease)
		return took
	})
}

// holderStopped: a holder that stood still while its lease ran out changes nothing when it goes on.
func holderStopped(t *testing.T, s *suite) {
	ctx := context.Background()
	id := strings.ToLower(s.key)
	if _, err := s.Guarded.Exec(ctx, "CREATE TABLE IF NOT EXISTS guarded (id text PRIMARY KEY, fence bigint NOT NULL, writes int NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Guarded.Exec(ctx, "INSERT INTO guarded VALUES ($1, 0, 0)", id); err != nil {
		t.Fatal(err)
	}
	p := s.spawn(t, Patient.Heartbeat)
	p.tell(t, "acquire", "a", s.key, time.Second)
	p.expect(t, "held", "a")
	p.tell(t, "write", "a", id)
	p.expect(t, "wrote", "a", "1")
	l := s.open(t, Patient)
	next := Go(t.Context(), l, s.key, lock.Options{})
	Queued(t, s.Strategy, s.key, 1)
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	lease := got(t, "the lock", next)
	if rows, err := guardedWrite(ctx, s.Guarded.Config().ConnString(), id, lease.Fence()); err != nil || rows != 1 {
		t.Fatalf("the new holder wrote %d rows: %v", rows, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.tell(t, "write", "a", id)
	p.expect(t, "wrote", "a", "0")
	p.tell(t, "release", "a")
	if said := strings.Join(p.expect(t, "failed"), " "); !strings.Contains(said, "lost") {
		t.Errorf("the late release said %q", said)
	}
	if lease.Err() != nil {
		t.Errorf("the late release hit the new holder: %v", lease.Err())
	}
	Release(t, lease)
}

// counter is the seed's test: several processes increment a number in a file, and the sum is exact.
func counter(t *testing.T, s *suite) {
	file := filepath.Join(t.TempDir(), "counter")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const processes, each = 3, 100
	var all []*process
	for range processes {
		all = append(all, s.spawn(t, Patient.Heartbeat))
	}
	for _, p := range all {
		p.tell(t, "count", s.key, file, each)
	}
	for _, p := range all {
		p.expect(t, "counted")
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != fmt.Sprint(processes*each) {
		t.Errorf("the counter is at %s, want %d (%v)", text, processes*each, err)
	}
}
