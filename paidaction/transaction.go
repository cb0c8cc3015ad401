package paidaction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// errUnknownCommit says that the connection was lost, or went silent, while the commit was under way: it may have happened or not.
var errUnknownCommit = errors.New("the connection was lost during the commit")

// inTx runs do in one READ COMMITTED transaction, and all of it again after a deadlock or a serialisation failure; do must therefore keep nothing from a run that
// failed. Refusals, lost races and faults of do come back as they are. errUnknownCommit is wrapped where the outcome is unknown.
func (e *Engine) inTx(ctx context.Context, do func(q *db.Queries, tx *db.Transaction) error) error {
	return db.Repeat(ctx, e.Random, e.Hooks.Conflict, func() error { return e.once(ctx, do) })
}

func (e *Engine) once(ctx context.Context, do func(q *db.Queries, tx *db.Transaction) error) error {
	tx, err := db.BeginTransaction(ctx, e.Pool)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	// The caller's context may be over, and the rollback must go out all the same; after a commit it does nothing. The pool bounds how long an answer
	// is waited for, to this and to the commit (internal/dbconn): a connection can go silent.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	q := db.New(tx)
	if err := q.PlanOnce(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := guarded(do, q, tx); err != nil {
		if tx.Conn().IsClosed() {
			return fmt.Errorf("%w: %w", errConnection, err)
		}
		return err
	}
	// A commit is not abandoned half-way: with a cancelled context its outcome would be unknown.
	if err := tx.Commit(context.WithoutCancel(ctx)); err != nil {
		var pg *pgconn.PgError
		if errors.As(err, &pg) && !isConnectionCode(pg.Code) {
			return fmt.Errorf("commit: %w", err)
		}
		return fmt.Errorf("%w: %w", errUnknownCommit, err)
	}
	return nil
}

// guarded turns a panic in an action's own code into a fault: it undoes this transaction, and takes no other payment with it.
func guarded(do func(q *db.Queries, tx *db.Transaction) error, q *db.Queries, tx *db.Transaction) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(q, tx)
}

var errConnection = errors.New("the database connection was lost")

// isConnectionCode says that the server ends the session. Where it does so during a commit, also because the whole transaction took too
// long (25P04), the commit may be done already.
func isConnectionCode(code string) bool {
	return len(code) == 5 && (code[:2] == "08" || code[:3] == "57P" || code == "25P04")
}

// isStall says that the server has ended a transaction in which this process stood still for too long. Nothing of it was committed: the
// server looks at that before it takes the next request, a commit included.
func isStall(code string) bool { return code == "25P03" }

// isStandby says that the server only reads: it was not promoted yet, or was demoted, and whoever leads us to a database has not noticed.
func isStandby(code string) bool { return code == "25006" }

// IsPassing says whether an error may go away by itself: the database or the network is away, too busy, shutting down, or taking over.
// An action that fails with such an error is tried again; with any other one its payment is given back. The two must not
// be confused in either direction (spec 05.14).
func IsPassing(err error) bool {
	if err == nil {
		return false
	}
	if _, refusal := AsRefusal(err); refusal {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return isConnectionCode(pg.Code) || isStall(pg.Code) || isStandby(pg.Code) || pg.Code[:2] == "53" || pg.Code[:2] == "40" || pg.Code == "57014" || pg.Code == "55P03"
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, errConnection) || errors.Is(err, errUnknownCommit) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) || errors.As(err, &connect) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
