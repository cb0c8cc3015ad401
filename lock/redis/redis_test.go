package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/redisserver"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/redis"
)

// urlVariable is the address of another process's store.
const urlVariable = "HOLDFAST_LOCKTEST_REDIS"

func TestMain(m *testing.M) {
	locktest.Main(func() (lock.Store, error) { return redis.Open(os.Getenv(urlVariable)) })
	pgtest.Main(m)
}

// server is a Redis of the test's own, and the strategy in it.
func server(t *testing.T) (*redisserver.Server, *goredis.Client, locktest.Strategy) {
	t.Helper()
	s := redisserver.ForTest(t)
	options, err := goredis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return s, client, locktest.Strategy{
		Open: func() (lock.Store, error) { return redis.Open(s.URL()) },
		Waiting: func(ctx context.Context, key string) (int, error) {
			n, err := client.LLen(ctx, "{holdfast:lock}:q:"+key).Result()
			return int(n), err
		},
		Left: func(ctx context.Context, prefix string) (int, error) {
			n := 0
			for _, kind := range []string{"l:", "h:", "q:"} {
				names, err := client.Keys(ctx, "{holdfast:lock}:"+kind+prefix+"*").Result()
				if err != nil {
					return 0, err
				}
				n += len(names)
			}
			return n, nil
		},
		Child:   []string{urlVariable + "=" + s.URL()},
		Cancels: 10_000,
	}
}

func TestRedis(t *testing.T) {
	_, _, s := server(t)
	s.Guarded = pgtest.New(t)
	locktest.Run(t, s)
}

// TestFlushedMidHold: Redis forgets everything. The holder is told, waiters take new places, and fences still grow.
func TestFlushedMidHold(t *testing.T) {
	t.Parallel()
	_, client, s := server(t)
	l := locktest.Open(t, s, lock.Settings{})
	held := locktest.Acquire(t, l, "k", lock.Options{TTL: 6 * time.Second}) // it is touched after two
	next := locktest.Go(t.Context(), l, "k", lock.Options{})
	locktest.Queued(t, s, "k", 1)
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	r := locktest.Wait(t, "the next one's lock", next)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if r.Lease.Fence() <= held.Fence() {
		t.Errorf("fence %d after %d", r.Lease.Fence(), held.Fence())
	}
	locktest.Wait(t, "the loss", held.Context().Done())
	if err := held.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrTaken) {
		t.Errorf("the old lease: %v", err)
	}
	if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("its release: %v", err)
	}
	locktest.Release(t, r.Lease)
}

// TestFencesGrowWhateverRedisRemembers: also past those that an older copy knows nothing of, which a failover to a replica
// that lagged leaves, or a crash between two saves. As long as nothing is lost no clock makes them smaller: that of a process
// may be behind.
func TestFencesGrowWhateverRedisRemembers(t *testing.T) {
	t.Parallel()
	server, client, s := server(t)
	l := locktest.Open(t, s, lock.Settings{})
	fence := func() (n int64) {
		locktest.Eventually(t, "a lease", func() bool {
			lease, err := l.Acquire(t.Context(), "k", lock.Options{})
			if err != nil {
				return false
			}
			n = lease.Fence()
			locktest.Release(t, lease)
			return true
		})
		return n
	}
	last := fence()
	if err := client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		next := fence()
		if next <= last {
			t.Errorf("fence %d after %d", next, last)
		}
		last = next
	}
	server.Kill()
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next := fence(); next <= last {
		t.Errorf("fence %d after %d, of which the copy knows nothing", next, last)
	}
	ahead := time.Now().Add(time.Hour).UnixMicro()
	if err := client.Set(t.Context(), "{holdfast:lock}:fence", ahead, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if next := fence(); next != ahead+1 {
		t.Errorf("fence %d after %d", next, ahead)
	}
}

// A lease that Redis has forgotten, because it ran out a moment before its holder said that it is over, goes on to who waits with that word, and not only once they
// look themselves.
func TestALeaseThatRanOutIsHandedOn(t *testing.T) {
	t.Parallel()
	_, client, s := server(t)
	store, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for name, over := range map[string]func(lock.Ticket) (lock.Handoff, error){
		"released": func(held lock.Ticket) (lock.Handoff, error) {
			r, err := store.Release(t.Context(), held)
			if r.Owner {
				t.Error("the owner of a lease that ran out")
			}
			return r.Next, err
		},
		"lost": func(held lock.Ticket) (lock.Handoff, error) { return store.Leave(t.Context(), held) },
	} {
		enter := func(process string, want lock.State) lock.Entered {
			got, err := store.Enter(t.Context(), lock.Entry{Ticket: lock.Ticket{Key: name, ID: "of-" + process, Process: process}, Live: time.Minute, TTL: time.Minute,
				MaxHold: time.Minute, MaxQueue: 10, Wait: true})
			if err != nil || got.State != want {
				t.Fatalf("%s: %s is %s, %v", name, process, got.State, err)
			}
			return got
		}
		held := enter("holder", lock.Held)
		enter("next", lock.Queued)
		if n, err := client.Del(t.Context(), "{holdfast:lock}:l:"+name).Result(); n != 1 || err != nil {
			t.Fatalf("%d leases, %v", n, err)
		}
		next, err := over(lock.Ticket{Key: name, ID: "of-holder", Process: "holder"})
		if err != nil || next.ID != "of-next" || next.Fence <= held.Fence {
			t.Errorf("%s: %+v follows fence %d, %v", name, next, held.Fence, err)
		}
		next, err = over(lock.Ticket{Key: name, ID: "of-holder", Process: "holder"}) // said once more, it is nothing to who holds it now
		if err != nil || next.ID != "" {
			t.Errorf("%s once more: %+v, %v", name, next, err)
		}
	}
}

