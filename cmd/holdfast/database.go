package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// planned are PostgreSQL's planner settings for reading pages. With an index that begins with the owner but continues
// with a column other than the page's order, PostgreSQL would read all rows of the owner and sort them, because it
// believes that owners have few (internal/db/profile.sql). And compiling the plan of a page takes longer than reading
// the page.
var planned = map[string]int64{"enable_incremental_sort": 0, "jit": 0}

// openPool connects, and checks that the database is reachable, in UTF-8, and at this program's version.
func openPool(ctx context.Context, e *environment) (*pgxpool.Pool, error) {
	parameters := e.config.Bounds.Parameters()
	maps.Copy(parameters, planned)
	e.failures = newFailures()
	e.timeline.Log, e.timeline.FailsOver = cmp.Or(e.timeline.Log, e.log), e.config.DatabaseFailsOver
	pool, err := connect(ctx, e, parameters)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "08P01" {
		// A pooler in transaction mode knows no session parameters, and refuses them. Then the server's own must do.
		if pool, err = connect(ctx, e, nil); err == nil {
			warnUnbounded(ctx, e, pool)
		}
	}
	if err != nil {
		return nil, databaseError(e, err)
	}
	return pool, nil
}

// connect opens a pool whose sessions begin with these parameters, except those that the address itself sets.
func connect(ctx context.Context, e *environment, parameters map[string]int64) (*pgxpool.Pool, error) {
	settings, err := pgxpool.ParseConfig(string(e.config.DatabaseURL))
	if err != nil {
		return nil, err
	}
	settings.MaxConns = e.config.DatabasePool
	if tracer := e.queryTracer(); tracer != nil {
		settings.ConnConfig.Tracer = tracer
	}
	e.failures.watch(&settings.ConnConfig.Config)
	e.timeline.Guard(settings)
	given := settings.ConnConfig.RuntimeParams
	given["application_name"] = "holdfast"
	for name, ms := range parameters {
		if _, ok := given[name]; !ok {
			given[name] = strconv.FormatInt(ms, 10)
		}
	}
	dbconn.BoundPool(settings, patience(e.config.Bounds.Statement, given["statement_timeout"]))
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = pool.AcquireFunc(limited, func(conn *pgxpool.Conn) error { return migrations.Encoding(conn.Conn().PgConn()) })
	if err == nil {
		err = migrated(limited, pool)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// grace is how long we wait for the error of a statement that PostgreSQL has ended.
const grace = 5 * time.Second

// patience is how long an answer is waited for: a little longer than a statement may take, by the connection's own
// parameter if it has one. It is 0, no limit, if statements have none, or one that is not written in plain
// milliseconds.
func patience(bound time.Duration, parameter string) time.Duration {
	if parameter != "" {
		ms, _ := strconv.ParseInt(parameter, 10, 32)
		bound = time.Duration(ms) * time.Millisecond
	}
	if bound <= 0 {
		return 0
	}
	return bound + grace
}

// warnUnbounded warns if a transaction would keep its locks when its process stands still.
func warnUnbounded(ctx context.Context, e *environment, pool *pgxpool.Pool) {
	if e.config.Bounds.Stall == 0 {
		return
	}
	var stall string
	if err := pool.QueryRow(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&stall); err != nil {
		e.log.WarnContext(ctx, "it is not known whether a process that stands still inside a transaction keeps its locks", "error", err)
	} else if stall == "0" {
		e.log.WarnContext(ctx, "the pooler takes no parameters, so a process that stands still inside a transaction keeps its locks: set idle_in_transaction_session_timeout, lock_timeout and statement_timeout for the role with ALTER ROLE")
	}
}

// errSchema marks a schema that is not the one that this program was made for. The text that follows it contains no
// address.
var errSchema = errors.New("its schema is not current")

// migrated returns nil if the schema is the one that this program was made for, and errSchema if it is another.
func migrated(ctx context.Context, pool *pgxpool.Pool) error {
	latest, err := migrations.Latest()
	if err != nil {
		return err
	}
	version, dirty, err := migrations.Read(ctx, pool)
	if err != nil {
		return err
	}
	switch {
	case dirty:
		return fmt.Errorf("%w: %s", errSchema, migrations.Mend(version))
	case version < latest:
		return fmt.Errorf("%w: it has version %d, and this program needs %d: run holdfast migrate up", errSchema, version, latest)
	case version > latest:
		return fmt.Errorf("%w: it has version %d, and this program knows %d at most: use a newer program", errSchema, version, latest)
	}
	return nil
}

// durable refuses a database that may forget what it has confirmed. After a crash, or a fail-over to a replica that was
// not waited for, it would not know of payments that were made (spec 05.16g).
func durable(ctx context.Context, pool *pgxpool.Pool) error {
	var mode string
	if err := pool.QueryRow(ctx, "SHOW synchronous_commit").Scan(&mode); err != nil {
		return err
	}
	if forgets := forgetful(mode); forgets != "" {
		return fmt.Errorf("the database has %s", forgets) // no refusal of our settings: it can be mended there, and then we start
	}
	return nil
}

// forgetful is what is wrong with a way in which commits wait, or "".
func forgetful(synchronousCommit string) string {
	switch synchronousCommit {
	case "off":
		return "synchronous_commit = off and can forget payments in a crash; turn it on"
	case "local":
		return "synchronous_commit = local, waits for no replica, and can forget payments when one takes over; set it to on"
	}
	return ""
}

// warnVolatile warns of a server that leaves it to its system when what is committed gets to the disk. Some that are rented
// out are so, and keep it elsewhere: so it is not refused.
func warnVolatile(ctx context.Context, e *environment, pool *pgxpool.Pool) {
	for _, setting := range []string{"fsync", "full_page_writes"} {
		var mode string
		if err := pool.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&mode); err != nil {
			e.log.WarnContext(ctx, "it is not known whether the database survives if its machine fails", "setting", setting, "error", err)
		} else if mode == "off" {
			e.log.WarnContext(ctx, "if its machine fails, the database can be lost with all payments: turn this on", "setting", setting)
		}
	}
}

// sorted refuses a database whose texts are sorted by other rules than those by which its indexes were made, as after an
// upgrade of the system's C library, or a restore of its files on another system. A unique index does not find what is
// in it then: the same idempotency key could be paid for twice.
func sorted(ctx context.Context, pool *pgxpool.Pool) error {
	var changed bool
	err := pool.QueryRow(ctx, "SELECT coalesce(datcollversion <> pg_database_collation_actual_version(oid), false) FROM pg_database WHERE datname = current_database()").Scan(&changed)
	if err != nil {
		return err
	}
	if changed {
		return errors.New("the database's texts are sorted by rules that have changed with the system since its indexes were made, which may not find what is in them: stop every process, run REINDEX DATABASE and then ALTER DATABASE … REFRESH COLLATION VERSION in it, and start again")
	}
	return nil
}

// sameDatabase refuses a direct address that leads to a database other than the service's. The locks, and the
// notifications about them, would be where nobody else is, and migrations would change a database that nobody serves. A
// database that cannot be reached is not compared, because the service waits only for its own.
func sameDatabase(ctx context.Context, e *environment) error {
	own, direct := e.config.DatabaseURL, e.config.Direct()
	if own == direct {
		return nil
	}
	here, err := identify(ctx, own)
	if err == nil {
		var there identity
		if there, err = identify(ctx, direct); err == nil && here != there {
			return fmt.Errorf("%w: HOLDFAST_LOCK_DIRECT_URL (%s) leads to the database %s of the cluster %d, HOLDFAST_DATABASE_URL (%s) to %s of %d: give the same database's own address, or unset it where there is no pooler",
				errSettings, direct, there.database, there.cluster, own, here.database, here.cluster)
		}
	}
	if err != nil {
		e.log.WarnContext(ctx, "it is not known whether HOLDFAST_LOCK_DIRECT_URL leads to the same database as HOLDFAST_DATABASE_URL", "error", err)
	}
	return nil
}

// identity distinguishes databases, whatever addresses lead to them. A copy of a whole cluster, such as a replica, has
// the same identity.
type identity struct {
	database string
	cluster  int64
}

func identify(ctx context.Context, at config.Database) (found identity, err error) {
	err = onConnection(ctx, at, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT current_database(), system_identifier FROM pg_control_system()").Scan(&found.database, &found.cluster)
	})
	return found, err
}

// onConnection asks one short question on a connection of its own.
func onConnection(ctx context.Context, at config.Database, ask func(context.Context, *pgx.Conn) error) error {
	pooled, err := pgxpool.ParseConfig(string(at)) // the address may have pool settings, which no server knows
	if err != nil {
		return err
	}
	settings := pooled.ConnConfig
	settings.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // prepares no statements, which a pooler might pass on to others
	dbconn.Bound(settings)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return ask(ctx, conn)
}
