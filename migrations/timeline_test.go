package migrations_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// Nobody knows any more which was the newest action when the histories were accepted that are there already: all actions
// count as begun before. The same is noted where an older program, which knows of no numbers, meets one.
func TestHistoriesThatAreThereCountForAllActions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	downTo(t, dsn, 71)
	do(t, pool, `INSERT INTO timeline (name, met_at, accepted_at) VALUES ('first', '2026-01-01', '2026-01-01'), ('accepted', '2026-01-02', '2026-01-03'),
		('doubted', '2026-01-04', NULL)`, `SELECT setval('paid_action_id_seq', 20)`)
	if err := migrations.Up(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	do(t, pool, `SELECT setval('paid_action_id_seq', 30)`, `INSERT INTO timeline (name, met_at) VALUES ('met by an older program', '2026-01-05')`)
	var numbers string
	err := pool.QueryRow(t.Context(), `SELECT string_agg(name || ' ' || last_action, ', ' ORDER BY met_at) FROM timeline`).Scan(&numbers)
	if want := "first 20, accepted 20, doubted 20, met by an older program 30"; err != nil || numbers != want {
		t.Errorf("%s, %v; want %s", numbers, err, want)
	}
}
