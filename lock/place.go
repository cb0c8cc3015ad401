package lock

import (
	"container/list"
	"context"
	"errors"
	"fmt"
)

// Place is a place in line among this process's calls for one key. Take it before you know whether you need the lock at
// all: then finding that out does not cost you your turn. Acquire reaches the store only after every earlier place was
// used or left, so leave the place as soon as you do not want the lock; the others wait for it. It is for one
// goroutine.
type Place struct {
	locker *Locker
	key    string // normalised; unchanged if it is bad
	bad    error  // what is wrong with the key

	turn chan struct{} // closed when nobody is ahead of it
	at   *list.Element // in the line of the key, while it is there
	used bool          // or left; guarded by the Locker's mu, as the line and hushed are

	hushed bool // while it waited, the store did not answer somebody ahead of it
}

// Queue takes a place for the key, at once and without asking the store. It must be left or used:
//
//	place := locker.Queue(key)
//	defer place.Leave()
func (l *Locker) Queue(key string) *Place {
	normal, err := Normalise(key)
	if err != nil {
		return &Place{locker: l, key: key, bad: err}
	}
	p := &Place{locker: l, key: normal, turn: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[p.key]
	if line == nil {
		line = list.New()
		l.lines[p.key] = line
	}
	if p.at = line.PushBack(p); line.Len() == 1 {
		close(p.turn)
	}
	return p
}

// claim takes a place and uses it at once.
func (l *Locker) claim(key string) *Place {
	p := l.Queue(key)
	p.use()
	return p
}

// Acquire is [Locker.Acquire] with this place, and uses it up, with or without success. A second call, or one after
// Leave, takes a new place at the end.
func (p *Place) Acquire(ctx context.Context, options Options) (*Lease, error) {
	if !p.use() {
		p = p.locker.claim(p.key)
	}
	return p.locker.acquire(ctx, p, options, true)
}

// Leave gives the place up. Once Acquire has begun, or after an earlier Leave, it does nothing.
func (p *Place) Leave() {
	if p.use() {
		p.depart()
	}
}

// use reports whether the place could still be used, and marks it used.
func (p *Place) use() bool {
	p.locker.mu.Lock()
	defer p.locker.mu.Unlock()
	unused := p.at != nil && !p.used
	p.used = true
	return unused
}

// depart leaves the line, so that the next can move up.
func (p *Place) depart() {
	l := p.locker
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[p.key]
	first := line.Front() == p.at
	line.Remove(p.at)
	switch next := line.Front(); {
	case next == nil:
		delete(l.lines, p.key)
	case first:
		close(next.Value.(*Place).turn)
	}
}

var errSilent = errors.New("the store did not answer somebody ahead in the line")

// hush notes that the first in the line of a key has waited in vain for the store to answer. Those who wait behind
// would ask it one after the other: if each had to find this out, they would wait for the sum of it.
func (l *Locker) hush(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := l.lines[key].Front(); at != nil; at = at.Next() {
		p := at.Value.(*Place)
		p.hushed = p.used
	}
}

// reach waits until nobody is ahead of the place. A caller that does not want to wait gets ErrBusy if a place ahead is
// still undecided.
func (p *Place) reach(ctx context.Context, wait bool) error {
	if !wait && p.behindUnsure() {
		return ErrBusy
	}
	select {
	case <-p.turn:
	case <-p.locker.stopped:
		return ErrClosed
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	return nil
}

// gaveUp is why a wait has ended with its context. If that had a deadline the wait was too long, whoever set it: a caller
// that has done much before may have less time left than the longest wait.
func gaveUp(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(cause, ErrTimeout) {
		return fmt.Errorf("%w: %w", ErrTimeout, cause)
	}
	return cause
}

func (p *Place) behindUnsure() bool {
	p.locker.mu.Lock()
	defer p.locker.mu.Unlock()
	for before := p.at.Prev(); before != nil; before = before.Prev() {
		if !before.Value.(*Place).used {
			return true
		}
	}
	return false
}
