package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// timerSlack is by how much later than asked for the kernel may wake up a thread of the service that sleeps.
	timerSlack = 2 * time.Millisecond
	// usualSlack is what Linux gives to whoever asks for nothing.
	usualSlack = 50 * time.Microsecond
	// slackened says in the environment that the program has begun anew for it.
	slackened = "HOLDFAST_SLACKENED"
)

// slacken has the threads of this process sleep longer, where nobody else has set for how long they may.
//
// While requests come, Go's runtime watches over its threads by one that sleeps for 20 µs at a time. With the usual slack of Linux this took a tenth to a fourth of the
// service's processor time (docs/performance.md, step 55). The slack is the threads' own; they get it from whoever begins them, and Go begins that one before main:
// so the program begins anew, once, in the same process, and returns only where that is not to be or cannot be. All that sleeps in the service may do so for as much longer:
// timers, and the 3 µs for which a thread waits before it takes another one's next goroutine. Neither was seen in how long requests take.
func slacken() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Getenv(slackened) != "" || slack() != usualSlack {
		_ = os.Unsetenv(slackened) // it is read: among the settings it would be unknown
		return
	}
	if _, _, refused := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, uintptr(timerSlack), 0); refused != 0 {
		return
	}
	if program, err := os.Executable(); err == nil {
		_ = syscall.Exec(program, os.Args, append(os.Environ(), slackened+"=1")) // it returns if it cannot, and all goes on as ever
	}
}

// slack is that of the calling thread; below zero: not known.
func slack() time.Duration {
	ns, _, refused := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_GET_TIMERSLACK, 0, 0)
	if refused != 0 {
		return -1
	}
	return time.Duration(ns)
}
