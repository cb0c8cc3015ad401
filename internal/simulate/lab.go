package simulate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate/simdb"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// Lab is a PostgreSQL server without durability, on which the databases of seeds live.
type Lab struct {
	server   *pgserver.Server
	scratch  *child.Scratch
	template string // the database of which each is a copy
	made     atomic.Int64
}

// OpenLab starts the server. Nothing in it happens by itself: neither vacuum nor statistics change the order of rows,
// and the scheduler finds deadlocks (fiber.go), because it knows when nobody can continue.
func OpenLab(ctx context.Context) (*Lab, error) {
	scratch, err := child.NewScratch("holdfast-simulate")
	if err != nil {
		return nil, err
	}
	server, err := pgserver.Start(ctx, pgserver.Options{Dir: filepath.Join(scratch.Dir, "postgres"), Volatile: true, Socket: true, MaxConnections: 900,
		Settings: map[string]string{"autovacuum": "off", "jit": "off", "deadlock_timeout": "1d", "max_wal_size": "4GB",
			"checkpoint_timeout": "1h", "log_lock_waits": "off", "log_min_messages": "fatal", "plan_cache_mode": "force_generic_plan", "wal_level": "minimal", "max_wal_senders": "0"}})
	if err != nil {
		return nil, errors.Join(err, scratch.Remove())
	}
	l := &Lab{server: server, scratch: scratch, template: "migrated"}
	if err = server.EnsureDatabase(ctx, l.template); err == nil {
		err = migrations.Up(ctx, server.DSN(l.template))
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close stops the server and deletes all it had.
func (l *Lab) Close() error { return errors.Join(l.server.Remove(), l.scratch.Remove()) }

// database is where one seed after the other is tried. Its connections stay open in between.
type database struct {
	name    string
	pool    *pgxpool.Pool
	control *pgx.Conn // sees what no process of the service does
	locks   *pgx.Conn // asks who waits, while others work
	empty   string
	refill  []string
	renewed int // how many times

	mu     sync.Mutex
	spares []*session
}

func (d *database) queries() *simdb.Queries { return simdb.New(d.control) }

// open makes a fresh database.
func (l *Lab) open(ctx context.Context) (*database, error) {
	d := &database{name: fmt.Sprintf("%s_%d", l.template, l.made.Add(1))}
	admin, err := pgx.Connect(ctx, l.server.DSN("postgres"))
	if err != nil {
		return nil, err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+d.name+" TEMPLATE "+l.template); err != nil {
		return nil, fmt.Errorf("copy the database: %w", err)
	}
	if d.control, err = pgx.Connect(ctx, l.server.DSN(d.name)); err != nil {
		return nil, err
	}
	if d.locks, err = pgx.Connect(ctx, l.server.DSN(d.name)); err != nil {
		return nil, err
	}
	settings, err := pgxpool.ParseConfig(l.server.DSN(d.name))
	if err != nil {
		return nil, err
	}
	settings.MaxConns = 200 // each fiber that waits for a row has one, also one that its process has given up
	// The pool must do nothing by the real clock: the moments would not depend on the seed, and the connections would
	// belong to no fiber.
	settings.MaxConnIdleTime, settings.MaxConnLifetime, settings.HealthCheckPeriod = 24*time.Hour, 24*time.Hour, 24*time.Hour
	settings.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	settings.ConnConfig.DialFunc = d.dial
	settings.ConnConfig.Tracer = statements{}
	settings.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		if f := fiberOf(ctx); f != nil && f.dead() {
			return true, errDead
		}
		// A fiber whose time was up before it asked anything has given back a connection without noticing that it
		// broke. The pool's ping would notice.
		c, ours := conn.PgConn().Conn().(*wire)
		return !ours || !c.broken(), nil
	}
	if d.pool, err = pgxpool.NewWithConfig(ctx, settings); err != nil {
		return nil, err
	}
	return d, d.prepareReset(ctx)
}

// prepareReset notes how the database is brought back to what the migrations made. Emptied tables are as good as new
// ones. They cost less than a copy of the database, with new connections and new plans in each of them.
func (d *database) prepareReset(ctx context.Context) error {
	rows, err := d.control.Query(ctx, `SELECT quote_ident(relname) FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname NOT LIKE '%migration%' ORDER BY relname`)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var again []string
	if _, err := d.control.Exec(ctx, "CREATE SCHEMA pristine; SET session_replication_role = replica"); err != nil {
		return err
	}
	for _, table := range tables {
		again = append(again, "DELETE FROM "+table)
		var some bool
		if err := d.control.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+table+")").Scan(&some); err != nil {
			return err
		}
		if some {
			if _, err := d.control.Exec(ctx, "CREATE TABLE pristine."+table+" AS SELECT * FROM "+table); err != nil {
				return err
			}
			d.refill = append(d.refill, "INSERT INTO "+table+" OVERRIDING SYSTEM VALUE SELECT * FROM pristine."+table)
		}
	}
	rows, err = d.control.Query(ctx, `SELECT format('SELECT setval(%L, %s, %s)', schemaname || '.' || sequencename, coalesce(last_value, start_value), (last_value IS NOT NULL)::text)
		FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1`)
	if err != nil {
		return err
	}
	sequences, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	d.empty = strings.Join(append(again, sequences...), "; ")
	return d.renew(ctx)
}

