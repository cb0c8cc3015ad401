package pgtest

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Member makes a role that is a member of the role of a test's database, as an operator's of their own is. It returns the
// database's address for that role. The role of a failed test stays, as its database does.
func Member(t testing.TB, pool *pgxpool.Pool) (role, dsn string) {
	t.Helper()
	of := pool.Config().ConnConfig
	address, err := url.Parse(of.ConnString())
	if err != nil {
		t.Fatal(err)
	}
	role = "member_of_" + of.Database[max(0, len(of.Database)-40):] // a name is of 63 letters at most, and the server's
	elsewhere(t, pool, fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD 'member' IN ROLE %s`, role, of.User))
	t.Cleanup(func() {
		if !t.Failed() {
			elsewhere(t, pool, `DROP ROLE `+role)
		}
	})
	address.User = url.UserPassword(role, "member")
	return role, address.String()
}
