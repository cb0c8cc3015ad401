// Package migrations holds the database schema, River's included, and moves a database between its versions (Up, Down).
// Only one process migrates a database at a time. A migration that fails or is killed leaves nothing behind: it commits
// together with the version that it leads to (atomic.go).
package migrations

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
)

//go:embed *.sql
var files embed.FS

// lockWait is how long others are waited for that migrate the same database.
const lockWait = time.Minute

// patience is how long an answer is waited for that PostgreSQL gives at once, or when it has given up on a lock.
const patience = 10 * time.Second

// open prepares golang-migrate on the database that dsn (a postgres:// URL) names, which nobody else migrates until the caller closes it.
func open(ctx context.Context, dsn string, wait time.Duration) (*migrate.Migrate, error) {
	source, err := iofs.New(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read the embedded migrations: %w", err)
	}
	config, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		err := begin(ctx, conn, wait)
		if err != nil {
			_ = conn.Close(ctx)
		}
		return err
	}))
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	driver, err := pgxmigrate.WithInstance(db, &pgxmigrate.Config{DatabaseName: lockName(config.Database)})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return migrate.NewWithInstance("iofs", source, "pgx5", &atomic{Driver: driver})
}

func parse(dsn string) (*pgx.ConnConfig, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return nil, errors.New("the database address must be a URL that begins with postgres://")
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	dbconn.Bound(config)
	return config, nil
}

// ErrPooler means that an address leads to a pooler, where a session is nobody's own: the lock of migrations would stay behind on a connection that
// others get, and keep all later ones waiting.
var ErrPooler = errors.New("a pooler answers, and migrations need a session of their own: give the database's address past it as HOLDFAST_LOCK_DIRECT_URL")

// ErrLocked means that somebody else migrates the database, or left the lock of migrations behind.
var ErrLocked = errors.New("the lock of migrations is taken")

// ErrOwner means that the schema belongs to another role than that of the session. What a migration makes belongs to
// whoever runs it, if only as a member of the service's role, and the service then may not use it.
var ErrOwner = errors.New("the schema belongs to another role")

// begin prepares a session in which migrations run. It has their lock, which is golang-migrate's own, so that that one finds it taken by itself.
//
// It is not bounded, whatever its role or its address says: a migration of much data takes longer than a request may. Which bounds there are depends on
// PostgreSQL's version.
func begin(ctx context.Context, conn *pgx.Conn, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait+patience)
	defer cancel()
	if err := Encoding(conn.PgConn()); err != nil {
		return err
	}
	var pid uint32
	var schema string
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid(), coalesce(current_schema(), '')", pgx.QueryExecModeSimpleProtocol).Scan(&pid, &schema); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() { // a pooler named another process when it was connected to
		return ErrPooler
	}
	const bound = `SELECT set_config(name, CASE name WHEN 'lock_timeout' THEN $1 ELSE '0' END, false) FROM pg_settings WHERE name IN
		('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')`
	if _, err := conn.Exec(ctx, bound, strconv.FormatInt(wait.Milliseconds(), 10)); err != nil {
		return err
	}
	lock, err := database.GenerateAdvisoryLockId(lockName(conn.Config().Database), schema, pgxmigrate.DefaultMigrationsTable)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT pg_advisory_lock("+lock+")")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "55P03" { // lock_not_available
		return locked(ctx, conn, lock, wait)
	} else if err != nil {
		return err
	}
	var owner, role string
	err = conn.QueryRow(ctx, `SELECT pg_get_userbyid(relowner), current_user FROM pg_class
		WHERE oid = to_regclass('schema_migrations') AND pg_get_userbyid(relowner) <> current_user`).Scan(&owner, &role)
	if err == nil {
		return fmt.Errorf("%w: what %[3]s makes could not be used by %[2]s. Migrate as %[2]s; an operator with a role of their own does after ALTER ROLE %[3]s SET role = '%[2]s'", ErrOwner, owner, role)
	} else if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	_, err = conn.Exec(ctx, "SET lock_timeout = 0")
	return err
}

// lockName is what golang-migrate calls the database that an URL names.
func lockName(database string) string { return "/" + database }

// locked says who has the lock.
func locked(ctx context.Context, conn *pgx.Conn, lock string, wait time.Duration) error {
	var pid int
	err := conn.QueryRow(ctx, `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 0 AND objsubid = 1 AND objid = `+lock+
		` AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1`).Scan(&pid)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: it was for %s, and is free now: see with holdfast migrate version what is left to do", ErrLocked, wait)
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%w, for %s and longer, by PostgreSQL's process %[3]d: if a migration is under way, let it end, and see with holdfast migrate version what is left to do; if none is, as after one through a pooler, end that process with SELECT pg_terminate_backend(%[3]d)", ErrLocked, wait, pid)
}

func run(ctx context.Context, dsn string, do func(*migrate.Migrate) error) error {
	m, err := open(ctx, dsn, lockWait)
	if err != nil {
		return err
	}
	defer m.Close()
	// golang-migrate knows no contexts: a cancelled one makes it stop between two migrations, never inside one.
	stop := context.AfterFunc(ctx, func() {
		select {
		case m.GracefulStop <- true:
		default:
		}
	})
	defer stop()
	err = do(m)
	if dirty := (migrate.ErrDirty{}); errors.As(err, &dirty) && dirty.Version > 0 {
		return errors.New(Mend(uint(dirty.Version)))
	}
	if err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return ctx.Err()
}

