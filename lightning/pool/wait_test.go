package pool_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
)

// counted is a store of locks that counts the questions put to it.
type counted struct {
	lock.Store
	enters, looks atomic.Int64
}

func (c *counted) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	c.enters.Add(1)
	return c.Store.Enter(ctx, e)
}

func (c *counted) Look(ctx context.Context, t []lock.Ticket) ([]lock.Standing, error) {
	c.looks.Add(1)
	return c.Store.Look(ctx, t)
}

// switched is a database that can be switched off, and counts the questions put to it.
type switched struct {
	db.DBTX
	off   atomic.Bool
	calls atomic.Int64
	asked func() // is called before each question for a row; nil: nothing is
}

var errOff = errors.New("the database is off")

func (s *switched) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	s.calls.Add(1)
	if s.off.Load() {
		return pgconn.CommandTag{}, errOff
	}
	return s.DBTX.Exec(ctx, query, args...)
}

func (s *switched) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	s.calls.Add(1)
	if s.off.Load() {
		return nil, errOff
	}
	return s.DBTX.Query(ctx, query, args...)
}

func (s *switched) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	s.calls.Add(1)
	if s.off.Load() {
		return failing{}
	}
	if s.asked != nil {
		s.asked()
	}
	return s.DBTX.QueryRow(ctx, query, args...)
}

type failing struct{}

func (failing) Scan(...any) error { return errOff }

// spec 05.35: "A retry loop without a pause; a scan of all keys per try." However many wait for nodes that another
// process has, and however long, the lock is asked twice for each slot: once without waiting, and once for a place in
// its queue. The database and the nodes are not asked at all.
func TestWaitingAsksTwiceForEachSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := lock.NewMemory(0)
	open := func(s lock.Store) *lock.Locker {
		return locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return s, nil }}, lock.Settings{})
	}
	alice, bob := newNode("a", 1000*sat), newNode("b", 1000*sat)
	members := []member{{"alice", alice, 2}, {"bob", bob, 2}}
	s := quick()
	s.Probe = time.Hour
	const slots = 4
	holder := w.openOn(w.db, open(store), s, members...)
	for range slots {
		holder.lease(pool.Need{})
	}

	for _, waiters := range []int{1, 50} {
		for _, long := range []time.Duration{200 * time.Millisecond, time.Second} {
			asked, read := &counted{Store: store}, &switched{DBTX: w.db}
			s.RetryTimeout = long
			p := w.openOn(read, open(asked), s, members...)
			before, queries := alice.count()+bob.count(), read.calls.Load()
			var group sync.WaitGroup
			for range waiters {
				group.Go(func() { p.none(pool.Need{}, pool.Busy) })
			}
			group.Wait()
			if n := asked.enters.Load(); n != 2*slots {
				t.Errorf("%d waited for %v: the lock was asked %d times for %d slots", waiters, long, n, slots)
			}
			// This is the lock's own rhythm: one look at all places together for each heartbeat.
			if n := asked.looks.Load(); n > int64(long/(400*time.Millisecond))+3 {
				t.Errorf("%d waited for %v: %d looks", waiters, long, n)
			}
			if n := read.calls.Load() - queries; n != 0 {
				t.Errorf("%d waited for %v: %d queries", waiters, long, n)
			}
			if n := alice.count() + bob.count() - before; n != 0 {
				t.Errorf("%d waited for %v: %d questions to nodes", waiters, long, n)
			}
		}
	}
}

// It is the same while nodes rest: nobody asks before they have rested.
func TestWaitingForARestingNodeAsksNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock = nil
	asked, read := &counted{Store: lock.NewMemory(0)}, &switched{DBTX: w.db}
	s := quick()
	s.Cooldown, s.Probe, s.RetryTimeout = 3*time.Second, time.Hour, time.Minute // every look falls within the rest
	locker := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return asked, nil }}, lock.Settings{})
	p := w.openOn(read, locker, s, member{"alice", newNode("a", 1000*sat), 1})
	lease := p.lease(pool.Need{})
	rested := time.Now()
	release(t, lease, pool.Done(0))
	enters, queries := asked.enters.Load(), read.calls.Load()
	var waits []<-chan result
	for range 20 {
		waits = append(waits, p.leased(pool.Need{}))
	}
	locktest.Eventually(t, "all wait", func() bool { return p.Waiting() == 20 })
	if asked.enters.Load() != enters || read.calls.Load() != queries {
		t.Error("the lock or the database was asked for a node that rests")
	}
	for _, from := range waits { // 20 that began at once have no known order
		select {
		case r := <-from:
			t.Fatalf("somebody was served at once: %+v", r)
		default:
		}
	}
	lease = first(t, waits)
	if took := time.Since(rested); took < s.Cooldown || took > s.Cooldown+2*time.Second {
		t.Errorf("it rested for %v", took)
	}
	// One try that succeeds, one place in the queue for those who still wait, one look at what others say.
	if n, m := asked.enters.Load()-enters, read.calls.Load()-queries; n > 2 || m > 1 {
		t.Errorf("the lock was asked %d times and the database %d times", n, m)
	}
	release(t, lease, pool.ReceiverFault())
}

