package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// fiber is one piece of work of a process: a request, a job, a sweep. Exactly one fiber of a world runs at a time. The
// others are parked at a yield point, or set aside while PostgreSQL makes them wait for a lock that a parked one holds.
type fiber struct {
	name    string // independent of the rest of the schedule
	world   *world
	process *process
	action  int64 // the action that it works for; 0: none in particular
	ctx     context.Context
	cancel  context.CancelFunc
	wake    chan struct{}

	turn    int // counts its parks: a wake-up for an earlier park is void
	seen    int // yield points passed so far
	looks   int // at the clock
	stalled bool
	atClock bool          // stalled with the time in its hand
	since   time.Duration // when it began to stall
	over    bool          // its time is up, and its context has ended
	lingers bool          // it often stands still once a node has told it of a payment
	ahead   time.Duration // by how much its clock was ahead of the tick when a deadline was last counted from it
	claimed bool          // it has claimed a payment, and not sent it yet
	ended   bool
	asking  atomic.Int32 // the backend that works for it; 0: none
	aside   atomic.Bool
	blocked int32 // its backend, stopped while it is set aside

	wire   *wire
	pg     *pgconn.PgConn
	doing  string   // the current statement
	tx     *written // what the open transaction has written
	faults []Fault  // faults that it met since its last step

	label string      // the plan's act that it belongs to
	still func() bool // parked until this is false; nil: until a time
}

// news is what became of a fiber that ran.
type news struct {
	fiber *fiber
	kind  newsKind
	at    time.Duration // when it is to continue
}

type newsKind int

const (
	parked newsKind = iota
	finished
)

type fiberKey struct{}

func fiberOf(ctx context.Context) *fiber {
	f, _ := ctx.Value(fiberKey{}).(*fiber)
	return f
}

// The errors that a fiber gets whose process is dead, or whose time is up.
var (
	errDead = errors.New("the process is dead")
	errOver = context.DeadlineExceeded
)

// spawn begins a piece of work. limit is how long it may take; 0: no limit.
func (w *world) spawn(p *process, name, label string, action int64, limit time.Duration, do func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(w.ctx)
	f := &fiber{name: name, label: label, world: w, process: p, action: action, wake: make(chan struct{}), cancel: cancel}
	f.ctx = context.WithValue(ctx, fiberKey{}, f)
	w.fibers = append(w.fibers, f)
	if p.stopping {
		f.over = true
		cancel()
	}
	w.group.Go(func() {
		<-f.wake
		defer func() {
			if v := recover(); v != nil && !f.dead() {
				w.violate("panic", "%s: %v\n%s", f.name, v, debug.Stack())
			}
			cancel()
			f.tidy()
			f.send(news{fiber: f, kind: finished})
		}()
		do(f.ctx)
	})
	if limit > 0 {
		w.queue.add(w.tick+limit, func() { w.timeIsUp(f) })
	}
	w.resume(f)
}

// timeIsUp ends a fiber's context. A fiber that waits for a node or a lock continues at once; one in the middle of a
// commit may finish it.
func (w *world) timeIsUp(f *fiber) {
	if f.ended || f.over {
		return
	}
	f.over = true
	if slices.Contains(w.asides, f) {
		w.breakOff(f)
		f.cancel()
		return
	}
	if f.stalled {
		return // it learns of this when it continues
	}
	f.cancel()
	if f.still != nil {
		w.resume(f)
	}
}

// resume lets a fiber run until it parks, ends, or waits for a lock.
func (w *world) resume(f *fiber) {
	if f.ended {
		return
	}
	f.turn++
	f.still = nil
	if f.stalled && f.over {
		f.cancel()
	}
	w.running = f
	f.wake <- struct{}{}
	w.await(f)
	w.running = nil
}

// patience is how long a fiber may stay away before PostgreSQL is asked whether it waits for a lock.
const patience = 5 * time.Millisecond

// hung is how long, in real time, a fiber or PostgreSQL may take before it counts as hung, however busy the machine is.
const hung = 3 * time.Minute