// vacuumEvery is after how many seeds the tables are vacuumed. A vacuum discards every connection's plans for the
// tables, which would be a fifth of all work after each seed. Until then new rows still follow each other, behind the
// dead ones.
const vacuumEvery = 25

// renew makes the database as it was after the migrations. A table without a page was not written to, and is left
// alone.
func (d *database) renew(ctx context.Context) error {
	used, err := d.used(ctx)
	if err != nil {
		return err
	}
	vacuum := ""
	if d.renewed++; d.renewed%vacuumEvery == 1 {
		vacuum = "VACUUM " + strings.Join(used, ", ")
	}
	for _, sql := range []string{d.empty, vacuum, strings.Join(d.refill, "; ")} {
		if _, err := d.control.Exec(ctx, sql); err != nil {
			return fmt.Errorf("empty the database: %w", err)
		}
	}
	return nil
}

// used are the tables that have a page.
func (d *database) used(ctx context.Context) ([]string, error) {
	rows, err := d.control.Query(ctx, `SELECT quote_ident(relname) FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname NOT LIKE '%migration%' AND pg_relation_size(oid) > 0`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// waiting returns those of these backends that wait for a lock.
func (d *database) waiting(ctx context.Context, pids []int32) (map[int32]bool, error) {
	rows, err := d.locks.Query(ctx, `SELECT DISTINCT pid FROM pg_locks WHERE NOT granted AND pid = ANY($1)`, pids)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	waiting := map[int32]bool{}
	for _, pid := range found {
		waiting[pid] = true
	}
	return waiting, err
}

// blockers returns the backends that each of these waits for.
func (d *database) blockers(ctx context.Context, pids []int32) (map[int32][]int32, error) {
	rows, err := d.locks.Query(ctx, `SELECT pid, pg_blocking_pids(pid) FROM unnest($1::int[]) AS pid`, pids)
	if err != nil {
		return nil, err
	}
	found := map[int32][]int32{}
	var pid int32
	var others []int32
	_, err = pgx.ForEachRow(rows, []any{&pid, &others}, func() error {
		found[pid] = slices.Clone(others)
		return nil
	})
	return found, err
}

// terminate ends a backend that is working.
func (d *database) terminate(ctx context.Context, pid int32) error {
	_, err := d.control.Exec(ctx, `SELECT pg_terminate_backend($1)`, pid)
	return err
}

func (d *database) close(ctx context.Context) {
	d.pool.Close()
	_ = d.control.Close(ctx)
	_ = d.locks.Close(ctx)
	for s := d.spare(); s != nil; s = d.spare() {
		s.end()
	}
}

// keep stores a session for the next connection, or ends it if it cannot be used any more.
func (d *database) keep(s *session) {
	if !s.rest() {
		s.end()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spares = append(d.spares, s)
}

// spare is a session without a connection, or nil.
func (d *database) spare() *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.spares) == 0 {
		return nil
	}
	s := d.spares[len(d.spares)-1]
	d.spares = d.spares[:len(d.spares)-1]
	return s
}
