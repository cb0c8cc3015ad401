package lightning

import "sync"

// ends are calls that go on when their callers have given up (toEnd). Closing waits for those that have begun, and lets
// no other begin: it would be broken off, as nobody waits for it.
type ends struct {
	mu     sync.Mutex // no call is added while, or after, somebody waits for all
	closed bool
	calls  sync.WaitGroup
}

// begin runs a call in the background. It returns false if none may begin any more.
func (e *ends) begin(call func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.calls.Go(call)
	return true
}

// close waits until all calls have ended.
func (e *ends) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.calls.Wait()
}
