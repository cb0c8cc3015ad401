package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Transaction is a READ COMMITTED transaction that waits for PostgreSQL as seldom as it can. BEGIN, COMMIT, and
// statements that return nothing (sqlc's :exec) are sent together with the next statement whose answer the caller
// needs. This halves the round trips of an action's step. PostgreSQL still executes everything in the order in which it
// was asked for.
//
// So the error of a statement that returns nothing comes from the next statement, or from Commit; and whatever its
// arguments point to must not change until then. A Transaction is not safe for concurrent use.
type Transaction struct {
	pgx.Tx // nil: a method that is missing here panics

	conn   *pgxpool.Conn
	queued pgx.Batch
	asked  map[int]func(pgx.Rows) error // by position in the queue: the statements that return something, and who takes it
	begun  bool                         // PostgreSQL may know of it
	closed bool
}

var _ pgx.Tx = (*Transaction)(nil)

// BeginTransaction takes a connection from the pool, but sends nothing yet. Commit or Rollback gives the connection
// back.
func BeginTransaction(ctx context.Context, pool *pgxpool.Pool) (*Transaction, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := &Transaction{conn: conn}
	t.queued.Queue("begin isolation level read committed")
	return t, nil
}

// InTransaction runs do in a transaction, and commits unless do fails.
func InTransaction(ctx context.Context, pool *pgxpool.Pool, do func(*Transaction) error) error {
	t, err := BeginTransaction(ctx, pool)
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback(context.WithoutCancel(ctx)) }() // after the commit there is nothing to undo
	if err := do(t); err != nil {
		return err
	}
	return t.Commit(ctx)
}

// Conflict is PostgreSQL's code for a transaction that it aborted and that may be run again: a deadlock (40P01) or a
// serialisation failure (40001). It is "" for any other error.
func Conflict(err error) string {
	var broken *pgconn.PgError
	if errors.As(err, &broken) && (broken.Code == "40P01" || broken.Code == "40001") {
		return broken.Code
	}
	return ""
}

// Violates reports whether PostgreSQL refused a row by the unique constraint or index of this name.
func Violates(err error, unique string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "23505" && refused.ConstraintName == unique
}

// Alone runs one statement that returns something, outside any transaction, with the settings of PlanAlone. These are
// sent along with it, and hold only for it.
func Alone(ctx context.Context, pool *pgxpool.Pool, statement func(q *Queries) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	t := &Transaction{conn: conn} // never begun: PostgreSQL takes what is sent together for one implicit transaction
	defer t.release()
	q := New(t)
	if err := q.PlanAlone(ctx); err != nil {
		return err
	}
	if err := statement(q); err != nil {
		return err
	}
	if t.queued.Len() > 0 {
		return errors.New("a statement that answers nothing would never be sent")
	}
	return nil
}

// answersNothing tells by the line that sqlc puts before each query.
func answersNothing(sql string) bool {
	first, _, _ := strings.Cut(sql, "\n")
	return strings.HasPrefix(first, "-- name: ") && strings.HasSuffix(first, " :exec")
}

// Exec implements DBTX. A statement that returns nothing is only queued when Exec returns.
func (t *Transaction) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	switch {
	case t.closed:
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	case answersNothing(sql):
		t.queued.Queue(sql, args...)
		return pgconn.CommandTag{}, nil
	case t.queued.Len() == 0:
		return t.conn.Exec(ctx, sql, args...)
	}
	answers, err := t.send(ctx, sql, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := answers.Exec()
	return tag, cmp.Or(err, answers.Close())
}

// Query implements DBTX.
func (t *Transaction) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	switch {
	case t.closed:
		return noRows{err: pgx.ErrTxClosed}, pgx.ErrTxClosed
	case t.queued.Len() == 0:
		return t.conn.Query(ctx, sql, args...)
	}
	answers, err := t.send(ctx, sql, args...)
	if err != nil {
		return noRows{err: err}, err
	}
	rows, err := answers.Query()
	if err != nil {
		_ = answers.Close() // says the same again
		return noRows{err: err}, err
	}
	return &lastRows{Rows: rows, answers: answers}, nil
}

// lastRows are the rows of the last statement of a batch.
type lastRows struct {
	pgx.Rows
	answers pgx.BatchResults
	err     error
}

// Next implements pgx.Rows.
func (r *lastRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements pgx.Rows. After it the connection can be used again.
func (r *lastRows) Close() {
	r.Rows.Close()
	if err := r.answers.Close(); err != nil && r.Rows.Err() == nil {
		r.err = err
	}
}

// Err implements pgx.Rows.
func (r *lastRows) Err() error { return cmp.Or(r.Rows.Err(), r.err) }

// noRows are the rows of a statement that failed.
type noRows struct {
	pgx.Rows // nil
	err      error
}

func (noRows) Close()       {}
func (noRows) Next() bool   { return false }
func (r noRows) Err() error { return r.err }

// row is the only row of an answer.
type row struct{ rows pgx.Rows }

// Scan implements pgx.Row.
func (r row) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), pgx.ErrNoRows)
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// QueryRow implements DBTX.
func (t *Transaction) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, _ := t.Query(ctx, sql, args...) // the rows have the error too
	return row{rows}
}

