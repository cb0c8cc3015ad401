// Package dbconn bounds how long anybody waits for a connection to PostgreSQL. A connection can go silent: after a
// fail-over, or when a firewall or a pooler has forgotten it, nobody says that it is over, and the server's own bounds
// no longer help.
package dbconn

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	connectTimeout = 10 * time.Second
	pingTimeout    = 5 * time.Second // of an idle connection, before it is used
	closeTimeout   = 2 * time.Second

	readOnly = "25006" // read_only_sql_transaction
)

// alive has TCP probe a connection on which nothing is sent, such as one that waits for an answer or listens.
var alive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// Bound ends a connection that has gone silent within half a minute, and lets connecting take at most ten seconds
// unless the address says otherwise. It does not notice a peer that is there but says nothing, such as a pooler that
// hangs.
func Bound(c *pgx.ConnConfig) {
	c.DialFunc = (&net.Dialer{KeepAliveConfig: alive, Control: control}).DialContext
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
}

// BoundPool bounds the connections of a pool, and how long each answer is waited for, even by callers whose contexts
// never end (a commit, a loop). The limit should be longer than the server's own; 0 means none. When it is reached, the
// statement may or may not have been executed, and its connection is given up.
//
// Nobody can listen on such a pool. Behind a pooler its connections receive notifications that others listen for, and
// pgx would keep them for as long as the connection lasts.
func BoundPool(c *pgxpool.Config, limit time.Duration) {
	Bound(c.ConnConfig)
	c.PingTimeout = pingTimeout
	c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	// A session keeps the settings of its database that it began with, so one that takes no writes is of no more use, also
	// once the database takes them again.
	next := c.ConnConfig.OnPgError
	c.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool { return err.Code != readOnly && next(conn, err) }
	switch {
	case limit == 0:
	case c.ConnConfig.Tracer == nil:
		c.ConnConfig.Tracer = patience(limit)
	default:
		c.ConnConfig.Tracer = multitracer.New(patience(limit), c.ConnConfig.Tracer)
	}
}

// Close closes a pool at the end of the process that used it. pgx waits a quarter of a minute until a server that does not
// answer has taken leave of each connection: for one pool after the other that is longer than who stopped the process
// waits. Nothing is lost with a connection that nobody uses, so it is not waited for here.
func Close(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() { pool.Close(); close(closed) }()
	limit := time.NewTimer(closeTimeout)
	defer limit.Stop()
	select {
	case <-closed:
	case <-limit.C:
	}
}

// Listens makes it possible to listen on connections with this configuration, which a pool's cannot.
func Listens(c *pgx.ConnConfig) { c.OnNotification = nil }

type limitKey struct{}

// Within is a context whose statements may take this long, whatever the limit of the pool.
func Within(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

// patience is how long an answer is waited for. It is a tracer because pgx asks tracers for the context of everything
// that it sends; a wait for notifications is the exception.
type patience time.Duration

var (
	_ pgx.QueryTracer = patience(0)
	_ pgx.BatchTracer = patience(0)
)

type endKey struct{}

func (p patience) begin(ctx context.Context) context.Context {
	limit, ok := ctx.Value(limitKey{}).(time.Duration)
	if !ok {
		limit = time.Duration(p)
	}
	ctx, end := context.WithTimeout(ctx, limit)
	return context.WithValue(ctx, endKey{}, end)
}

func (patience) end(ctx context.Context) { ctx.Value(endKey{}).(context.CancelFunc)() }

// TraceQueryStart implements pgx.QueryTracer.
func (p patience) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return p.begin(ctx)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (p patience) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	p.end(ctx)
}

// TraceBatchStart implements pgx.BatchTracer.
func (p patience) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return p.begin(ctx)
}

// TraceBatchQuery implements pgx.BatchTracer: the answers of a batch share one limit.
func (patience) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (p patience) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	p.end(ctx)
}