// first returns the lease of whichever wait gets one.
func first(t *testing.T, waits []<-chan result) *pool.Lease {
	t.Helper()
	all := make(chan result, len(waits))
	for _, from := range waits {
		go func() { all <- <-from }()
	}
	return got(t, "a lease", all)
}

// What is added to pauses at random, so that processes do not all ask at the same instant, lies anywhere between nothing
// and what the settings say.
func TestJitterIsSpreadUpToItsBound(t *testing.T) {
	t.Parallel()
	for _, bound := range []time.Duration{0, time.Second} {
		s := quick()
		s.Jitter = bound
		least, most := time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
		for range 1000 {
			pause := pool.Jitter(s)
			least, most = min(least, pause), max(most, pause)
		}
		if least < 0 || least > bound/4 || most < 3*bound/4 || most > bound {
			t.Errorf("a thousand up to %v lie between %v and %v", bound, least, most)
		}
	}
}

// The pause between two looks at a node is longer by the jitter: with an endless one the node is looked at once.
func TestLooksAreApartByTheJitterToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := newNode("a", 1000*sat), newNode("b", 1000*sat)
	s := quick()
	s.Probe, s.Jitter = 10*time.Millisecond, 1000*time.Hour
	w.open(s, member{"alice", alice, 1})
	s.Jitter = 0
	w.open(s, member{"bob", bob, 1})
	once, often := alice.count(), bob.count()+100
	locktest.Eventually(t, "bob is looked at again and again", func() bool { return bob.count() > often })
	if n := alice.count() - once; n != 0 {
		t.Errorf("alice was asked %d more questions", n)
	}
}

// Whoever waits for a node that rests is woken later by the jitter: with an endless one, they are not woken.
func TestARestIsWaitedOutWithTheJitter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Probe = time.Hour
	wait := func(name string, rest, jitter time.Duration) <-chan result {
		t.Helper()
		s.Cooldown, s.Jitter = rest, jitter
		busy := name + "-busy"
		p := w.open(s, member{name, newNode(name, 1000*sat), 1}, member{busy, newNode(busy, 1000*sat), 1})
		p.lease(pool.Need{Only: busy})
		release(t, p.lease(pool.Need{Only: name}), pool.Done(0))
		waits := p.leased(pool.Need{})
		// Once it has waited for long enough to queue up for what this process has itself, only the end of the rest wakes it.
		locktest.Eventually(t, "it queues up", func() bool { return p.QueuedFor(busy) == 1 })
		return waits
	}
	never, soon := wait("alice", 50*time.Millisecond, 1000*time.Hour), wait("bob", 300*time.Millisecond, 0)
	w.clock.advance(300 * time.Millisecond)
	if lease := got(t, "a lease of bob", soon); lease.Name() != "bob" {
		t.Errorf("%s is leased", lease.Name())
	}
	select {
	case r := <-never:
		t.Errorf("alice has rested, and is leased: %+v", r)
	default:
	}
}

// A caller that waits for one node has a place in its queue, whatever goes on at the others.
func TestTrafficElsewhereDoesNotHoldUpAWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := quick()
	s.Cooldown = 0
	members := []member{{"alice", newNode("a", 1000*sat), 1}, {"bob", newNode("b", 1000*sat), 8}}
	elsewhere, p := w.open(s, members...), w.open(s, members...)
	held := elsewhere.lease(pool.Need{Only: "alice"})
	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	for range 4 {
		traffic.Go(func() {
			for ctx.Err() == nil {
				lease, err := p.Acquire(ctx, pool.Need{Only: "bob"})
				if err == nil {
					err = lease.Release(ctx, pool.Done(0))
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	waits := p.leased(pool.Need{Only: "alice"})
	locktest.Eventually(t, "it has a place", func() bool { return p.QueuedFor("alice") == 1 })
	release(t, held, pool.Done(0))
	release(t, got(t, "alice", waits), pool.Done(0))
	stop()
	traffic.Wait()
}

// Slots leased by this process come back in a moment. A caller that waits for one takes no place in its queue, and gets
// it without a question once it is free. Only after a longer wait does it queue up with the other processes.
func TestOneDoesNotQueueForOnesOwnSlotsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := &counted{Store: lock.NewMemory(0)}
	locker := locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return asked, nil }}, lock.Settings{})
	s := quick()
	s.Probe = time.Hour
	p := w.openOn(w.db, locker, s, member{"alice", newNode("a", 1000*sat), 2})
	first, second := p.lease(pool.Need{}), p.lease(pool.Need{})
	for tries := 0; ; tries++ {
		enters := asked.enters.Load()
		waits := p.leased(pool.Need{})
		locktest.Eventually(t, "one waits", func() bool { return p.Waiting() == 1 })
		release(t, first, pool.Done(0))
		first = got(t, "the slot", waits)
		n := asked.enters.Load() - enters
		if n == 0 {
			break
		}
		if tries == 20 { // else the machine was too busy: it queued up, or the lock's time to be kept was over
			t.Fatalf("the lock was asked %d times for one slot", n)
		}
	}
	waits := p.leased(pool.Need{})
	locktest.Eventually(t, "it queues up for both", func() bool { return p.QueuedFor("alice") == 2 })
	release(t, second, pool.Done(0))
	r := <-waits
	if r.err != nil {
		t.Fatal(r.err)
	}
	release(t, r.lease, pool.Done(0))
	release(t, first, pool.Done(0))
}
