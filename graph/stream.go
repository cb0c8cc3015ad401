package graph

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"
)

// streamWriter writes server-sent events. A reader who takes nothing for too long loses the connection, and nothing is
// written any more once the request is over: gqlgen pings from a goroutine that may come too late.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	patient time.Duration

	mu     sync.Mutex
	closed bool
}

func newStreamWriter(w http.ResponseWriter, patient time.Duration) *streamWriter {
	return &streamWriter{ResponseWriter: w, control: http.NewResponseController(w), patient: patient}
}

func (w *streamWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return len(p), nil
	}
	// Not every writer can have a deadline; the server's own can.
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patient))
	return w.ResponseWriter.Write(p)
}

func (w *streamWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		_ = w.control.Flush()
	}
}

func (w *streamWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	_ = w.control.SetWriteDeadline(time.Time{})
}

// patientUpgrade lets a websocket's reader take nothing for so long and no longer: gqlgen writes without a deadline, and holds a lock
// meanwhile that its own pings, and the end of the connection, wait for. And it closes what gqlgen leaves open.
type patientUpgrade struct {
	http.ResponseWriter
	patient time.Duration
	conn    net.Conn
}

// Hijack implements http.Hijacker.
func (w *patientUpgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.conn = &patientConn{conn, w.patient}
	buffered.Writer.Reset(w.conn)
	return w.conn, buffered, nil
}

// farewell is how long both sides may take to say goodbye.
const farewell = 6 * time.Second

// close closes the connection once gqlgen is done with it: a first message that it cannot read has it leave without a word.
func (w *patientUpgrade) close() {
	if w.conn != nil {
		time.AfterFunc(farewell, func() { _ = w.conn.Close() }) // mostly it is closed by then
	}
}

type patientConn struct {
	net.Conn
	patient time.Duration
}

func (c *patientConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.patient)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
