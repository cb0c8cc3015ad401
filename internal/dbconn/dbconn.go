// Package dbconn bounds how long anybody waits for a connection to PostgreSQL. One can go silent: after a fail-over, or where a firewall or a pooler
// has forgotten it, nobody says that it is over, and the bounds that a server keeps bind nobody any more.
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
	pingTimeout    = 5 * time.Second // of a connection that lay idle, before it is used
)

// alive has TCP ask a connection on which nothing is sent, as one that waits for an answer or listens, whether it still is one.
var alive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// Bound has a connection that has gone silent end within half a minute, and being made take no longer than ten seconds, unless its address says
// otherwise. That the other side is there and merely says nothing, as a pooler that hangs, is not noticed.
func Bound(c *pgx.ConnConfig) {
	c.DialFunc = (&net.Dialer{KeepAliveConfig: alive, Control: control}).DialContext
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
}

// BoundPool bounds the connections of a pool, and how long each answer is waited for, also by callers whose contexts never end: a commit, a loop. The
// limit is to be longer than the server's own; 0: none. What was asked for then may have been done or not, and its connection is given up.
//
// Nobody can listen on such a pool. Behind a pooler its connections hear what others listen for, and pgx would keep it all for as long as they last.
func BoundPool(c *pgxpool.Config, limit time.Duration) {
	Bound(c.ConnConfig)
	c.PingTimeout = pingTimeout
	c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	switch {
	case limit == 0:
	case c.ConnConfig.Tracer == nil:
		c.ConnConfig.Tracer = patience(limit)
	default:
		c.ConnConfig.Tracer = multitracer.New(patience(limit), c.ConnConfig.Tracer)
	}
}

// Listens takes from the configuration of a pool's connections that nobody can listen on them.
func Listens(c *pgx.ConnConfig) { c.OnNotification = nil }

type limitKey struct{}

// Within is a context whose statements may take so long, whatever the limit of the pool.
func Within(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

// patience is how long an answer is waited for. It is a tracer, since pgx asks those for the context of whatever it sends, but for a wait for
// notifications.
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

// TraceBatchQuery implements pgx.BatchTracer: the answers of a batch have one limit together.
func (patience) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (p patience) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	p.end(ctx)
}
