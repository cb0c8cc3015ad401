// Package migrations holds the database schema, River's included, and moves a database between its versions.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

//go:embed *.sql
var files embed.FS

// open prepares golang-migrate on the database that dsn (a postgres:// URL) names. The caller closes it.
func open(ctx context.Context, dsn string) (*migrate.Migrate, error) {
	source, err := iofs.New(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read the embedded migrations: %w", err)
	}
	db, err := connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	driver, err := pgxmigrate.WithInstance(db, &pgxmigrate.Config{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return migrate.NewWithInstance("iofs", source, "pgx5", &atomic{Driver: driver})
}

// connect makes the one connection that migrations run on.
func connect(ctx context.Context, dsn string) (*sql.DB, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return nil, errors.New("the database address must be a URL that begins with postgres://")
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(unbounded))
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// unbounded lets a session take its time, whatever its role or its address says: a migration of much data takes longer than a request may. Which bounds
// there are depends on PostgreSQL's version.
func unbounded(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN
		('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')`)
	return err
}

func run(ctx context.Context, dsn string, do func(*migrate.Migrate) error) error {
	m, err := open(ctx, dsn)
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
	if err := do(m); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return ctx.Err()
}

// Up applies every migration that is missing. It changes nothing where none is.
func Up(ctx context.Context, dsn string) error {
	return run(ctx, dsn, (*migrate.Migrate).Up)
}

// Down takes back the last steps migrations, all of them if steps is 0. It destroys what those migrations hold.
func Down(ctx context.Context, dsn string, steps int) error {
	return run(ctx, dsn, func(m *migrate.Migrate) error {
		if steps == 0 {
			return m.Down()
		}
		return m.Steps(-steps)
	})
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
func Version(ctx context.Context, dsn string) (version uint, dirty bool, err error) {
	err = run(ctx, dsn, func(m *migrate.Migrate) error {
		version, dirty, err = m.Version()
		if errors.Is(err, migrate.ErrNilVersion) {
			return nil
		}
		return err
	})
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
