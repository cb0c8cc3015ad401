package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

type migrateCommand struct {
	Up      migrateUp      `cmd:"" changes:"" help:"Apply every missing migration."`
	Down    migrateDown    `cmd:"" changes:"" help:"Undo migrations. Destroys the data in what they added."`
	Version migrateVersion `cmd:"" help:"Print the current version and the latest one."`
	Force   migrateForce   `cmd:"" changes:"" help:"Record a version without running anything, after another program left the database dirty."`
}

type migrateUp struct{}

func (migrateUp) Run(ctx context.Context, e *environment) error {
	if err := sameDatabase(ctx, e); err != nil {
		return err
	}
	up := func() error {
		if err := migrations.Up(ctx, string(e.config.Direct())); err != nil {
			return migrationError(e, err)
		}
		return nil
	}
	if current(ctx, e) { // each start of the service asks for it (deploy)
		if err := up(); err != nil {
			return err
		}
	} else if err := noteMove(ctx, e, up); err != nil {
		return err
	}
	return printVersion(ctx, e)
}

// current reports whether no migration is missing, as far as the database says so.
func current(ctx context.Context, e *environment) bool {
	version, dirty, err := migrations.Version(ctx, string(e.config.Direct()))
	latest, failed := migrations.Latest()
	return err == nil && failed == nil && !dirty && version == latest
}

type migrateDown struct {
	Steps *int `help:"How many migrations to undo; 1 if left out."`
	All   bool `help:"Undo all. The database is empty afterwards. Refused once anything was paid for."`
	Yes   bool `help:"Really do it: what they hold is destroyed."`
}

func (c migrateDown) Run(ctx context.Context, e *environment) error {
	steps := 1
	if c.Steps != nil {
		steps = *c.Steps
	}
	switch {
	case c.All && c.Steps != nil: // whoever says both may have meant the fewer
		return fmt.Errorf("%w: --steps and --all contradict each other", errArguments)
	case c.All:
		steps = 0
	case steps < 1:
		return fmt.Errorf("%w: --steps must be 1 or more; --all undoes everything", errArguments)
	}
	if !c.Yes {
		return fmt.Errorf("%w: what a migration holds is destroyed with it: read its file for the way down first; add --yes to do it", errArguments)
	}
	if err := sameDatabase(ctx, e); err != nil {
		return err
	}
	from, _, err := migrations.Version(ctx, string(e.config.Direct()))
	if err != nil {
		return migrationError(e, err)
	}
	switch destroys, err := destroysMoney(ctx, e, from, steps); {
	case err != nil:
		return migrationError(e, err)
	case destroys:
		return fmt.Errorf("%w: that would destroy what people have paid for, and the books; nothing was taken back. If the whole database is to go, drop it", errArguments)
	}
	err = noteMove(ctx, e, func() error {
		if err := migrations.Down(ctx, string(e.config.Direct()), from, steps); err != nil {
			return migrationError(e, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printVersion(ctx, e)
}

// destroysMoney reports whether the way down from this version, by so many steps, would destroy what people have paid for,
// and the books.
func destroysMoney(ctx context.Context, e *environment, from uint, steps int) (destroys bool, err error) {
	if keeps, err := migrations.DownKeepsMoney(from, steps); keeps || err != nil {
		return false, err
	}
	err = onConnection(ctx, e.config.Direct(), func(ctx context.Context, conn *pgx.Conn) error {
		destroys, err = db.New(conn).AnyAction(ctx)
		return err
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42P01" { // undefined_table: the version is from before there were actions
		return false, nil
	}
	return destroys, err
}

type migrateVersion struct{}

func (migrateVersion) Run(ctx context.Context, e *environment) error {
	if err := sameDatabase(ctx, e); err != nil {
		return err
	}
	return printVersion(ctx, e)
}

type migrateForce struct {
	Version int  `arg:"" help:"The version that the database really has; 0 if none yet."`
	Yes     bool `help:"Do it even if nothing was left dirty, for example to correct an earlier force."`
}

func (c migrateForce) Run(ctx context.Context, e *environment) error {
	if err := sameDatabase(ctx, e); err != nil {
		return err
	}
	if !c.Yes {
		// If the database is not dirty its version is known, and with a different one the service would not start.
		switch version, dirty, err := migrations.Version(ctx, string(e.config.Direct())); {
		case err != nil:
			return migrationError(e, err)
		case !dirty && version != uint(max(c.Version, 0)):
			return fmt.Errorf("%w: the database has version %d, and no program left it dirty: there is nothing to force; add --yes to record %d anyway", errArguments, version, c.Version)
		}
	}
	err := noteMove(ctx, e, func() error {
		if err := migrations.Force(ctx, string(e.config.Direct()), c.Version); err != nil {
			return migrationError(e, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printVersion(ctx, e)
}

func printVersion(ctx context.Context, e *environment) error {
	version, dirty, err := migrations.Version(ctx, string(e.config.Direct()))
	if err != nil {
		return migrationError(e, err)
	}
	latest, err := migrations.Latest()
	if err != nil {
		return err
	}
	if err := e.print(struct {
		Version uint `json:"version"`
		Latest  uint `json:"latest"`
		Dirty   bool `json:"dirty"`
	}{version, latest, dirty}, func(t *table) {
		t.row("VERSION", "LATEST", "DIRTY")
		t.row(version, latest, dirty)
	}); err != nil {
		return err
	}
	if dirty {
		return errors.New(migrations.Mend(version))
	}
	return nil
}

func databaseError(e *environment, err error) error {
	return fmt.Errorf("database %s: %w", e.config.DatabaseURL, err)
}

// migrationError names the address that migrations use, unless the version as typed is wrong.
func migrationError(e *environment, err error) error {
	if errors.Is(err, migrations.ErrNoVersion) {
		return fmt.Errorf("%w: %w", errArguments, err)
	}
	return fmt.Errorf("database %s: %w", e.config.Direct(), err)
}
