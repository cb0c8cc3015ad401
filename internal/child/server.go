package child

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// Server is a program that is started and stopped again and again. It distinguishes a requested end from any other. Its
// methods may be called from any goroutine.
type Server struct {
	command Command
	died    chan error

	mutex   sync.Mutex
	process *Process
	wanted  bool // it was started, was not asked to end, and has not ended by itself
	life    context.Context
}

// NewServer prepares a server; nothing runs yet.
func NewServer(command Command) *Server { return &Server{command: command, died: make(chan error, 1)} }

// ErrEnded is wrapped in the error of a server that ended with code 0 without being asked to.
var ErrEnded = errors.New("it ended by itself")

// Start starts the program unless it is running.
func (s *Server) Start() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.wanted {
		return nil
	}
	process, err := Start(s.command)
	if err != nil {
		return err
	}
	life, end := context.WithCancelCause(context.Background())
	s.process, s.wanted, s.life = process, true, life
	go func() {
		<-process.Exited()
		err := process.Err()
		if err == nil {
			err = &ExitError{Name: s.command.Name, Log: s.command.Log, Err: ErrEnded}
		}
		end(err)
		s.mutex.Lock()
		unasked := s.wanted && s.process == process
		if unasked {
			s.wanted = false // so that Start starts it again
		}
		s.mutex.Unlock()
		if unasked {
			select {
			case s.died <- err:
			default: // only the first death is reported
			}
		}
	}()
	return nil
}

// Died receives the reason when the program ends without Stop or Kill.
func (s *Server) Died() <-chan error { return s.died }

// Running reports whether the program was started and has not ended since.
func (s *Server) Running() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.wanted
}

// WhileAlive is a context that also ends when the program does, with the reason as its cause, so that nobody waits for
// a server that is gone. The caller calls release when it no longer needs the context. The program must have been
// started.
func (s *Server) WhileAlive(ctx context.Context) (alive context.Context, release func()) {
	s.mutex.Lock()
	life := s.life
	s.mutex.Unlock()
	alive, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return alive, func() { stop(); cancel(nil) }
}

// readyEvery is how long AwaitReady waits between two tries: each costs PostgreSQL, while it recovers, a process.
const readyEvery = 40 * time.Millisecond

// AwaitReady returns once ready returns nil. It gives up after patience, or at once when the program or ctx ends. The
// program must have been started.
func (s *Server) AwaitReady(ctx context.Context, patience time.Duration, ready func(ctx context.Context) error) error {
	ctx, release := s.WhileAlive(ctx)
	defer release()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(readyEvery)
	defer again.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (log: %s): %w (last answer: %w)", s.command.Name, s.command.Log, context.Cause(ctx), err)
		case <-again.C:
		}
	}
}

// Stop asks the program to end, waits for at most grace, then kills it. Nothing runs any more when it returns.
func (s *Server) Stop(grace time.Duration) {
	if process := s.unwant(); process != nil {
		process.Stop(grace)
	}
}

// Kill ends the program with SIGKILL, as a power failure would. Nothing runs any more when it returns.
func (s *Server) Kill() {
	if process := s.unwant(); process != nil {
		process.Kill()
	}
}

// KillTree ends the program and its children with SIGKILL, even those with their own group. None of them runs any more
// when it returns. On systems other than Linux it is Kill, and the children are left to notice.
func (s *Server) KillTree() {
	if process := s.unwant(); process != nil {
		process.KillTree()
	}
}

// Signal sends a signal that is meant to end the program, and waits for at most grace before it kills.
func (s *Server) Signal(signal syscall.Signal, grace time.Duration) {
	if process := s.unwant(); process != nil {
		_ = process.Signal(signal)
		process.await(grace)
	}
}

func (s *Server) unwant() *Process {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.wanted = false
	return s.process
}

// PID is the process id of the program, which must have been started. It is valid while the program runs.
func (s *Server) PID() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.process.PID()
}
