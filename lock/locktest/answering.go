package locktest

import (
	"context"

	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// Answering is a store that answers each entry in the same way.
type Answering struct {
	*lock.Memory
	State lock.State
	Err   error
}

// Enter implements lock.Store.
func (s Answering) Enter(context.Context, lock.Entry) (lock.Entered, error) {
	return lock.Entered{State: s.State}, s.Err
}
