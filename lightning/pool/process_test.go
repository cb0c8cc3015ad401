package pool_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/redis"
)

// These environment variables make the test's program another process with a pool of the node "alice". They name the
// database, and the Redis that has the locks if the database does not.
const (
	childVariable = "HOLDFAST_POOLTEST_CHILD"
	redisVariable = "HOLDFAST_POOLTEST_REDIS"
)

// childTTL is how long the leases of such a process last without being touched.
const childTTL = time.Second

// obey leases alice and says so. It says when the lease is over, and, after a line on its input, what the release
// returns.
func obey() (code int) {
	ctx := context.Background()
	if err := hold(ctx, os.Getenv(childVariable), os.Getenv(redisVariable)); err != nil {
		fmt.Println("failed", err)
		return 1
	}
	return 0
}

func hold(ctx context.Context, dsn, redisURL string) error {
	database, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer database.Close()
	open := openPostgres(dsn)
	if redisURL != "" {
		open = func() (lock.Store, error) { return redis.Open(redisURL) }
	}
	store, err := open()
	if err != nil {
		return err
	}
	locker, err := lock.New(store, lock.Settings{Options: lock.Options{TTL: childTTL}})
	if err != nil {
		return err
	}
	defer locker.Close()
	p, err := pool.New(pool.Config{
		Nodes: []pool.Member{{Name: "alice", Node: newNode("a", 1000*sat), Slots: 1}}, Locker: locker,
		Register: pool.NewRegister(database, time.Now), Settings: quick(),
	})
	if err != nil {
		return err
	}
	defer p.Close()
	lease, err := p.Acquire(ctx, pool.Need{})
	if err != nil {
		return err
	}
	fmt.Println("leased", lease.Fence())
	go func() {
		<-lease.Context().Done()
		fmt.Println("over", errors.Is(context.Cause(lease.Context()), lock.ErrLost))
	}()
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	err = lease.Release(ctx, pool.Done(0))
	fmt.Println("released", errors.Is(err, lock.ErrLost))
	return nil
}

// other is another process that has leased alice.
type other struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	fence int64
}

func spawn(t *testing.T, dsn, redisURL string) *other {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childVariable+"="+dsn, redisVariable+"="+redisURL)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	o := &other{cmd: cmd, in: in, lines: make(chan string, 10)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			o.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Signal(syscall.SIGCONT)
		timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		<-read
		_ = cmd.Wait()
		timer.Stop()
	})
	if _, err := fmt.Sscanf(o.line(t), "leased %d", &o.fence); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *other) line(t *testing.T) string {
	t.Helper()
	line := locktest.Wait(t, "a line of another process", o.lines)
	if strings.HasPrefix(line, "failed") {
		t.Fatal(line)
	}
	return line
}

func (o *other) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := o.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// shared runs a test on both strategies that work across processes.
func shared(t *testing.T, test func(t *testing.T, w *world, redisURL string)) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, inPostgres(t), "")
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		w, url := inRedis(t)
		test(t, w, url)
	})
}

// When a process is killed, its node comes back as the lease lapses, with a higher fence.
func TestTheNodeOfAKilledProcessComesBack(t *testing.T) {
	t.Parallel()
	shared(t, func(t *testing.T, w *world, redisURL string) {
		s := quick()
		s.Cooldown = 0
		locktest.Within(t, childTTL+time.Second, "the way of a killed process's node to the next", func() time.Duration {
			holder := spawn(t, w.db.Config().ConnString(), redisURL)
			p := w.openOn(w.db, w.locker(lock.DefaultSettings()), s, member{"alice", newNode("a", 1000*sat), 1})
			defer p.Close()
			next := p.leased(pool.Need{})
			killed := time.Now()
			holder.signal(t, os.Kill)
			lease := got(t, "the node", next)
			took := time.Since(killed)
			if lease.Fence() <= holder.fence {
				t.Errorf("fence %d after %d", lease.Fence(), holder.fence)
			}
			release(t, lease, pool.Done(0))
			return took
		})
	})
}

// A process that was stopped for longer than its lease lasts learns of the loss from the lease's context and at the
// release. That release frees nobody else's lease (spec 05.34: "Release without an owner check frees the next holder").
func TestALateReleaseDoesNotFreeTheNextHolder(t *testing.T) {
	t.Parallel()
	shared(t, func(t *testing.T, w *world, redisURL string) {
		late := spawn(t, w.db.Config().ConnString(), redisURL)
		alice := newNode("a", 1000*sat)
		p := w.open(quick(), member{"alice", alice, 1})
		next := p.leased(pool.Need{})
		late.signal(t, syscall.SIGSTOP)
		lease := got(t, "the node", next)
		late.signal(t, syscall.SIGCONT)
		if line := late.line(t); line != "over true" {
			t.Errorf("the late one says %q", line)
		}
		if _, err := io.WriteString(late.in, "\n"); err != nil {
			t.Fatal(err)
		}
		if line := late.line(t); line != "released true" {
			t.Errorf("the late one says %q", line)
		}
		third := w.open(briefly(), member{"alice", alice, 1})
		third.none(pool.Need{}, pool.Busy)
		if lease.Context().Err() != nil || p.health()["alice"].CoolingUntil != (time.Time{}) {
			t.Errorf("the next holder's lease: %v, %+v", context.Cause(lease.Context()), p.health()["alice"])
		}
		release(t, lease, pool.ReceiverFault())
	})
}
