package pgtest

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Backup copies a test's database as it is now. restore puts the copy in its place, as an operator does who has lost
// the database: what was committed meanwhile is forgotten. Nothing may use the database during either.
func Backup(t testing.TB, pool *pgxpool.Pool) (restore func()) {
	t.Helper()
	of := pool.Config().ConnConfig
	kept := of.Database + "_copy"
	elsewhere(t, pool, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s OWNER %s`, kept, of.Database, of.User))
	t.Cleanup(func() { elsewhere(t, pool, `DROP DATABASE IF EXISTS `+kept) })
	return func() {
		t.Helper()
		elsewhere(t, pool, `DROP DATABASE `+of.Database+` WITH (FORCE)`, fmt.Sprintf(`ALTER DATABASE %s RENAME TO %s`, kept, of.Database))
	}
}

// elsewhere runs statements from another database of the server, with all connections to this one closed.
func elsewhere(t testing.TB, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	pool.Reset()
	ctx := context.WithoutCancel(t.Context())
	conn, err := superuser(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
