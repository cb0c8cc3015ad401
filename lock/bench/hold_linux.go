package main

import (
	"syscall"
	"time"
)

// nap sleeps for d, up to some tens of microseconds longer. It occupies a thread.
func nap(d time.Duration) {
	end := time.Now().Add(d)
	for ; d > 0; d = time.Until(end) {
		t := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&t, nil) // a signal may cut it short
	}
}
