package simulate

import (
	"context"
	"errors"
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
	answerLost         // PostgreSQL executes it, and the connection breaks on the way back
	late               // the connection breaks, and PostgreSQL executes it some time later
	conflict           // PostgreSQL refuses to serialise: 40001
)

// wire is a connection to PostgreSQL that can break at a chosen moment.
type wire struct {
	database *database
	session  *session

	fiber atomic.Pointer[fiber] // the one that uses it

	mu       sync.Mutex
	greeted  bool
	greeting []byte // the rest of the greeting that a reused session has yet to give
	gone     bool
	trouble  trouble
	asked    bool   // the request with the trouble was written
	answered bool   // and its answer came, though no fiber gets it
	kept     []byte // the request that is to arrive late

	reading sync.Mutex // held while reading
}

// dial connects, but only for callers inside a world. It refuses pgx's own requests to cancel what is under way on a
// broken connection, because these would come at moments that do not depend on the seed.
func (d *database) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx.Value(insideKey{}) == nil {
		return nil, errCut
	}
	if s := d.spare(); s != nil {
		return &wire{session: s, database: d, greeting: s.greeting}, nil
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{session: newSession(raw), database: d}, nil
}

// meet decides what happens to the next request.
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
	switch {
	case !c.greeted && len(c.greeting) > 0:
		c.greeted = true
		return len(b), nil
	case !c.greeted:
		c.greeted = true
		return len(b), c.session.greet(b)
	case b[0] == 'X': // pgx closes the connection; the session goes on
		return len(b), nil
	case c.trouble == noTrouble || !executes(b):
		return len(b), c.session.send(b)
	}
	c.asked = true
	switch c.trouble {
	case late:
		c.kept = append([]byte(nil), b...)
		return len(b), nil
	case conflict:
		c.trouble = noTrouble
		return len(b), c.session.send(question("DO $$ BEGIN RAISE EXCEPTION 'a conflict' USING ERRCODE = '40001'; END $$"))
	}
	return len(b), c.session.send(b)
}

// Read implements net.Conn. A fiber that was set aside while it waited for a lock continues only when it is its turn.
func (c *wire) Read(b []byte) (int, error) {
	c.mu.Lock()
	lost := c.gone || c.asked && c.trouble == late
	said := copy(b, c.greeting)
	c.greeting = c.greeting[said:]
	c.mu.Unlock()
	switch {
	case lost:
		return 0, errCut
	case said > 0:
		return said, nil
	}
	n, err := c.receive(b)
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

// receive reads, unless others use the session by now.
func (c *wire) receive(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone {
		return 0, errCut
	}
	return c.session.receive(b)
}

// broken reports whether the connection was cut.
func (c *wire) broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// wasAnswered reports whether PostgreSQL has executed the request, though the answer was lost. If the connection broke
// earlier, because the database restarted meanwhile, nothing was asked.
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

// cut ends the connection, and returns once PostgreSQL has forgotten it: what was not committed is undone, and its
// locks are free. PostgreSQL must not be working on a request.
func (c *wire) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	_ = c.session.raw.SetReadDeadline(time.Now()) // pgx reads ahead at times
	c.reading.Lock()
	defer c.reading.Unlock()
	c.database.keep(c.session)
	if f := c.fiber.Load(); f != nil {
		f.world.freed.Store(true)
	}
}

// arriveLate has PostgreSQL execute the request that was kept back, and reports whether it did. A single statement may
// find what it needs locked by somebody who does not continue meanwhile. Then it waits, which means that it has yet to
// arrive. The same can happen to a statement that travels with a commit. But trying breaks its transaction, so that it
// comes to nothing, as it does after too long a wait. The caller cuts the connection afterwards.
func (c *wire) arriveLate() (done, waits bool) {
	c.mu.Lock()
	gone, kept := c.gone, c.kept
	c.mu.Unlock()
	if gone {
		return false, false
	}
	s := c.session
	_ = s.raw.SetDeadline(time.Now().Add(hung))
	if s.status != 'I' {
		return s.send(question("SET LOCAL lock_timeout = 1")) == nil && s.finish() && s.send(kept) == nil && s.finish(), false
	}
	if s.send(question("SET lock_timeout = 1")) != nil || !s.finish() {
		return false, false
	}
	done = s.send(kept) == nil && s.finish()
	again := s.send(question("RESET lock_timeout")) == nil && s.finish()
	return done, !done && again
}

// executes reports whether a request executes something, rather than only preparing it.
func executes(request []byte) bool {
	for message := range messages(request) {
		if message[0] == 'Q' || message[0] == 'B' {
			return true
		}
	}
	return false
}

// LocalAddr implements net.Conn.
func (c *wire) LocalAddr() net.Addr { return c.session.raw.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *wire) RemoteAddr() net.Addr { return c.session.raw.RemoteAddr() }

// SetDeadline implements net.Conn.
func (c *wire) SetDeadline(t time.Time) error { return c.limit(t, net.Conn.SetDeadline) }

// SetReadDeadline implements net.Conn.
func (c *wire) SetReadDeadline(t time.Time) error { return c.limit(t, net.Conn.SetReadDeadline) }

// SetWriteDeadline implements net.Conn.
func (c *wire) SetWriteDeadline(t time.Time) error { return c.limit(t, net.Conn.SetWriteDeadline) }

func (c *wire) limit(t time.Time, set func(net.Conn, time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errCut
	}
	return set(c.session.raw, t)
}
