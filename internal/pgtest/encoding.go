package pgtest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Encode makes a test's database anew: empty, and with another encoding.
func Encode(t testing.TB, pool *pgxpool.Pool, encoding string) {
	t.Helper()
	of := pool.Config().ConnConfig
	elsewhere(t, pool, `DROP DATABASE `+of.Database+` WITH (FORCE)`,
		fmt.Sprintf(`CREATE DATABASE %s OWNER %s ENCODING '%s' TEMPLATE template0`, of.Database, of.User, encoding))
}
