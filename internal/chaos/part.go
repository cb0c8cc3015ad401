package chaos

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// part is something that runs as one or several processes, is killed, and is started again: on the killer's order, or,
// as by any supervisor, because it has ended by itself.
type part struct {
	name  string
	class class

	kill  func()                      // SIGKILL; returns when nothing of it runs
	start func(context.Context) error // starts it unless it runs
	runs  func() bool

	serves func(context.Context) error // asks once whether it serves
	// bounded says that it must serve again within limit. The service can do without the others.
	bounded bool
	// patience is how long it may run without serving before it is killed as hung; 0: no limit.
	patience time.Duration
	// needs are the parts without which it cannot serve: one of each group must run.
	needs [][]*part

	blows chan time.Duration // orders to kill it, with how long it stays down; received while the part runs
	idle  chan struct{}      // received while the part runs

	mu    sync.Mutex
	begun time.Time // the start after the last kill; zero while it is down
	kills int
	ended int // how often it ended without being killed
	times []time.Duration
}

// respawn is how long a supervisor waits before it restarts what has ended by itself.
const respawn = 100 * time.Millisecond

var errDown = errors.New("it does not run")

// strike kills the part, unless it is down or starting.
func (p *part) strike(pause time.Duration) bool {
	select {
	case p.blows <- pause:
		return true
	default:
		return false
	}
}

// awaitIdle returns when the part runs and serves.
func (p *part) awaitIdle(ctx context.Context) error {
	select {
	case p.idle <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// live starts the part and keeps it running until the context ends.
func (p *part) live(ctx context.Context) {
	p.revive(ctx)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.idle:
		case pause := <-p.blows:
			p.down()
			p.kill()
			if wait(ctx, pause) != nil {
				return
			}
			took := p.revive(ctx)
			p.mu.Lock()
			p.times = append(p.times, took)
			p.mu.Unlock()
		case <-look.C:
			if !p.runs() {
				p.endedByItself()
				p.revive(ctx)
			}
		}
	}
}

// revive starts the part, again and again if it ends, until it serves. It returns the longest time during which it had
// everything that it needs, and did not serve. That time counts from its own start or from the start of the last part
// that it needs.
func (p *part) revive(ctx context.Context) (longest time.Duration) {
	p.up()
	started := time.Now()
	for first := true; ; first = false {
		if !p.runs() {
			if !first {
				p.endedByItself()
				_ = wait(ctx, respawn)
				started = time.Now()
			}
			_ = p.start(ctx) // the outcome is seen below
		}
		err := p.serving(ctx)
		if since, all := p.complete(); all {
			longest = max(longest, time.Since(since))
		}
		if err == nil || wait(ctx, 20*time.Millisecond) != nil {
			return longest
		}
		if p.patience > 0 && time.Since(started) > p.patience {
			p.kill()
		}
	}
}

func (p *part) serving(ctx context.Context) error {
	if !p.runs() {
		return errDown
	}
	return p.serves(ctx)
}

// complete returns since when the part and everything that it needs have run; false if they do not.
func (p *part) complete() (last time.Time, all bool) {
	for _, group := range slices.Concat(p.needs, [][]*part{{p}}) {
		var first time.Time
		for _, p := range group {
			p.mu.Lock()
			begun := p.begun
			p.mu.Unlock()
			if !begun.IsZero() && (first.IsZero() || begun.Before(first)) {
				first = begun
			}
		}
		if first.IsZero() {
			return last, false
		}
		if first.After(last) {
			last = first
		}
	}
	return last, true
}

func (p *part) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = time.Time{}
	p.kills++
}

// up records a start after a kill. A part that ended by itself does not count as down for those who need it: the delay
// is its own fault.
func (p *part) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
}

func (p *part) endedByItself() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
}
