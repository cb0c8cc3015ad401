package graph_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// A key is deleted once it has been good for nothing for 30 days, whether it has expired or was revoked, and never while it is good.
func TestOnlyDeadKeysAreSwept(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, now := a.Person("owner", 0, 0), a.Clock.Now()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		expires, revoked time.Duration // from now; 0: never
		kept             int64
	}{
		"lasting":                          {0, 0, 1},
		"good for a day":                   {day, 0, 1},
		"just expired":                     {-29 * day, 0, 1},
		"just revoked":                     {20 * day, -29 * day, 1},
		"expired long ago":                 {-31 * day, 0, 0},
		"revoked long ago":                 {0, -31 * day, 0},
		"revoked long ago, before its end": {day, -31 * day, 0},
	} {
		at := func(d time.Duration) *time.Time {
			if d == 0 {
				return nil
			}
			return new(now.Add(d))
		}
		if _, err := a.Pool.Exec(a.Ctx, `INSERT INTO api_key (user_id, key_hash, scopes, created_at, expires_at, revoked_at) VALUES ($1, $2, '{READ}', $3, $4, $5)`,
			owner.ID, graph.HashKey(name), now.Add(-100*day), at(c.expires), at(c.revoked)); err != nil {
			t.Fatal(err)
		}
		if more, err := graph.SweepKeys(a.Ctx, db.New(a.Pool), now); more || err != nil {
			t.Errorf("%s: %t, %v", name, more, err)
		}
		var kept int64
		if err := a.Pool.QueryRow(a.Ctx, `SELECT count(*) FROM api_key WHERE key_hash = $1`, graph.HashKey(name)).Scan(&kept); err != nil || kept != c.kept {
			t.Errorf("%s: %d are kept, %v", name, kept, err)
		}
	}
}