// Up applies every migration that is missing. It changes nothing where none is.
func Up(ctx context.Context, dsn string) error {
	return run(ctx, dsn, func(m *migrate.Migrate) error {
		if _, _, err := applied(m); err != nil {
			return err
		}
		return m.Up()
	})
}

// ErrMoved means that a database has another version by now than whoever asked for the way down has seen.
var ErrMoved = errors.New("the database has moved meanwhile")

// Down takes back the last steps migrations before from, which is the version that the caller has seen: all of them if steps is 0, and none if there are
// fewer, or if the version is another by now. It destroys what those migrations hold.
func Down(ctx context.Context, dsn string, from uint, steps int) error {
	return run(ctx, dsn, func(m *migrate.Migrate) error {
		version, there, err := applied(m)
		switch {
		case err != nil:
			return err
		case version != from: // somebody else had the lock: perhaps the same command, given twice
			return fmt.Errorf("%w, from version %d to %d, and nothing was taken back: see with holdfast migrate version what is left to do", ErrMoved, from, version)
		case steps > there:
			return fmt.Errorf("%w: %d were to be taken back, and there are %d", ErrNoVersion, steps, there)
		case steps == 0:
			return m.Down()
		}
		return m.Steps(-steps)
	})
}

// applied is a database's version, and how many migrations it has. A version that is newer than all of them is refused.
func applied(m *migrate.Migrate) (version uint, there int, err error) {
	version, _, err = m.Version()
	if errors.Is(err, migrate.ErrNilVersion) {
		return 0, 0, nil
	} else if err != nil {
		return 0, 0, err
	}
	all, err := versions()
	if err != nil {
		return 0, 0, err
	}
	if latest := all[len(all)-1]; version > latest {
		return 0, 0, fmt.Errorf("it has version %d, and this program knows %d at most: use a newer program", version, latest)
	}
	for _, v := range all {
		if v <= version {
			there++
		}
	}
	return version, there, nil
}

// ErrNoVersion means that no migration has this number.
var ErrNoVersion = errors.New("there is no such version")

// Force records version, 0 for the one before the first migration, as the present one without running anything.
func Force(ctx context.Context, dsn string, version int) error {
	all, err := versions()
	if err != nil {
		return err
	}
	recorded := version
	if version == 0 {
		recorded = database.NilVersion
	} else if version < 0 || !slices.Contains(all, uint(version)) {
		return fmt.Errorf("%w: %d is none of this program's migrations, whose latest is %d; 0 is an empty database", ErrNoVersion, version, all[len(all)-1])
	}
	return run(ctx, dsn, func(m *migrate.Migrate) error { return m.Force(recorded) })
}

// Version is the present version, 0 before the first migration. dirty says that another program's attempt at a migration failed ([Mend]); one of ours
// leaves the version that the database has.
//
// It waits for no lock, and may be asked through a pooler.
func Version(ctx context.Context, dsn string) (version uint, dirty bool, err error) {
	config, err := parse(dsn)
	if err != nil {
		return 0, false, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // it prepares nothing, which a pooler might give to others
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer conn.Close(ctx)
	if err := Encoding(conn.PgConn()); err != nil {
		return 0, false, err
	}
	return Read(ctx, conn)
}

// Read is Version on a connection that is there.
func Read(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (version uint, dirty bool, err error) {
	var exists bool
	if err := on.QueryRow(ctx, "SELECT to_regclass('schema_migrations') IS NOT NULL").Scan(&exists); err != nil || !exists {
		return 0, false, err
	}
	err = on.QueryRow(ctx, "SELECT greatest(max(version), 0), coalesce(bool_or(dirty), false) FROM schema_migrations").Scan(&version, &dirty)
	return version, dirty, err
}

// Mend says what to do about a database that is marked as dirty at this version.
func Mend(version uint) string {
	all, err := versions()
	if i := slices.Index(all, version); err == nil && i >= 0 {
		if names, err := fs.Glob(files, fmt.Sprintf("%04d_*.up.sql", version)); err == nil && len(names) == 1 {
			before := uint(0)
			if i > 0 {
				before = all[i-1]
			}
			return fmt.Sprintf("migration %d was cut short. It is one transaction, so all of it is there or nothing: if the database has what migrations/%s makes, run holdfast migrate force %d, else holdfast migrate force %d; then holdfast migrate up",
				version, names[0], version, before)
		}
	}
	return fmt.Sprintf("migration %d was cut short, and this program does not know it: use the one that ran it", version)
}

// Latest is the version that Up leads to.
func Latest() (uint, error) {
	all, err := versions()
	if err != nil {
		return 0, err
	}
	return all[len(all)-1], nil
}

// versions are the numbers of all migrations, of which there is one at least, in their order. Some numbers are left out.
func versions() ([]uint, error) {
	names, err := fs.Glob(files, "*.up.sql")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no embedded migrations: %w", err)
	}
	all := make([]uint, len(names))
	for i, name := range names {
		if _, err := fmt.Sscanf(name, "%d_", &all[i]); err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", name, err)
		}
	}
	return all, nil
}

// Hash changes whenever a migration does.
func Hash() (string, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