// TestKilledMidHold: while Redis is away nobody gets a lock, everybody is told, and nobody waits for ever (known failure 30).
func TestKilledMidHold(t *testing.T) {
	t.Parallel()
	server, _, s := server(t)
	l := locktest.Open(t, s, lock.Settings{Patience: time.Second})
	locktest.Eventually(t, "wakes get through", l.Listening)
	held := locktest.Acquire(t, l, "k", lock.Options{TTL: 2 * time.Second})
	waiting := locktest.Go(t.Context(), l, "k", lock.Options{})
	locktest.Queued(t, s, "k", 1)
	server.Kill()
	for _, key := range []string{"k", "other"} {
		if _, err := l.Acquire(t.Context(), key, lock.Options{}); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("an acquisition of %s: %v", key, err)
		}
	}
	if r := locktest.Wait(t, "the end of the wait", waiting); !errors.Is(r.Err, lock.ErrUnavailable) {
		t.Errorf("the wait: %v", r.Err)
	}
	locktest.Wait(t, "the loss", held.Context().Done())
	if err := held.Err(); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("the lease: %v", err)
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	var again *lock.Lease
	locktest.Eventually(t, "the lock is back", func() (ok bool) {
		var err error
		again, err = l.Acquire(t.Context(), "k", lock.Options{})
		return err == nil
	})
	if again.Fence() <= held.Fence() {
		t.Errorf("fence %d after %d", again.Fence(), held.Fence())
	}
	locktest.Release(t, again)
	locktest.Eventually(t, "wakes get through again", l.Listening)
}

// TestAPauseCostsNoPlaces: heartbeats are late after a pause of the server. Who hands the lock over is alive all the same,
// and so are those that wait in the same process.
func TestAPauseCostsNoPlaces(t *testing.T) {
	t.Parallel()
	_, client, s := server(t)
	locktest.KeepsPlaces(t, s, func() bool {
		alive, err := client.Keys(t.Context(), "{holdfast:lock}:p:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(alive) == 0
	})
}

// TestManyKeysTakeOneTrip: if a look took a round trip for each key, some thousands of them would take longer than anybody waits for
// an answer, and everybody would be turned away from a Redis that is well. It need not know the script.
func TestManyKeysTakeOneTrip(t *testing.T) {
	t.Parallel()
	_, client, s := server(t)
	opened, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	store := opened.(*redis.Store)
	var tickets []lock.Ticket
	var touches []lock.Touch
	for i := range 100 {
		of := func(id lock.State) lock.Ticket {
			return lock.Ticket{Key: fmt.Sprint(i), ID: fmt.Sprint(id, "-", i), Process: "p"}
		}
		for _, want := range []lock.State{lock.Held, lock.Queued} {
			got, err := store.Enter(t.Context(), lock.Entry{Ticket: of(want), Live: time.Minute, TTL: time.Minute, MaxHold: time.Hour, MaxQueue: 1, Wait: true})
			if err != nil || got.State != want {
				t.Fatalf("an entry: %+v, %v", got, err)
			}
			tickets = append(tickets, of(want))
		}
		tickets = append(tickets, of(lock.Gone))
		touches = append(touches, lock.Touch{Ticket: of(lock.Held), TTL: 2 * time.Minute})
	}
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	trips := 0
	store.CountTrips(func() { trips++ })
	standings, err := store.Look(t.Context(), tickets)
	if err != nil || len(standings) != len(tickets) || trips != 1 {
		t.Errorf("a look at %d tickets tells of %d in %d trips, %v", len(tickets), len(standings), trips, err)
	}
	for _, st := range standings {
		if st.ID != fmt.Sprint(st.State, "-", st.Key) || st.State == lock.Held && st.Valid <= 0 {
			t.Errorf("%s of key %s is %s for %v", st.ID, st.Key, st.State, st.Valid)
		}
	}
	trips = 0
	valid, err := store.Touch(t.Context(), touches)
	if err != nil || len(valid) != len(touches) || trips != 1 {
		t.Errorf("a touch of %d leases is one of %d in %d trips, %v", len(touches), len(valid), trips, err)
	}
}

// TestOldCommands holds the scripts to the commands of Redis 3.2.
func TestOldCommands(t *testing.T) {
	t.Parallel()
	old := strings.Fields("DEL EXISTS GET INCR LINSERT LLEN LPOP LRANGE LREM PEXPIRE PTTL PUBLISH RPUSH SET")
	for _, name := range []string{"common", "enter", "look", "advance", "touch", "release", "leave"} {
		text, err := os.ReadFile(name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range strings.Split(string(text), "redis.call('")[1:] {
			command, _, _ := strings.Cut(call, "'")
			if !strings.Contains(" "+strings.Join(old, " ")+" ", " "+command+" ") {
				t.Errorf("%s.lua calls %s", name, fmt.Sprintf("%q", command))
			}
		}
	}
}
