package pgtest

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Copy is New with all that another test's database holds now. That is far quicker than to make all of it happen again.
// Nothing may use the other database meanwhile, but for further copies.
func Copy(t testing.TB, of *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	from, name := of.Config().ConnConfig, fmt.Sprintf("copy_%016x", rand.Uint64())
	address, err := url.Parse(of.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	address.Path = name
	elsewhere(t, of, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s OWNER %s`, name, from.Database, from.User))
	t.Cleanup(func() {
		if !t.Failed() {
			elsewhere(t, of, `DROP DATABASE `+name+` WITH (FORCE)`)
		}
	})
	return connect(t, address.String(), refuseDeadlocks)
}
