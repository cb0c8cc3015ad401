// Package postgres keeps the queues and leases of package lock in PostgreSQL: no further server, as many instances as there are.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/internal/lockdb"
)

// Options say where the database is.
type Options struct {
	// DSN is the database, as a URL. It may lead through a pooler in transaction mode.
	DSN string
	// Direct leads to the same database past any pooler, for LISTEN (default DSN). Where it turns out that nothing is heard
	// there, waiters poll.
	Direct string
	// NoListen leaves LISTEN out: waiters poll.
	NoListen bool
	// Connections is the size of the pool (default 4). It is the lock's own, so that a service whose connections all wait for
	// a lock cannot keep the holder from releasing it.
	Connections int32
	// Guard, if set, may change the settings of the pool before it is opened.
	Guard func(*pgxpool.Config)
}

// Store implements [lock.Store]. The schema is that of migrations.
type Store struct {
	pool   *pgxpool.Pool
	q      *lockdb.Queries
	direct *pgx.ConnConfig // nil: nobody listens
}

// Open makes a store. It connects when it is first used; the error is that of an address that cannot be read.
func Open(ctx context.Context, o Options) (*Store, error) {
	settings, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return nil, fmt.Errorf("the lock's database: %w", err)
	}
	settings.MaxConns = 4
	if o.Connections > 0 {
		settings.MaxConns = o.Connections
	}
	settings.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // what is not prepared is sent as text
	settings.AfterConnect = prepare
	settings.ConnConfig.RuntimeParams["application_name"] = "holdfast-lock"
	dbconn.BoundPool(settings, 0) // each call has its own limit
	if o.Guard != nil {
		o.Guard(settings)
	}
	s := &Store{}
	if !o.NoListen {
		direct := o.Direct
		if direct == "" {
			direct = o.DSN
		}
		if s.direct, err = pgx.ParseConfig(direct); err != nil {
			return nil, fmt.Errorf("the lock's direct address of the database: %w", err)
		}
		s.direct.DefaultQueryExecMode = pgx.QueryExecModeExec
		s.direct.RuntimeParams["application_name"] = "holdfast-lock-listen"
		dbconn.Bound(s.direct)
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, settings); err != nil {
		return nil, fmt.Errorf("the lock's database: %w", err)
	}
	s.q = lockdb.New(s.pool)
	return s, nil
}

// prepare prepares on a new connection what every turn needs: else PostgreSQL spends a quarter of a hand-over on reading and planning the
// statement that calls the function.
//
// Behind a pooler in transaction mode it prepares nothing, since there the next statement may meet another process of the server,
// which knows nothing of it.
func prepare(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	if is, err := pooled(ctx, conn); err != nil || is {
		return err
	}
	for _, statement := range []string{lockdb.Enter, lockdb.Release, lockdb.Look, lockdb.Beat} {
		if _, err := conn.Prepare(ctx, statement, statement); err != nil {
			return err
		}
	}
	return nil
}

// pooled says whether a pooler answers. It gives itself away: the process that it named when it was connected to, for cancelling, is not
// the one that answers.
func pooled(ctx context.Context, conn *pgx.Conn) (bool, error) {
	pid, err := lockdb.New(conn).Backend(ctx)
	return pid != int64(conn.PgConn().PID()), err
}

// Name implements [lock.Store].
func (s *Store) Name() string { return "postgres" }

// Close implements [lock.Store].
func (s *Store) Close() error {
	dbconn.Close(s.pool)
	return nil
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

func grant(fence, validMs int64) lock.Grant {
	return lock.Grant{Fence: fence, Valid: time.Duration(validMs) * time.Millisecond}
}

// handoff is the answer of every function of the database that may hand over.
func handoff(key, ticket, process string, fence, validMs, dead int64) lock.Handoff {
	return lock.Handoff{
		Ticket: lock.Ticket{Key: key, ID: ticket, Process: process}, Grant: grant(fence, validMs), Dead: int(dead),
	}
}

// Enter implements [lock.Store].
func (s *Store) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	r, err := s.q.Enter(ctx, lockdb.EnterParams{
		Key: e.Key, Ticket: e.ID, Process: e.Process, Name: e.Name, LiveMs: ms(e.Live),
		TtlMs: ms(e.TTL), HoldMs: ms(e.MaxHold), Queue: int64(e.MaxQueue), Wait: e.Wait, Fleeting: e.Fleeting,
	})
	if err != nil {
		return lock.Entered{}, err
	}
	return lock.Entered{
		State: lock.State(r.State), Grant: grant(r.Fence, r.ValidMs),
		Next: handoff(e.Key, r.NextTicket, r.NextProcess, r.NextFence, r.NextValidMs, r.Dead),
	}, nil
}

