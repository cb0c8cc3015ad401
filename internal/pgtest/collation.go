package pgtest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Outdate makes a test's database anew: empty, and sorted by the rules of an ICU that is not there any more, as after an
// upgrade of the system. refresh records that its indexes were made anew.
func Outdate(t testing.TB, pool *pgxpool.Pool) (refresh func()) {
	t.Helper()
	of := pool.Config().ConnConfig
	elsewhere(t, pool, `DROP DATABASE `+of.Database+` WITH (FORCE)`,
		fmt.Sprintf(`CREATE DATABASE %s OWNER %s LOCALE_PROVIDER icu ICU_LOCALE 'en' TEMPLATE template0`, of.Database, of.User),
		fmt.Sprintf(`UPDATE pg_database SET datcollversion = '1' WHERE datname = '%s'`, of.Database))
	return func() {
		t.Helper()
		elsewhere(t, pool, fmt.Sprintf(`ALTER DATABASE %s REFRESH COLLATION VERSION`, of.Database))
	}
}
