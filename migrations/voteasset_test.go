package migrations_test

import (
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// Votes of the days whose rewards are not paid yet are of the asset that their action was paid in. Nobody asks about those
// from before; as votes of credits they can take no sats. A day to come, which a clock that was ahead has paid, is none.
func TestVotesAreOfTheAssetTheyWerePaidIn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"no day is paid": "-2 REWARD_SATS, -1 REWARD_SATS, 0 OPTIMISTIC, 0 P2P, 0 PESSIMISTIC, 0 REWARD_SATS",
		"a day is paid":  "-1 REWARD_SATS, 0 OPTIMISTIC, 0 P2P, 0 PESSIMISTIC, 0 REWARD_SATS",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			dsn := pool.Config().ConnString()
			exec := func(sql string) {
				t.Helper()
				if _, err := pool.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			downTo(t, dsn, 66)
			// A vote at the first moment of its day, counted from today.
			exec(`WITH given (day, method) AS (VALUES (0, 'FEE_CREDIT'), (0, 'REWARD_SATS'), (0, 'P2P'), (0, 'OPTIMISTIC'), (0, 'PESSIMISTIC'),
					(-1, 'FEE_CREDIT'), (-1, 'REWARD_SATS'), (-2, 'REWARD_SATS')
				), voted AS (
					SELECT row_number() OVER () AS number, method, date_trunc('day', now(), 'UTC') + day * interval '24 hours' AS at FROM given
				), acted AS (
					INSERT INTO paid_action (id, kind, flow, method, state, cost_msat, created_at, changed_at, args) OVERRIDING SYSTEM VALUE
					SELECT number, 'ZAP', 'BALANCE', method::payment_method, 'PAID', 1, at, at, '{}' FROM voted
				)
				INSERT INTO vote_event (action_id, item_id, author_id, micros, at) SELECT number, 1, 1, 1, at FROM voted`)
			if name == "a day is paid" {
				exec(`INSERT INTO reward_day SELECT (now() AT TIME ZONE 'UTC')::date + day, 0, 0, 0, 0, now() FROM unnest(ARRAY[-3, -2, 5]) AS day`)
			}
			if err := migrations.Up(t.Context(), dsn); err != nil {
				t.Fatal(err)
			}
			var got string
			err := pool.QueryRow(t.Context(), `SELECT string_agg(day || ' ' || method, ', ' ORDER BY day, method::text)
				FROM (SELECT (v.at AT TIME ZONE 'UTC')::date - (now() AT TIME ZONE 'UTC')::date AS day, a.method FROM vote_event v JOIN paid_action a ON a.id = v.action_id WHERE NOT v.credits) AS found`).Scan(&got)
			if err != nil || got != want {
				t.Errorf("votes of sats are %s, %v; want %s", got, err, want)
			}
		})
	}
}
