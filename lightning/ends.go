package lightning

import (
	"errors"
	"sync"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// ends are calls that go on when their callers have given up (toEnd). Closing waits for those that have begun, and lets
// no other begin: it would be broken off, as nobody waits for it.
type ends struct {
	mu     sync.Mutex // no call is added while, or after, somebody waits for all
	closed bool
	calls  sync.WaitGroup
	going  map[change]bool
}

// change is what a call does to an invoice.
type change struct {
	method string
	hash   paidaction.Hash
}

// Why a call does not begin.
var (
	errClosing = errors.New("the connection to the node is being closed")
	errGoing   = errors.New("the node is still at the same call")
)

// begin runs a call in the background, which leaves when the node has answered. None begins while the same is under
// way: a node whose database keeps it from writing would get another each time that somebody comes back, thousands
// within an hour, and each would keep a worker waiting.
func (e *ends) begin(c change, call func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return errClosing
	case e.going[c]:
		return errGoing
	case e.going == nil:
		e.going = map[change]bool{}
	}
	e.going[c] = true
	e.calls.Go(call)
	return nil
}

// leave lets the same call begin again.
func (e *ends) leave(c change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.going, c)
}

// close waits until all calls have ended.
func (e *ends) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.calls.Wait()
}
