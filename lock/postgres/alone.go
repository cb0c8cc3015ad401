package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/lock"
)

// ErrNotAlone means that another instance works on the same database, and that one of the two has its locks in memory.
var ErrNotAlone = errors.New("another instance works on this database, and locks in memory are for one alone: choose the strategy postgres or redis")

// ErrPooler means that an address leads to a pooler, where a session is nobody's own: two instances could each be told that they are alone.
var ErrPooler = errors.New("a pooler answers, and locks in memory are guarded by a session of their own: give the database's address past it as HOLDFAST_LOCK_DIRECT_URL, or choose the strategy postgres or redis")

// aloneKey is the advisory lock that the one instance holds, and that those share whose locks are in the database or in Redis. The number is "holdfast"
// in ASCII, so that other programs on the database will not use it by chance.
const aloneKey int64 = 0x686f6c6466617374

// Memory is the strategy in memory, guarded: it is kept in this process, but opened only if no other process has its locks there, in the database or in Redis.
type Memory struct {
	*lock.Memory
	stop   context.CancelFunc
	done   chan struct{}
	doomed atomic.Bool
}

// OpenMemory makes the store; maxKeys is as in [lock.NewMemory]. direct must lead past any pooler: what tells the instances
// apart is a lock of the session, which a pooler would share. The error is [ErrNotAlone] beside another instance, and [ErrPooler] through a pooler.
//
// If the connection breaks it is made again. Should another instance have taken its chance meanwhile, this one gives no
// locks and prolongs none from then on, nor does what it held go to those that wait here: they are turned away. That the
// server has not noticed, and the session of before still has the lock, is no other instance: it is ended.
func OpenMemory(ctx context.Context, direct string, maxKeys int) (*Memory, error) {
	config, err := pgx.ParseConfig(direct)
	if err != nil {
		return nil, fmt.Errorf("the lock's direct address of the database: %w", err)
	}
	dbconn.Bound(config)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec                             // it prepares nothing, which a pooler might give to others
	config.RuntimeParams["application_name"] = "holdfast-lock-alone-" + rand.Text() // of this instance alone
	conn, err := beAlone(ctx, config)
	if err != nil {
		return nil, err
	}
	guard, stop := context.WithCancel(context.Background())
	m := &Memory{Memory: lock.NewMemory(maxKeys), stop: stop, done: make(chan struct{})}
	go m.guard(guard, config, conn)
	return m, nil
}

func beAlone(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to see whether this instance is alone: %w", err)
	}
	if err := takeAll(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// takeAll holds what keeps every other instance out.
func takeAll(ctx context.Context, conn *pgx.Conn) error {
	if is, err := pooled(ctx, conn); err != nil {
		return err
	} else if is {
		return ErrPooler
	}
	var alone bool
	err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", aloneKey).Scan(&alone)
	if err == nil && !alone {
		err = ErrNotAlone
	}
	return err
}

// takePart holds, on a connection of an instance whose locks are not in memory, what keeps one with its locks in memory from starting. Where there is such a
// one already it goes on all the same, and says so: order alone depends on it.
func takePart(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	var together bool
	err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock_shared($1)", aloneKey).Scan(&together)
	if err == nil && !together {
		err = ErrNotAlone
	}
	return err
}

// endGhosts ends the sessions of this name that hold the lock, and answers whether one of another name does. pg_locks has the number in two halves.
const endGhosts = `SELECT coalesce(bool_or(CASE WHEN a.application_name = $2 THEN pg_terminate_backend(a.pid) IS NULL ELSE true END), false)
	FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND l.classid::bigint = $1::bigint >> 32 AND l.objid::bigint = $1::bigint & 4294967295 AND l.objsubid = 1`

// another says whether another instance has the lock. A session of this one that has it still is a ghost, for which it is over, and is ended.
func another(ctx context.Context, config *pgx.ConnConfig) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	var there bool
	err = conn.QueryRow(ctx, endGhosts, aloneKey, config.RuntimeParams["application_name"]).Scan(&there)
	return there, errors.Join(err, conn.Close(ctx))
}

// hangUp ends a session that nobody else needs, also one that has broken.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(closing)
}

// guard keeps the session until ctx ends.
func (m *Memory) guard(ctx context.Context, config *pgx.ConnConfig, conn *pgx.Conn) {
	defer close(m.done)
	for {
		if conn != nil {
			_, _ = conn.WaitForNotification(ctx) // there are none: it returns when the connection or ctx is over
			hangUp(ctx, conn)
		}
		again := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
		var err error
		conn, err = beAlone(ctx, config)
		if !errors.Is(err, ErrNotAlone) {
			continue
		}
		if there, err := another(ctx, config); err == nil && there {
			m.doomed.Store(true)
			return
		}
	}
}

func (m *Memory) refusal() error {
	if m.doomed.Load() {
		return ErrNotAlone
	}
	return nil
}

// Enter implements [lock.Store].
func (m *Memory) Enter(ctx context.Context, e lock.Entry) (lock.Entered, error) {
	if err := m.refusal(); err != nil {
		return lock.Entered{}, err
	}
	return m.Memory.Enter(ctx, e)
}

// Touch implements [lock.Store].
func (m *Memory) Touch(ctx context.Context, touches []lock.Touch) (map[string]time.Duration, error) {
	if err := m.refusal(); err != nil {
		return nil, err
	}
	return m.Memory.Touch(ctx, touches)
}

// Look implements [lock.Store]. Who waits here learns by this that there is no more to wait for.
func (m *Memory) Look(ctx context.Context, tickets []lock.Ticket) ([]lock.Standing, error) {
	if err := m.refusal(); err != nil {
		return nil, err
	}
	return m.Memory.Look(ctx, tickets)
}

// Advance implements [lock.Store].
func (m *Memory) Advance(ctx context.Context, key, process string) (lock.Handoff, error) {
	if err := m.refusal(); err != nil {
		return lock.Handoff{}, err
	}
	return m.Memory.Advance(ctx, key, process)
}

// Release implements [lock.Store].
func (m *Memory) Release(ctx context.Context, t lock.Ticket) (lock.Released, error) {
	if err := m.refusal(); err != nil {
		return lock.Released{}, err
	}
	return m.Memory.Release(ctx, t)
}

// Leave implements [lock.Store].
func (m *Memory) Leave(ctx context.Context, t lock.Ticket) (lock.Handoff, error) {
	if err := m.refusal(); err != nil {
		return lock.Handoff{}, err
	}
	return m.Memory.Leave(ctx, t)
}

// Close implements [lock.Store].
func (m *Memory) Close() error {
	m.stop()
	<-m.done
	return nil
}
