package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// timerSlack is how much later than asked for the kernel may wake a sleeping thread of the service.
	timerSlack = 2 * time.Millisecond
	// usualSlack is Linux's default.
	usualSlack = 50 * time.Microsecond
	// slackened marks, in the environment, that the program has been re-executed for this.
	slackened = "HOLDFAST_SLACKENED"
)

// slacken raises the timer slack of this process's threads, unless somebody has set it already.
//
// While requests come, Go's runtime watches its threads from a thread that sleeps 20 µs at a time. With Linux's default
// slack this took a tenth to a quarter of the service's processor time (docs/performance.md, step 55). Slack belongs to
// a thread and is inherited from its creator, and Go starts that thread before main. So the program executes itself
// anew, once, in the same process. slacken returns only if this has been done, is not wanted, or fails. Everything in
// the service that sleeps may then sleep that much longer: timers, and the 3 µs for which a thread waits before it
// takes another's next goroutine. Neither had a visible effect on how long requests take.
func slacken() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Getenv(slackened) != "" || slack() != usualSlack {
		_ = os.Unsetenv(slackened) // it has been read; as a setting it would be unknown
		return
	}
	if _, _, refused := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, uintptr(timerSlack), 0); refused != 0 {
		return
	}
	if program, err := os.Executable(); err == nil {
		_ = syscall.Exec(program, os.Args, append(os.Environ(), slackened+"=1")) // returns only on failure, and everything goes on as before
	}
}

// slack is the calling thread's slack; negative: unknown.
func slack() time.Duration {
	ns, _, refused := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_GET_TIMERSLACK, 0, 0)
	if refused != 0 {
		return -1
	}
	return time.Duration(ns)
}