func (w *world) await(f *fiber) {
	limit := time.NewTimer(hung)
	defer limit.Stop()
	wait := patience
	for {
		timer := time.NewTimer(wait)
		select {
		case n := <-w.news:
			timer.Stop()
			w.note(n)
			return
		case <-timer.C:
			wait = min(2*wait, 100*time.Millisecond)
			pid := f.asking.Load()
			if pid == 0 {
				continue
			}
			waiting, err := w.database.waiting(w.ctx, []int32{pid})
			if err != nil {
				panic(fmt.Errorf("look for locks: %w", err))
			}
			if waiting[pid] && asleep(pid) && f.aside.CompareAndSwap(false, true) {
				w.setAside(f, pid)
				return
			}
		case <-limit.C:
			panic(fmt.Sprintf("%s neither parks nor ends\n%s", f.name, atMutexes()))
		}
	}
}

// atMutexes are the stacks of all goroutines that wait for a Go mutex. Nobody may: whoever has it might be parked.
func atMutexes() string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var waiting []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		state, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(state, "[sync.Mutex.Lock") || strings.Contains(state, "[sync.RWMutex.") {
			waiting = append(waiting, stack)
		}
	}
	return strings.Join(waiting, "\n\n")
}

// note records what became of a fiber.
func (w *world) note(n news) {
	f := n.fiber
	switch n.kind {
	case parked:
		turn := f.turn
		if f.still == nil {
			w.queue.add(n.at, func() {
				if f.turn == turn {
					w.resume(f)
				}
			})
		}
	case finished:
		f.ended = true
		w.asides = slices.DeleteFunc(w.asides, func(other *fiber) bool { return other == f })
		w.fibers = slices.DeleteFunc(w.fibers, func(other *fiber) bool { return other == f })
		if f.action != 0 {
			w.touch(f.action, f.faults...)
		}
	}
}

// setAside stops the backend of a fiber that waits for a lock. PostgreSQL wakes all who wait for one transaction at
// once, and which of them is faster does not depend on the seed. Here they continue one after the other, in the order
// in which they came to wait.
func (w *world) setAside(f *fiber, pid int32) {
	f.blocked = pid
	halt(pid)
	w.asides = append(w.asides, f)
	w.freed.Store(true)
	w.tell(f, "waits for a lock")
	w.lookForDeadlock(f)
}

// halt and goOn stop and continue a backend. It must be asleep. One that is still about to wait, or looks for a
// deadlock, holds PostgreSQL's internal locks, and everybody else would wait for it. (Lab's deadlock_timeout keeps
// backends from looking for deadlocks.)
func halt(pid int32) { _ = syscall.Kill(int(pid), syscall.SIGSTOP) }
func goOn(pid int32) { _ = syscall.Kill(int(pid), syscall.SIGCONT) }

func asleep(pid int32) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := bytes.Cut(stat, []byte(") ")) // after the pid and the name
	return err == nil && ok && state[0] == 'S'
}

// welcome lets a fiber that has got its lock continue when it is its turn. It is called while nobody runs.
func (w *world) welcome(f *fiber) {
	w.asides = slices.DeleteFunc(w.asides, func(other *fiber) bool { return other == f })
	w.tell(f, "waits no more")
	turn := f.turn
	w.queue.add(w.tick+time.Microsecond, func() {
		if f.turn == turn {
			w.resume(f)
		}
	})
}

// settle lets those set aside continue whose locks are free by now, and waits until the others wait again.
func (w *world) settle() {
	// A lock becomes free only when a transaction ends.
	if !w.freed.Swap(false) && !w.onlyTheAsides() {
		return
	}
	for some := false; len(w.asides) > 0; some = true {
		waiting := w.whoWaits(w.asides)
		next := slices.IndexFunc(w.asides, func(f *fiber) bool { return !waiting[f.blocked] })
		switch {
		case next >= 0:
			w.letOn(w.asides[next])
		case some || w.queue.Len() > 0 && !w.onlyTheAsides():
			return
		default:
			panic(fmt.Sprintf("%d fibers wait for locks that nobody has", len(w.asides)))
		}
	}
}

