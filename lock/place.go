package lock

import (
	"container/list"
	"context"
)

// Place is a place among the calls of this process for one key. It is taken before it is known whether the lock will be wanted
// at all: whoever finds out first what they need does not lose their turn over it. Acquire comes to the store after every place
// that was taken before it, so a place must be left as soon as the lock is not wanted; the others wait for it. It is for one
// goroutine.
type Place struct {
	locker *Locker
	key    string // normalised; as it was given if it is bad
	bad    error  // what is wrong with it

	turn chan struct{} // closed when nobody is before it
	at   *list.Element // in the line of the key, for as long as it is there
	used bool          // or left; guarded by the Locker's mu, as the line
}

// Queue takes a place for the key, at once and without a message to the store. It must be left or used:
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

// claim is a place that is used at once.
func (l *Locker) claim(key string) *Place {
	p := l.Queue(key)
	p.use()
	return p
}

// Acquire is [Locker.Acquire] with this place. It uses the place up, with or without success: again, or after Leave, it takes a
// new one at the end.
func (p *Place) Acquire(ctx context.Context, options Options) (*Lease, error) {
	if !p.use() {
		p = p.locker.claim(p.key)
	}
	return p.locker.acquire(ctx, p, options, true)
}

// Leave gives the place up. Once Acquire has begun, or Leave was called before, it does nothing.
func (p *Place) Leave() {
	if p.use() {
		p.depart()
	}
}

// use says whether the place could still be used; from then on it cannot.
func (p *Place) use() bool {
	p.locker.mu.Lock()
	defer p.locker.mu.Unlock()
	unused := p.at != nil && !p.used
	p.used = true
	return unused
}

// depart makes room for the next in line.
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

// reach waits until nobody is before the place. Who does not want to wait does not do so for those either who do not know yet
// whether they want the lock.
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
		return context.Cause(ctx)
	}
	return nil
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
