package paidaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// errUnknownCommit says that the connection was lost or went silent during the commit, which may have happened or not.
var errUnknownCommit = errors.New("the connection was lost during the commit")

// inTx runs do in one READ COMMITTED transaction, and runs it again after a deadlock or a serialisation failure; do
// must therefore keep nothing from a failed run. Refusals, lost races and faults of do are returned unchanged. It wraps
// errUnknownCommit where the outcome is unknown.
func (e *Engine) inTx(ctx context.Context, do func(q *db.Queries, tx *db.Transaction) error) error {
	return db.Repeat(ctx, e.Random, e.Hooks.Conflict, func() error { return e.once(ctx, do) })
}

func (e *Engine) once(ctx context.Context, do func(q *db.Queries, tx *db.Transaction) error) error {
	tx, err := db.BeginTransaction(ctx, e.Pool)
	if err != nil {
		return fmt.Errorf("%w: begin: %w", errConnection, err)
	}
	// The rollback must go out even if the caller's context has ended; after a commit it does nothing. A connection can
	// go silent, so the pool bounds how long the rollback and the commit wait for an answer (internal/dbconn).
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
	// A commit is not abandoned half-way: if its context could be cancelled, the outcome would be unknown.
	if err := tx.Commit(context.WithoutCancel(ctx)); err != nil {
		if committedNothing(err) {
			return fmt.Errorf("commit: %w", err)
		}
		return fmt.Errorf("%w: %w", errUnknownCommit, err)
	}
	return nil
}

// committedNothing reports that PostgreSQL's answer to a commit says that nothing was committed. A server that ends the
// session, or panics because a file cannot be synced or the disk is full of WAL, may have committed already; also with
// 25P04, where the whole transaction took too long. Not with 25P03, where this process stood still: the server checks
// that before it takes the next request, including a commit.
func committedNothing(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	return pg.Code == "25P03" || cmp.Or(pg.SeverityUnlocalized, pg.Severity) == "ERROR" && !isConnectionCode(pg.Code)
}

// guarded turns a panic in an action's own code into a fault, which rolls back this transaction and harms no other
// payment.
func guarded(do func(q *db.Queries, tx *db.Transaction) error, q *db.Queries, tx *db.Transaction) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(q, tx)
}

// errConnection says that a transaction had no connection, or lost it, whatever the server said then.
var errConnection = errors.New("no connection to the database")

// isConnectionCode reports that the connection is lost, or that the server or a pooler in front of it ends the session.
func isConnectionCode(code string) bool {
	return len(code) == 5 && (code[:2] == "08" || code[:3] == "57P" || code == "25P04")
}

// IsPassing reports whether an error may go away without any change of the action: the database or the network is away,
// too busy, shutting down, or failing over, lets nobody in, or is damaged until it is mended, or only another process
// knows the kind of action, or all that is stored of it. An action that fails with such an error is tried again; after
// any other error its payment is given back. The two must not be confused in either direction (spec 05.14).
func IsPassing(err error) bool {
	if err == nil {
		return false
	}
	if _, refusal := AsRefusal(err); refusal {
		return false
	}
	var connect *pgconn.ConnectError
	if errors.Is(err, errConnection) || errors.Is(err, errUnknownCommit) || errors.As(err, &connect) {
		return true // also where the server lets nobody in: no code of an action has any part in that
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return isPassingCode(pg.Code)
	}
	var network net.Error
	return errors.Is(err, errUnknownKind) || errors.Is(err, errUnknownField) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

func isPassingCode(code string) bool {
	switch {
	case isConnectionCode(code):
	case strings.HasPrefix(code, "40"): // a deadlock or a serialisation failure
	case strings.HasPrefix(code, "53"): // the server has no room for this now
	case strings.HasPrefix(code, "58"), code == "XX001", code == "XX002": // its files fail: until they are mended
	case code == "55P03", code == "57014": // a lock, or the statement, took too long
	case code == "25006": // the server is read-only: not promoted yet, or demoted while our route to it is outdated
	case code == "25P03": // this process stood still for too long, and the server has ended its transaction
	default:
		return false
	}
	return true
}