// lookForDeadlock reports a violation if a fiber that has just begun to wait is waiting, through others, for itself.
func (w *world) lookForDeadlock(f *fiber) {
	blockers, err := w.database.blockers(w.ctx, pidsOf(w.asides))
	if err != nil {
		panic(fmt.Errorf("ask who is in the way: %w", err))
	}
	seen, from := map[int32]bool{}, []int32{f.blocked}
	for len(from) > 0 {
		next := blockers[from[0]]
		from = from[1:]
		for _, pid := range next {
			if !seen[pid] {
				seen[pid], from = true, append(from, pid)
			}
		}
	}
	if !seen[f.blocked] {
		return
	}
	for _, other := range w.asides {
		if seen[other.blocked] {
			w.violate("deadlock", "%s waits in %s, for others who wait for it", other.name, other.doing)
		}
	}
}

// letOn continues a fiber that has got a lock, until its statement is done or waits for the next lock.
func (w *world) letOn(f *fiber) {
	goOn(f.blocked)
	for begun := time.Now(); ; {
		select {
		case arrived := <-w.arrivals:
			w.welcome(arrived)
			if arrived == f {
				return
			}
		case <-time.After(200 * time.Microsecond):
			if w.whoWaits([]*fiber{f})[f.blocked] && asleep(f.blocked) {
				halt(f.blocked)
				w.lookForDeadlock(f)
				return
			}
			if time.Since(begun) > hung {
				panic(fmt.Sprintf("%s has got its lock, and never goes on", f.name))
			}
		}
	}
}

func (w *world) whoWaits(fibers []*fiber) map[int32]bool {
	waiting, err := w.database.waiting(w.ctx, pidsOf(fibers))
	if err != nil {
		panic(fmt.Errorf("look for locks: %w", err))
	}
	return waiting
}

func pidsOf(asides []*fiber) []int32 {
	pids := make([]int32, len(asides))
	for i, f := range asides {
		pids[i] = f.blocked
	}
	return pids
}

// onlyTheAsides reports whether every fiber waits for a lock.
func (w *world) onlyTheAsides() bool { return len(w.asides) == len(w.fibers) && len(w.late) == 0 }

// yield is a point where others may run and where something may go wrong. It returns the fault, if any; died if the
// process is dead.
func (f *fiber) yield(at place, what string) Fault {
	w := f.world
	f.tidy()
	if f.dead() {
		return died
	}
	f.seen++
	fault := w.chooseFault(f, at, what)
	delay := w.delay(f, at, what, fault)
	w.meet(f, at, what, fault)
	if fault == "" && len(w.asides) == 0 && w.queue.free(w.tick+delay) {
		w.moveTo(w.tick + delay)
		return ""
	}
	if fault == stalls {
		f.standStill(delay)
	} else {
		f.park(w.tick+delay, nil)
	}
	if f.dead() {
		return died
	}
	return fault
}

// standStill parks a fiber whose process does nothing for so long.
func (f *fiber) standStill(delay time.Duration) {
	w := f.world
	f.stalled, f.since = true, w.tick
	if f.tx != nil && f.wire != nil {
		w.endIdle(f, f.wire)
	}
	f.park(w.tick+delay, nil)
	f.stalled = false
}

// park gives up the turn until a moment, or while a condition holds.
func (f *fiber) park(until time.Duration, still func() bool) {
	f.still = still
	f.send(news{fiber: f, kind: parked, at: until})
	f.sleep()
}

// send tells the scheduler what became of the fiber. After the end of the world it returns at once.
func (f *fiber) send(n news) {
	select {
	case f.world.news <- n:
	case <-f.world.ctx.Done():
	}
}

func (f *fiber) sleep() {
	select {
	case <-f.wake:
	case <-f.world.ctx.Done():
	}
}

// dead reports whether the process, or the whole world, has ended.
func (f *fiber) dead() bool { return f.world.ctx.Err() != nil || f.process.dead }

// arrive is called when a fiber that was set aside has got its answer.
func (f *fiber) arrive() {
	if f.aside.CompareAndSwap(true, false) {
		select {
		case f.world.arrivals <- f:
		case <-f.world.ctx.Done():
		}
		f.sleep()
	}
}

// tidy ensures that PostgreSQL, too, has dropped a connection that was given up, with its locks.
func (f *fiber) tidy() {
	if f.wire != nil && f.pg.IsClosed() {
		_ = f.wire.Close()
		f.wire, f.pg, f.tx = nil, nil, nil
	}
}
