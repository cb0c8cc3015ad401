package graph

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// reading shares out the connections that answers are read by. A request may ask for very much, and many may come at
// once: without bounds, payments and the jobs that settle them would wait for a connection behind all of it. So reading
// has half of the pool, and one asker a third of that. The others wait, each asker for their own.
type reading struct {
	all  chan struct{} // a token for each connection in use
	each int

	mu     sync.Mutex
	askers map[string]*readingOne // those that read or wait
}

type readingOne struct {
	places chan struct{} // a token for each connection in use, or waited for in the common line
	users  int
}

func newReading(connections int32) *reading {
	all := max(1, int(connections)/2)
	return &reading{all: make(chan struct{}, all), each: max(1, all/3), askers: map[string]*readingOne{}}
}

// take waits for a place, first of the asker's own; free gives it back. Places are given in the order in which they
// were asked for.
func (r *reading) take(ctx context.Context) (free func(), err error) {
	who := sessionOf(ctx).who()
	own := r.of(who)
	lines := []chan struct{}{own.places, r.all}
	give := func(taken int) {
		for _, line := range lines[:taken] {
			<-line
		}
		r.left(who, own)
	}
	for n, line := range lines {
		select {
		case line <- struct{}{}:
		case <-ctx.Done():
			give(n)
			return nil, context.Cause(ctx)
		}
	}
	return sync.OnceFunc(func() { give(len(lines)) }), nil
}

func (r *reading) of(who string) *readingOne {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.askers[who]
	if own == nil {
		own = &readingOne{places: make(chan struct{}, r.each)}
		r.askers[who] = own
	}
	own.users++
	return own
}

func (r *reading) left(who string, own *readingOne) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(r.askers, who)
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
