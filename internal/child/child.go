// Package child runs the servers of a development stack, and ensures that none of them outlives the process that
// started it.
//
// It deals with three dangers for all of them:
//   - The parent is killed with SIGKILL and cannot clean up. On Linux the kernel then signals the child itself. Elsewhere
//     nothing can be done, and the next start finds the directory still claimed (see [Claim]) and says so.
//   - Ctrl-C in a terminal goes to every process of the foreground group at once. If a database stops before the service
//     that uses it, the service reports a failure that was none. So each child has its own group, and only its parent
//     signals it.
//   - A child ignores the polite signal. After a grace time it is killed with its whole group.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Command says what to start and how to end it.
type Command struct {
	Name string   // what messages and errors call it
	Path string   // the program, absolute or found on PATH
	Args []string // without the program's name
	Env  []string // the whole environment; nil is the parent's
	Dir  string   // working directory; empty is the parent's

	// Log is the file that standard output and error are appended to; empty means the parent's own.
	Log string

	// User is the user that the program runs as; nil is the parent's.
	User *User

	// Interrupt asks the program to end (default SIGTERM). Orphaned is what the kernel sends it when the parent is gone
	// (default SIGKILL, the one signal that cannot take long).
	Interrupt, Orphaned syscall.Signal

	// WholeGroup sends Interrupt to the program's children too, as a terminal does, and kills those that outlive it. It
	// is for programs like "go test", which let the programs that they run react. Servers that manage their own
	// children must not have it.
	WholeGroup bool

	// Holds is a directory that stays claimed while the program lives, even if the parent is dead.
	Holds *Claim
}

// Process is a started child. Its methods may be called from any goroutine, more than once, and after its end.
type Process struct {
	command Command
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // set before done is closed
}

// Start starts the program and returns at once. The error is the system's: no such program, no permission.
func Start(c Command) (*Process, error) {
	if c.Interrupt == 0 {
		c.Interrupt = syscall.SIGTERM
	}
	if c.Orphaned == 0 {
		c.Orphaned = syscall.SIGKILL
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir = c.Env, c.Dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.User != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID}
	}
	if c.Holds != nil {
		cmd.ExtraFiles = []*os.File{c.Holds.file}
	}
	dieWithParent(cmd.SysProcAttr, c.Orphaned)

	if c.Log != "" {
		log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", c.Name, err)
		}
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log
	}

	p := &Process{command: c, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// run starts the child and waits for its end, on a thread that does nothing else: the kernel's "parent died" really
// means "the thread that forked died", and Go ends idle threads at will.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	if err := p.cmd.Wait(); err != nil {
		p.err = &ExitError{Name: p.command.Name, Log: p.command.Log, Err: err}
	}
	if p.command.WholeGroup {
		// The number cannot belong to others while the group has members, nor this soon if it has none.
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	}
	close(p.done)
}

// PID is the process id; it is valid until Exited is closed.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the program has ended, for whatever reason.
func (p *Process) Exited() <-chan struct{} { return p.done }

// Err is nil while the program runs and after it ended with code 0, and an [*ExitError] otherwise.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends one signal to the program. It is no error if the program has ended already.
func (p *Process) Signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop asks the program to end, waits for at most grace, then kills it and its group. The program is gone when Stop
// returns. It reports false if the program had to be killed.
func (p *Process) Stop(grace time.Duration) (polite bool) {
	if p.command.WholeGroup {
		p.signalGroup(p.command.Interrupt)
	} else {
		_ = p.Signal(p.command.Interrupt)
	}
	return p.await(grace)
}

// await waits for the end that was asked for, and kills if it does not come.
func (p *Process) await(grace time.Duration) (polite bool) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		p.Kill()
		return false
	}
}

// Kill ends the program and its group with SIGKILL, and returns when it is gone: a test's death of the machine.
func (p *Process) Kill() {
	p.signalGroup(syscall.SIGKILL)
	<-p.done
}

// KillTree is Kill for a program whose children leave its group, as those of PostgreSQL do. Grandchildren are left to
// notice.
func (p *Process) KillTree() {
	select {
	case <-p.done:
		return // its number may belong to another process
	default:
	}
	_ = p.Signal(syscall.SIGSTOP) // so that it starts no more children
	children := childrenOf(p.PID())
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.Kill()
	for _, pid := range children {
		awaitEnd(pid)
	}
}

func (p *Process) signalGroup(s syscall.Signal) {
	// A group may outlive its leader, but then its number may some day belong to another process. It is ours as long as
	// the child has not been waited for.
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.PID(), s)
	}
}

// ExitError is the unsuccessful end of a program.
type ExitError struct {
	Name string // of the program
	Log  string // its log file, if it had one
	Err  error  // usually an *exec.ExitError
}

func (e *ExitError) Error() string {
	if tail := logTail(e.Log); tail != "" {
		return fmt.Sprintf("%s ended: %v; the end of %s:\n%s", e.Name, e.Err, e.Log, tail)
	}
	return fmt.Sprintf("%s ended: %v", e.Name, e.Err)
}

func (e *ExitError) Unwrap() error { return e.Err }
