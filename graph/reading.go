package graph

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/places"
)

// portion is a part of the pool's connections that is shared out by who asks: one asker may have a third of it. The
// others wait, each asker for their own.
type portion struct {
	all  chan struct{} // a token for each connection in use
	each *places.Shares
}

// newReading is for what answers are read by. A request may ask for very much, and many may come at once: without
// bounds, payments and the jobs that settle them would wait for a connection behind all of it. So reading has half of
// the pool.
func newReading(connections int32) *portion { return newPortion(connections / 2) }

// newWriting is for mutations that cost nothing, of which as many may come at once. Those of one user wait for one
// another in the database, since they lock the same row, and each would hold a connection while it waits. They have a
// quarter of the pool.
func newWriting(connections int32) *portion { return newPortion(connections / 4) }

func newPortion(connections int32) *portion {
	all := max(1, int(connections))
	return &portion{all: make(chan struct{}, all), each: places.New(max(1, all/3))}
}

// take waits for a place, first for one of the asker's own; free gives it back.
func (p *portion) take(ctx context.Context) (free func(), err error) {
	give, err := p.each.Take(ctx, sessionOf(ctx).who(), nil)
	if err != nil {
		return nil, err
	}
	select {
	case p.all <- struct{}{}:
		return sync.OnceFunc(func() { <-p.all; give() }), nil
	case <-ctx.Done():
		give()
		return nil, context.Cause(ctx)
	}
}

// inTurn runs do, which uses one connection, when it has a place in this portion.
func inTurn[T any](ctx context.Context, of *portion, do func() (T, error)) (T, error) {
	free, err := of.take(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer free()
	return do()
}

// reads are the queries of answers: each waits for its turn.
func (r *resolver) reads() *db.Queries { return db.New(sharedPool{r.Pool, r.reading}) }

// writes are the statements of mutations that cost nothing: each waits for its turn.
func (r *resolver) writes() *db.Queries { return db.New(sharedPool{r.Pool, r.writing}) }

// inTx is a transaction of a mutation that costs nothing.
func (r *resolver) inTx(ctx context.Context, do func(pgx.Tx) error) error {
	free, err := r.writing.take(ctx)
	if err != nil {
		return err
	}
	defer free()
	return db.InTransaction(ctx, r.Pool, func(tx *db.Transaction) error { return do(tx) })
}

// sharedPool is the pool, with a place for each statement.
type sharedPool struct {
	pool *pgxpool.Pool
	*portion
}

func (p sharedPool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	free, err := p.take(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer free()
	return p.pool.Exec(ctx, sql, args...)
}

func (p sharedPool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	free, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := p.pool.Query(ctx, sql, args...)
	if err != nil {
		free()
		return nil, err
	}
	return sharedRows{rows, free}, nil
}

func (p sharedPool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	free, err := p.take(ctx)
	if err != nil {
		return noRow{err}
	}
	return sharedRow{p.pool.QueryRow(ctx, sql, args...), free}
}

// sharedRows give the place back when they are closed, as those who read them do in any case.
type sharedRows struct {
	pgx.Rows
	free func()
}

func (r sharedRows) Close() {
	r.Rows.Close()
	r.free()
}

type sharedRow struct {
	pgx.Row
	free func()
}

func (r sharedRow) Scan(into ...any) error {
	defer r.free()
	return r.Row.Scan(into...)
}

// noRow is the answer to who gave up waiting.
type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }
