package paidaction

import (
	"context"
	"sync"
)

// clients are the addresses from which anonymous payers ask this process for invoices. Those behind one address begin
// one after the other, since each counts what the others have open (LockClient). They wait here and not inside their
// transactions, or the requests of one address could hold all database connections, and every payer would wait.
type clients struct {
	mu    sync.Mutex
	lines map[string]*clientLine // those that somebody is in
}

type clientLine struct {
	turn  chan struct{} // a token for whoever begins
	users int
}

// enter waits until nobody else behind the address begins; leave has to be called when the transaction is over.
func (c *clients) enter(ctx context.Context, client string, wait func(context.Context, func() bool)) (leave func(), err error) {
	line := c.of(client)
	leave = func() {
		<-line.turn
		c.left(client, line)
	}
	select {
	case line.turn <- struct{}{}:
		return leave, nil
	default:
	}
	if wait != nil {
		wait(ctx, func() bool { return len(line.turn) == cap(line.turn) })
	}
	select {
	case line.turn <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		c.left(client, line)
		return nil, context.Cause(ctx)
	}
}

func (c *clients) of(client string) *clientLine {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := c.lines[client]
	if line == nil {
		line = &clientLine{turn: make(chan struct{}, 1)}
		c.lines[client] = line
	}
	line.users++
	return line
}

func (c *clients) left(client string, line *clientLine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line.users--; line.users == 0 {
		delete(c.lines, client)
	}
}
