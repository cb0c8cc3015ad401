package graph

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/share"
)

// reading shares out the connections that answers are read by. A request may ask for very much, and many may come at
// once: without bounds, payments and the jobs that settle them would wait for a connection behind all of it. So reading
// has half of the pool, and one asker a third of that. The others wait, each asker for their own.
type reading struct {
	all  chan struct{} // a token for each connection in use
	each *share.Shares
}

func newReading(connections int32) *reading {
	all := max(1, int(connections)/2)
	return &reading{all: make(chan struct{}, all), each: share.New(max(1, all/3))}
}

// take waits for a place, first for one of the asker's own; free gives it back.
func (r *reading) take(ctx context.Context) (free func(), err error) {
	give, err := r.each.Take(ctx, sessionOf(ctx).who(), nil)
	if err != nil {
		return nil, err
	}
	select {
	case r.all <- struct{}{}:
		return sync.OnceFunc(func() { <-r.all; give() }), nil
	case <-ctx.Done():
		give()
		return nil, context.Cause(ctx)
	}
}

// inTurn runs do, which reads with one connection.
func inTurn[T any](ctx context.Context, r *resolver, do func() (T, error)) (T, error) {
	free, err := r.reading.take(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer free()
	return do()
}

// reads are the queries of answers: each waits for its turn.
func (r *resolver) reads() *db.Queries { return db.New(readPool{r.Pool, r.reading}) }

// readPool is the pool, with a place for each statement.
type readPool struct {
	pool *pgxpool.Pool
	*reading
}

func (t readPool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	free, err := t.take(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer free()
	return t.pool.Exec(ctx, sql, args...)
}

func (t readPool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	free, err := t.take(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := t.pool.Query(ctx, sql, args...)
	if err != nil {
		free()
		return nil, err
	}
	return readRows{rows, free}, nil
}

func (t readPool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	free, err := t.take(ctx)
	if err != nil {
		return noRow{err}
	}
	return readRow{t.pool.QueryRow(ctx, sql, args...), free}
}

// readRows give the place back when they are closed, as those who read them do in any case.
type readRows struct {
	pgx.Rows
	free func()
}

func (r readRows) Close() {
	r.Rows.Close()
	r.free()
}

type readRow struct {
	pgx.Row
	free func()
}

func (r readRow) Scan(into ...any) error {
	defer r.free()
	return r.Row.Scan(into...)
}

// noRow is the answer to who gave up waiting.
type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }
