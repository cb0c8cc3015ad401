// Package migrations holds the database schema, River's included, and moves a database between its versions.
package migrations

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5" // the driver behind pgx5://
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed *.sql
var files embed.FS

// open prepares golang-migrate on the database that dsn (a postgres:// URL) names. The caller closes it.
func open(dsn string) (*migrate.Migrate, error) {
	source, err := iofs.New(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read the embedded migrations: %w", err)
	}
	url, ok := strings.CutPrefix(dsn, "postgres://")
	if !ok {
		if url, ok = strings.CutPrefix(dsn, "postgresql://"); !ok {
			return nil, errors.New("the database address must be a URL that begins with postgres://")
		}
	}
	m, err := migrate.NewWithSourceInstance("iofs", source, "pgx5://"+url)
	if err != nil {
		return nil, fmt.Errorf("connect to migrate: %w", err)
	}
	return m, nil
}

func run(ctx context.Context, dsn string, do func(*migrate.Migrate) error) error {
	m, err := open(dsn)
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

// Force records version as the present one without running anything: the way out after a migration that failed half-way
// was mended by hand.
func Force(ctx context.Context, dsn string, version int) error {
	return run(ctx, dsn, func(m *migrate.Migrate) error { return m.Force(version) })
}

// Version is the present version, 0 before the first migration. dirty says that the last migration failed half-way.
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

// Latest is the version that Up leads to.
func Latest() (uint, error) {
	names, err := fs.Glob(files, "*.up.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("no embedded migrations: %w", err)
	}
	var version uint
	if _, err := fmt.Sscanf(names[len(names)-1], "%d_", &version); err != nil {
		return 0, fmt.Errorf("migration %s has no number: %w", names[len(names)-1], err)
	}
	return version, nil
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
