// Package places gives each of many askers so many places at a time. Whoever asks for more waits behind their own
// requests, and not in the way of others.
package places

import (
	"context"
	"sync"
)

// Shares has as many places for each asker. It remembers only those who hold a place or wait.
type Shares struct {
	each int

	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	places chan struct{} // a token for each that is taken
	users  int           // who hold one or wait
}

// New makes Shares of so many places for each asker.
func New(each int) *Shares { return &Shares{each: each, lines: map[string]*line{}} }

// Take waits for one of an asker's places, which give gives back. First come, first served. Before it waits it calls
// wait, if that is not nil, which returns once still is false or ctx has ended: so a simulation decides itself who goes
// on. An error means that ctx ended before.
func (s *Shares) Take(ctx context.Context, asker string, wait func(ctx context.Context, still func() bool)) (give func(), err error) {
	l := s.join(asker)
	give = func() {
		<-l.places
		s.leave(asker, l)
	}
	select {
	case l.places <- struct{}{}:
		return give, nil
	default:
	}
	if wait != nil {
		wait(ctx, func() bool { return len(l.places) == cap(l.places) })
	}
	select {
	case l.places <- struct{}{}:
		return give, nil
	case <-ctx.Done():
		s.leave(asker, l)
		return nil, context.Cause(ctx)
	}
}

func (s *Shares) join(asker string) *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[asker]
	if l == nil {
		l = &line{places: make(chan struct{}, s.each)}
		s.lines[asker] = l
	}
	l.users++
	return l
}

func (s *Shares) leave(asker string, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.lines, asker)
	}
}
