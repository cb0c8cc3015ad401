package paidaction

import "sync"

// Beside runs do while its caller goes on; wait returns when do has ended, and may be called again. A simulation, which
// schedules everything itself, uses one that runs do at once.
type Beside func(do func()) (wait func())

// InGoroutine is a Beside that runs do in a goroutine.
func InGoroutine(do func()) (wait func()) {
	var done sync.WaitGroup
	done.Go(do)
	return done.Wait
}
