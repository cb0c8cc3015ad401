package locktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// childVariable makes the test's program another process that obeys commands instead of running tests. Its value is
// that process's heartbeat.
const childVariable = "HOLDFAST_LOCKTEST_CHILD"

// guardedVariable is the variable with the database of guarded writes.
const guardedVariable = "HOLDFAST_LOCKTEST_GUARDED"

// Main runs the child process, with the store that open makes, if this process is one; then it does not return. A
// package's TestMain calls it first.
func Main(open func() (lock.Store, error)) {
	if os.Getenv(childVariable) == "" {
		return
	}
	if err := obey(open, os.Stdin, os.Stdout); err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// obey carries out commands, one on each line, each in the background:
//
//	acquire NAME KEY TTL  →  held NAME FENCE
//	turn NAME KEY         →  held NAME FENCE, and released at once
//	release NAME          →  released NAME
//	write NAME ID         →  wrote NAME ROWS: a write guarded by the lease's fence
//	count KEY FILE N      →  counted: N times read, add one, write
//
// An error is answered with "failed" and ends nothing.
func obey(open func() (lock.Store, error), in io.Reader, out io.Writer) error {
	store, err := open()
	if err != nil {
		return err
	}
	settings := Patient
	if settings.Heartbeat, err = time.ParseDuration(os.Getenv(childVariable)); err != nil {
		return err
	}
	l, err := lock.New(store, settings)
	if err != nil {
		return err
	}
	defer l.Close()
	var mu sync.Mutex
	leases := map[string]*lock.Lease{}
	answer := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, words...)
	}
	lease := func(name string) *lock.Lease {
		mu.Lock()
		defer mu.Unlock()
		return leases[name]
	}
	do := func(words []string) error {
		ctx := context.Background()
		switch words[0] {
		case "acquire", "turn":
			options := lock.Options{MaxWait: lock.Unlimited}
			if words[0] == "acquire" {
				if options.TTL, err = time.ParseDuration(words[3]); err != nil {
					return err
				}
			}
			got, err := l.Acquire(ctx, words[2], options)
			if err != nil {
				return err
			}
			mu.Lock()
			leases[words[1]] = got
			mu.Unlock()
			answer("held", words[1], got.Fence())
			if words[0] == "turn" {
				return got.Release(ctx)
			}
		case "release":
			if err := lease(words[1]).Release(ctx); err != nil {
				return err
			}
			answer("released", words[1])
		case "write":
			rows, err := guardedWrite(ctx, os.Getenv(guardedVariable), words[2], lease(words[1]).Fence())
			if err != nil {
				return err
			}
			answer("wrote", words[1], rows)
		case "count":
			n, err := strconv.Atoi(words[3])
			if err != nil {
				return err
			}
			for range n {
				err := l.Do(ctx, words[1], lock.Options{MaxWait: lock.Unlimited}, func(context.Context, *lock.Lease) error { return addOne(words[2]) })
				if err != nil {
					return err
				}
			}
			answer("counted")
		}
		return nil
	}
	answer("ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		words := strings.Fields(lines.Text())
		go func() {
			if err := do(words); err != nil {
				answer("failed", words, err)
			}
		}()
	}
	return nil
}

// addOne has the seed's race: it reads a number, adds one, and writes it.
func addOne(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

// guardedWrite is a holder's write, which is refused if a higher fence was here before.
func guardedWrite(ctx context.Context, dsn, id string, fence int64) (rows int64, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	tag, err := conn.Exec(ctx, "UPDATE guarded SET fence = $2, writes = writes + 1 WHERE id = $1 AND fence <= $2", id, fence)
	return tag.RowsAffected(), err
}

// process is another process.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan []string
}

func (s *suite) spawn(t *testing.T, heartbeat time.Duration) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), s.Child...), childVariable+"="+heartbeat.String(), guardedVariable+"="+s.Guarded.Config().ConnString())
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, in: in, answers: make(chan []string, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.answers <- strings.Fields(lines.Text())
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
	p.expect(t, "ready")
	return p
}

func (p *process) tell(t *testing.T, words ...any) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, words...); err != nil {
		t.Fatal(err)
	}
}

// expect waits for an answer that begins with these words, and returns the rest of it.
func (p *process) expect(t *testing.T, words ...string) []string {
	t.Helper()
	got := Wait(t, strings.Join(words, " "), p.answers)
	if len(got) < len(words) || strings.Join(got[:len(words)], " ") != strings.Join(words, " ") {
		t.Fatalf("another process said %v, expected %v", got, words)
	}
	return got[len(words):]
}
