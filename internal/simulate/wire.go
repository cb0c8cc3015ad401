package simulate

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var errCut = errors.New("the connection was cut")

// trouble is what happens to the next request on a connection.
type trouble int

const (
	noTrouble  trouble = iota
	answerLost         // PostgreSQL does it, and the connection breaks on the way back
	late               // the connection breaks, and PostgreSQL does it some time later
	conflict           // PostgreSQL refuses to serialise: 40001
)

// wire is a connection to PostgreSQL that can break at a chosen moment.
type wire struct {
	raw net.Conn

	fiber atomic.Pointer[fiber] // who uses it

	mu       sync.Mutex
	gone     bool
	trouble  trouble
	asked    bool   // the request with the trouble was written
	answered bool   // and its answer came, though nobody is told of it
	kept     []byte // of a late one
	closed   chan struct{}
}

// dial connects for those inside of a world alone: not for pgx's requests to cancel what is under way on a connection that broke, which
// would come at a moment of their own.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx.Value(insideKey{}) == nil {
		return nil, errCut
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{raw: raw, closed: make(chan struct{})}, nil
}

// meet sets what happens to the next request.
func (c *wire) meet(t trouble) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble, c.asked = t, false
}

// Write implements net.Conn.
func (c *wire) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone || c.asked && c.trouble == late {
		return 0, errCut
	}
	if c.trouble == noTrouble || !executes(b) {
		return c.raw.Write(b)
	}
	c.asked = true
	switch c.trouble {
	case late:
		c.kept = append([]byte(nil), b...)
		return len(b), nil
	case conflict:
		c.trouble = noTrouble
		_, err := c.raw.Write(question("DO $$ BEGIN RAISE EXCEPTION 'a conflict' USING ERRCODE = '40001'; END $$"))
		return len(b), err
	}
	return c.raw.Write(b)
}

// Read implements net.Conn. Who was set aside while they waited for a lock goes on only when it is their turn.
func (c *wire) Read(b []byte) (int, error) {
	c.mu.Lock()
	lost := c.asked && c.trouble == late
	c.mu.Unlock()
	if lost {
		return 0, errCut
	}
	n, err := c.raw.Read(b)
	if f := c.fiber.Load(); f != nil && f.aside.Load() {
		f.arrive()
	}
	c.mu.Lock()
	lost = c.asked && c.trouble == answerLost
	c.answered = c.answered || lost && n > 0
	c.mu.Unlock()
	if lost {
		c.cut()
		return 0, errCut
	}
	return n, err
}

// wasAnswered says whether PostgreSQL has done what it was asked for, though the answer was lost. A connection that broke before that, since
// the database went away meanwhile, has asked for nothing.
func (c *wire) wasAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// Close implements net.Conn.
func (c *wire) Close() error {
	c.mu.Lock()
	kept := c.asked && c.trouble == late
	c.mu.Unlock()
	if !kept {
		c.cut()
	}
	return nil
}

// cut ends the connection, and returns when PostgreSQL has forgotten it: what was not committed is undone, and its locks are free.
// PostgreSQL must not be at work on a request.
func (c *wire) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	_ = c.raw.SetDeadline(time.Now().Add(hung))
	_, _ = c.raw.Write([]byte{'X', 0, 0, 0, 4})
	_, _ = io.Copy(io.Discard, c.raw)
	_ = c.raw.Close()
	close(c.closed)
	if f := c.fiber.Load(); f != nil {
		f.world.freed.Store(true)
	}
}

// arriveLate has PostgreSQL do what was kept back, and says whether it did.
func (c *wire) arriveLate() bool {
	c.mu.Lock()
	gone, kept := c.gone, c.kept
	c.mu.Unlock()
	if gone {
		return false
	}
	defer c.cut()
	_ = c.raw.SetDeadline(time.Now().Add(hung))
	if _, err := c.raw.Write(kept); err != nil {
		return false
	}
	var answer []byte
	buffer := make([]byte, 4096)
	for {
		n, err := c.raw.Read(buffer)
		answer = append(answer, buffer[:n]...)
		kinds := kindsOf(answer)
		if len(kinds) > 0 && kinds[len(kinds)-1] == 'Z' {
			for _, kind := range kinds {
				if kind == 'E' {
					return false
				}
			}
			return true
		}
		if err != nil {
			return false
		}
	}
}

// executes says whether a request does something, and not merely prepares it.
func executes(request []byte) bool {
	for _, kind := range kindsOf(request) {
		if kind == 'Q' || kind == 'B' {
			return true
		}
	}
	return false
}

// kindsOf are the kinds of the whole messages in b, in PostgreSQL's protocol.
func kindsOf(b []byte) (kinds []byte) {
	for len(b) >= 5 {
		size := int(binary.BigEndian.Uint32(b[1:5])) + 1
		if size > len(b) {
			return kinds
		}
		kinds = append(kinds, b[0])
		b = b[size:]
	}
	return kinds
}

// question is a request for one statement.
func question(sql string) []byte {
	b := append([]byte{'Q'}, binary.BigEndian.AppendUint32(nil, uint32(len(sql)+5))...)
	return append(append(b, sql...), 0)
}

// LocalAddr implements net.Conn.
func (c *wire) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *wire) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *wire) SetDeadline(t time.Time) error { return c.raw.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *wire) SetReadDeadline(t time.Time) error { return c.raw.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *wire) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }
