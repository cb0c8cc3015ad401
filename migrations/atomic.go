package migrations

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5/pgconn"
)

// atomic records the version in the transaction of the migration that leads to it: a file is sent as a whole, and PostgreSQL makes one transaction of
// it. So a migration that fails or is killed, at whatever moment, is there with its version, or neither is. golang-migrate by itself marks the
// database as dirty before, and takes that back after; what it finds in between may be there or not, and nobody can tell.
type atomic struct {
	database.Driver
	leadsTo int // the version after the migration that runs next
}

// SetVersion implements [database.Driver]. To be dirty is what golang-migrate sets before it runs a migration.
func (a *atomic) SetVersion(version int, dirty bool) error {
	if dirty {
		a.leadsTo = version
		return nil
	}
	return a.Driver.SetVersion(version, false)
}

// Run implements [database.Driver].
func (a *atomic) Run(migration io.Reader) error {
	record := "\n;\nDELETE FROM schema_migrations;"
	if a.leadsTo != database.NilVersion {
		record += fmt.Sprintf("\nINSERT INTO schema_migrations (version, dirty) VALUES (%d, false);", a.leadsTo)
	}
	err := a.Driver.Run(io.MultiReader(migration, strings.NewReader(record)))
	var failed database.Error
	if errors.As(err, &failed) {
		// Its own words are the whole file, with the reason in front and behind.
		return fmt.Errorf("the migration to version %d failed: %w%s", max(a.leadsTo, 0), failed.OrigErr, detail(failed))
	}
	return err
}

// detail is what PostgreSQL says besides, and what to do about it if we know.
func detail(failed database.Error) (text string) {
	var refused *pgconn.PgError
	if !errors.As(failed.OrigErr, &refused) {
		return ""
	}
	if refused.Position > 0 {
		text = fmt.Sprintf(", in line %d of its file", failed.Line)
	}
	if refused.Detail != "" {
		text += ": " + refused.Detail
	}
	if refused.Code == "40P01" { // deadlock_detected
		text += " Something uses the same tables, such as a process of the service that was not stopped: stop it, and try again"
	}
	return text
}
