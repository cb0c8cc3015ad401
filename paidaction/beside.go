package paidaction

import "sync"

// Beside does something while its caller goes on; wait returns when it is done, and may be called again. Whoever schedules everything itself, as a
// simulation does, has one that does it at once.
type Beside func(do func()) (wait func())

// InGoroutine is a Beside.
func InGoroutine(do func()) (wait func()) {
	var done sync.WaitGroup
	done.Go(do)
	return done.Wait
}