// Beat implements [lock.Store].
func (s *Store) Beat(ctx context.Context, p lock.Process, live time.Duration) error {
	return s.q.Beat(ctx, lockdb.BeatParams{Process: p.ID, Name: p.Name, LiveMs: ms(live)})
}

// Look implements [lock.Store].
func (s *Store) Look(ctx context.Context, tickets []lock.Ticket) ([]lock.Standing, error) {
	arg := lockdb.LookParams{}
	for _, t := range tickets {
		arg.Keys, arg.Tickets = append(arg.Keys, t.Key), append(arg.Tickets, t.ID)
	}
	rows, err := s.q.Look(ctx, arg)
	if err != nil {
		return nil, err
	}
	all := make([]lock.Standing, len(rows))
	for i, r := range rows {
		all[i] = lock.Standing{Ticket: lock.Ticket{Key: r.Key, ID: r.Ticket}, State: lock.State(r.State), Grant: grant(r.Fence, r.ValidMs)}
	}
	return all, nil
}

// Advance implements [lock.Store].
func (s *Store) Advance(ctx context.Context, key, process string) (lock.Handoff, error) {
	r, err := s.q.Advance(ctx, lockdb.AdvanceParams{Key: key, Process: process})
	return handoff(key, r.NextTicket, r.NextProcess, r.NextFence, r.NextValidMs, r.Dead), err
}

// Touch implements [lock.Store].
func (s *Store) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	arg := lockdb.TouchParams{}
	for _, t := range touches {
		arg.Keys, arg.Tickets, arg.TtlMs = append(arg.Keys, t.Key), append(arg.Tickets, t.ID), append(arg.TtlMs, ms(t.TTL))
	}
	rows, err := s.q.Touch(ctx, arg)
	if err != nil {
		return nil, err
	}
	valid := make(map[string]time.Duration, len(rows))
	for _, r := range rows {
		valid[r.Ticket] = time.Duration(r.ValidMs) * time.Millisecond
	}
	return valid, nil
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, t lock.Ticket) (lock.Released, error) {
	r, err := s.q.Release(ctx, lockdb.ReleaseParams{Key: t.Key, Ticket: t.ID, Process: t.Process})
	return lock.Released{
		Owner: r.Was == "owner" || r.Was == "late", Late: r.Was == "late",
		Next: handoff(t.Key, r.NextTicket, r.NextProcess, r.NextFence, r.NextValidMs, r.Dead),
	}, err
}

// Leave implements [lock.Store].
func (s *Store) Leave(ctx context.Context, t lock.Ticket) (lock.Handoff, error) {
	r, err := s.q.Leave(ctx, lockdb.LeaveParams{Key: t.Key, Ticket: t.ID, Process: t.Process})
	return handoff(t.Key, r.NextTicket, r.NextProcess, r.NextFence, r.NextValidMs, r.Dead), err
}

// sweepIdle is for how long a key must have been free or its lease over, or a process dead, to be removed.
const sweepIdle = time.Hour

// sweepKeys is how many keys of dead holders one sweep frees at most.
const sweepKeys = 1000

// Sweep implements [lock.Store]. A key whose holder died, and that nobody has asked for since, is first freed as by
// somebody who waits, one by one: it is removed once it has been free for long. Fences do not depend on its row.
func (s *Store) Sweep(ctx context.Context) error {
	keys, err := s.q.Abandoned(ctx, lockdb.AbandonedParams{IdleMs: ms(sweepIdle), Page: sweepKeys})
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := s.q.Advance(ctx, lockdb.AdvanceParams{Key: key}); err != nil {
			return err
		}
	}
	return s.q.Sweep(ctx, ms(sweepIdle))
}

// errSilent means that LISTEN works and nothing is heard, as behind a pooler in transaction mode.
var errSilent = errors.New("nothing is heard on the connection that listens")
