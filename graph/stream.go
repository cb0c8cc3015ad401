package graph

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
)

// streamWriter writes server-sent events. A reader who takes nothing for too long loses the connection. After the
// request is over nothing is written any more: gqlgen pings from a goroutine that may come too late. Nor is anything
// written once the context has ended: gqlgen would then call the operation complete, and a client that believed this
// would not ask again.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	patient time.Duration
	ctx     context.Context

	mu     sync.Mutex
	closed bool
}

// complete is how gqlgen ends a stream. By the rules of server-sent events, an event without data is none, and many
// clients would not hear of it.
const (
	complete         = "event: complete\n\n"
	completeWithData = "event: complete\ndata:\n\n"
)

func newStreamWriter(ctx context.Context, w http.ResponseWriter, patient time.Duration) *streamWriter {
	return &streamWriter{ResponseWriter: w, control: http.NewResponseController(w), patient: patient, ctx: ctx}
}

func (w *streamWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.ctx.Err() != nil {
		return len(p), nil
	}
	// The server's own writer has deadlines; others may not.
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patient))
	if string(p) == complete {
		if _, err := io.WriteString(w.ResponseWriter, completeWithData); err != nil {
			return 0, err
		}
		return len(p), nil
	}
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

// patientUpgrade limits how long a websocket's reader may take nothing. gqlgen writes without a deadline, and meanwhile
// holds a lock that its own pings and the end of the connection wait for. It also closes what gqlgen leaves open.
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

// untilItEnds holds back responses on a websocket that is about to end, as at a shutdown, until it has ended. gqlgen
// then calls every operation complete, in a race with the end of the connection, and a client that hears this first
// does not ask again.
func untilItEnds(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	respond, line := next(ctx), sessionOf(ctx).line
	if line.gone == nil {
		return respond
	}
	return func(ctx context.Context) *graphql.Response {
		response := respond(ctx)
		select {
		case <-line.ending:
			<-line.gone
		default:
		}
		return response
	}
}

// farewell is how long both sides may take to close properly.
const farewell = 6 * time.Second

// close closes the connection once gqlgen is done with it: after a first message that it cannot read, gqlgen leaves it
// open.
func (w *patientUpgrade) close() {
	if w.conn != nil {
		time.AfterFunc(farewell, func() { _ = w.conn.Close() }) // it is usually closed by then
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
