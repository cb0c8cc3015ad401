package enginetest

import (
	"bytes"
	"sync"
)

// Log keeps what is logged. A test may read it while it is written.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all of it so far.
func (l *Log) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }
