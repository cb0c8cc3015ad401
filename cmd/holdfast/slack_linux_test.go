package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// tellsSlack makes this program do what main does first, report its slack, and end. Its value is the initial slack of
// the process in nanoseconds.
const tellsSlack = "HOLDFAST_TEST_SLACK"

func init() {
	before, err := strconv.Atoi(os.Getenv(tellsSlack))
	if err != nil {
		return
	}
	if os.Getenv(slackened) == "" {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, uintptr(before), 0)
	}
	slacken()
	fmt.Println(os.Getpid(), slack(), slackElsewhere(), os.Args[1:], len(os.Getenv(slackened)))
	os.Exit(0)
}

// slackElsewhere is the slack of a thread that the runtime has started.
func slackElsewhere() string {
	told := make(chan string)
	go func() { // this goroutine keeps the thread that it is on: the other one has another
		runtime.LockOSThread()
		told <- slack().String()
	}()
	return <-told
}

// The service executes itself anew in its own process and keeps no variable of that, and the threads that the runtime
// starts have the slack as well. This happens once at most, and not where somebody else has set the slack.
func TestSlacken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"as it is started":              {[]string{tellsSlack + "=50000"}, "2ms 2ms [serve --json] 0"},
		"it has begun anew before":      {[]string{tellsSlack + "=50000", slackened + "=1"}, slack().String()},
		"somebody else has set a slack": {[]string{tellsSlack + "=77000"}, "77µs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			cmd := exec.Command(os.Args[0], "serve", "--json")
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), c.env...), &out, &out
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			if want := fmt.Sprint(cmd.Process.Pid, " ", c.want); !strings.HasPrefix(out.String(), want) {
				t.Errorf("it is %q, not %q", out.String(), want)
			}
		})
	}
}