// NextActions asks for the numbers of so many actions that are about to begin. The question is queued, as a statement
// that returns nothing is; the numbers arrive with the answer to the next statement that the caller waits for. If ids
// is called before that, it waits for them alone.
func (t *Transaction) NextActions(count int) (ids func(context.Context) ([]int64, error)) {
	return ask(t, pgx.RowTo[int64], nextActions, int32(count))
}

// HidesDescriptions asks, as NextActions does, whether a payer wants their wallet to be shown no descriptions. Nobody
// knows what an anonymous payer (nil) wants, so they see them.
func (t *Transaction) HidesDescriptions(payer *int64) (hides func(context.Context) (bool, error)) {
	answer := ask(t, pgx.RowTo[bool], hidesDescriptions, payer)
	return func(ctx context.Context) (bool, error) {
		one, err := answer(ctx)
		return err == nil && one[0], err
	}
}

// LockActions locks actions, as NextActions asks: what else is asked before their rows are read comes with them.
func (t *Transaction) LockActions(ids []int64) (rows func(context.Context) ([]PaidAction, error)) {
	return ask(t, pgx.RowToStructByPos[PaidAction], lockActions, ids)
}

// GetInners asks, as NextActions does, for the receivers' invoices of these actions.
func (t *Transaction) GetInners(actions []int64) (rows func(context.Context) ([]InnerInvoice, error)) {
	return ask(t, pgx.RowToStructByPos[InnerInvoice], getInners, actions)
}

// ForwardsToClaim asks, as NextActions does, for the receivers' invoices of these actions and what is under way to
// each.
func (t *Transaction) ForwardsToClaim(p ForwardsToClaimParams) (rows func(context.Context) ([]ForwardsToClaimRow, error)) {
	return ask(t, pgx.RowToStructByPos[ForwardsToClaimRow], forwardsToClaim, p.At, p.ActionIds)
}

// RelaysCompleted completes outgoing payments, and tells which, as NextActions does.
func (t *Transaction) RelaysCompleted(p RelaysCompletedParams) (rows func(context.Context) ([]RelayPayment, error)) {
	return ask(t, pgx.RowToStructByPos[RelayPayment], relaysCompleted, p.At, p.ActionIds, p.Fees)
}

// ask queues a question whose answer is rows.
func ask[T any](t *Transaction, row pgx.RowToFunc[T], sql string, args ...any) func(context.Context) ([]T, error) {
	var got []T
	if t.asked == nil {
		t.asked = map[int]func(pgx.Rows) error{}
	}
	t.asked[t.queued.Len()] = func(rows pgx.Rows) (err error) {
		got, err = pgx.CollectRows(rows, row)
		return err
	}
	t.queued.Queue(sql, args...)
	return func(ctx context.Context) ([]T, error) {
		switch {
		case got != nil:
			return got, nil
		case t.closed:
			return nil, pgx.ErrTxClosed
		case t.queued.Len() == 0:
			return nil, fmt.Errorf("%s was not answered: a statement before it has failed", nameOf(sql))
		}
		answers, err := t.send(ctx, "")
		if err != nil {
			return nil, err
		}
		return got, answers.Close()
	}
}

// send sends what is queued, and one more statement if sql is not empty. It does not read the answer of that one.
func (t *Transaction) send(ctx context.Context, sql string, args ...any) (pgx.BatchResults, error) {
	batch, asked, before := t.queued, t.asked, t.queued.Len()
	if sql != "" {
		batch.Queue(sql, args...)
	}
	t.queued, t.asked, t.begun = pgx.Batch{}, nil, true
	answers := t.conn.SendBatch(ctx, &batch)
	for i, q := range batch.QueuedQueries[:before] {
		var err error
		if take := asked[i]; take != nil {
			rows, _ := answers.Query() // the rows have the error too
			err = take(rows)
		} else {
			_, err = answers.Exec()
		}
		if err != nil {
			_ = answers.Close() // says the same again
			return nil, fmt.Errorf("%s: %w", nameOf(q.SQL), err)
		}
	}
	return answers, nil
}

// nameOf is the query's name in its file, or else the query itself.
func nameOf(sql string) string {
	if rest, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	return sql
}

// Commit commits. If it fails with an error of PostgreSQL's, nothing was committed, unless that error ends the session:
// a FATAL or a PANIC may come after the commit.
func (t *Transaction) Commit(ctx context.Context) error {
	if t.closed {
		return pgx.ErrTxClosed
	}
	if !t.begun && t.queued.Len() == 1 {
		t.release()
		return nil
	}
	tag, err := t.Exec(ctx, "commit")
	if err == nil {
		t.release()
		if tag.String() == "ROLLBACK" {
			return pgx.ErrTxCommitRollback
		}
	}
	return err
}

// Rollback undoes everything that is not committed. It may be called at any time, and more than once.
func (t *Transaction) Rollback(ctx context.Context) error {
	if t.closed {
		return pgx.ErrTxClosed
	}
	defer t.release()
	if !t.begun || t.conn.Conn().IsClosed() {
		return nil
	}
	_, err := t.conn.Exec(ctx, "rollback")
	return err
}

// release gives the connection back; the pool throws away one that is still inside a transaction.
func (t *Transaction) release() {
	t.closed = true
	t.conn.Release()
}

// Conn implements pgx.Tx. The connection's own methods know nothing of the queue.
func (t *Transaction) Conn() *pgx.Conn { return t.conn.Conn() }
