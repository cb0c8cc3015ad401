package devnet

import (
	"context"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// server is a program of the network that can be started, stopped and killed again and again.
type server struct {
	command child.Command
	died    chan<- error // hears of an end that nobody asked for

	mutex   sync.Mutex
	process *child.Process
	wanted  bool // to run
	life    context.Context
}

// stopGrace is how long LND may take to write its state; it needs about a second.
const stopGrace = 20 * time.Second

func (s *server) start() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.wanted {
		return nil
	}
	process, err := child.Start(s.command)
	if err != nil {
		return err
	}
	life, end := context.WithCancelCause(context.Background())
	s.process, s.wanted, s.life = process, true, life
	go func() {
		<-process.Exited()
		err := process.Err()
		if err == nil {
			err = &child.ExitError{Name: s.command.Name, Log: s.command.Log, Err: errEndedBySelf}
		}
		end(err)
		s.mutex.Lock()
		unasked := s.wanted && s.process == process
		s.mutex.Unlock()
		if unasked {
			select {
			case s.died <- err:
			default: // the first death is the one to tell of
			}
		}
	}()
	return nil
}

// end makes the server stop wanting to run, and returns what still runs, if anything.
func (s *server) end() *child.Process {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.wanted = false
	return s.process
}

func (s *server) stop() {
	if process := s.end(); process != nil {
		process.Stop(stopGrace)
	}
}

func (s *server) kill() {
	if process := s.end(); process != nil {
		process.Kill()
	}
}

func (s *server) running() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.wanted
}

// whileAlive is a context that ends with the reason when the server does, so that nobody waits for one that is gone.
func (s *server) whileAlive(ctx context.Context) (context.Context, func()) {
	s.mutex.Lock()
	life := s.life
	s.mutex.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() { release(); cancel(nil) }
}
