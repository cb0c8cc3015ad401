package graph_test

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// inside matches what an answer never holds: SQL, a stack, a path, an address, a name from the database. The number of
// a fault has capital letters, which may happen to be PGX.
var inside = regexp.MustCompile(`(?i)SQLSTATE|\b(select|insert|update|delete)\b .*\b(from|into|set)\b|(?-i:pgx)|postgres|goroutine|runtime error|panic|\.go\b|/root/|/var/|` +
	`127\.0\.0\.1|localhost|host=|database=|relation |column |at the disco|dial |connect:|simnode|(?-i:paidaction)|community\.`)

// Whatever breaks, nobody learns more than a number to ask about (spec 05.38), whatever they ask for.
func TestWhatBreaksIsNotTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(s *setting)
		faults int // at least so many of the operations fail because of it
	}{
		// The table of keys stays: without it, authentication would be the first to fail.
		"the tables are gone": {func(s *setting) {
			s.exec(`DO $$ DECLARE name text; BEGIN
				FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'api_key' LOOP
					EXECUTE format('ALTER TABLE %I RENAME TO %I', name, name || '_away');
				END LOOP; END $$`)
		}, 40},
		"the connections are gone": {func(s *setting) { s.Pool.Close() }, len(authorised)},
		"the node is gone":         {func(s *setting) { s.Node.SetAway(true) }, 0},
		"panics in the engine":     {func(s *setting) { s.Engine.Now = func() time.Time { panic("at the disco") } }, 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetting(t)
			c.breaks(s)
			failed := 0
			for _, row := range authorised {
				r := s.ask(s.owner, s.filled(row.operation, "owner"))
				if r.code() == "INTERNAL" {
					failed++
					if fault := r.Errors[0].Extensions.Fault; fault == "" || !strings.Contains(s.Log.String(), fault) {
						t.Errorf("%s: the log does not have fault %q", row.field, fault)
					}
				}
				wantCoded(t, row.field, r)
			}
			if failed < c.faults {
				t.Errorf("%d of %d operations failed, want %d", failed, len(authorised), c.faults)
			}
			for _, path := range []string{"/uploads/" + strings.Repeat("x", 22), "/uploads/x", "/nothing"} {
				if f := s.File("GET", path, s.owner, nil); inside.MatchString(f.Body) || f.Status == http.StatusOK {
					t.Errorf("%s: %d %s", path, f.Status, f.Body)
				}
			}
			if f := s.File("POST", "/uploads", s.owner, strings.NewReader(png), "Content-Type", "image/png"); inside.MatchString(f.Body) {
				t.Errorf("an upload: %d %s", f.Status, f.Body)
			}
		})
	}
}

// wantCoded fails the test if an answer shows the inside, or if an error has no code or no sentence.
func wantCoded(t *testing.T, name string, r answer) {
	t.Helper()
	for _, e := range r.Errors {
		if e.Extensions.Code == "" || !strings.HasSuffix(e.Message, ".") && !strings.HasSuffix(e.Message, "?") || inside.MatchString(e.Message) {
			t.Errorf("%s says %+v", name, e)
		}
	}
	if len(r.Errors) > 0 && inside.MatchString(r.Raw) {
		t.Errorf("%s shows %q: %s", name, inside.FindString(r.Raw), r.Raw)
	}
}

func (a *api) exec(statement string) {
	a.Helper()
	if _, err := a.Pool.Exec(a.Ctx, statement); err != nil {
		a.Fatal(err)
	}
}

// A panic during a subscription ends that subscription, and nothing else.
func TestPanicsEndTheirSubscription(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	a := serve(t, func(c *graph.Config) {
		now := c.Now
		c.Now = func() time.Time {
			if broken.Load() {
				panic("at the disco")
			}
			return now()
		}
	})
	payer := a.Person("payer", 0, 0)
	v, id, _ := a.holdPost(payer, "followed")
	s, e := a.Socket(payer), a.Events(payer, follow, v)
	s.Subscribe("1", follow, v)
	s.WantState("1", "PENDING_HELD")
	e.WantState("PENDING_HELD")
	broken.Store(true)
	a.Feed.changed(id)
	if m, err := s.read(); err != nil || m.Type != "error" || inside.Match(m.Payload) || !strings.Contains(string(m.Payload), "INTERNAL") {
		t.Errorf("%+v %s, %v", m, m.Payload, err)
	}
	e.WantCut()
	broken.Store(false)
	if r := a.Want(payer, `{ me { user { name } } }`, nil); r.text("me", "user", "name") != "payer" || !strings.Contains(a.Log.String(), "at the disco") {
		t.Errorf("afterwards: %s", r.Raw)
	}
}

// Without the database no caller can be identified. A request is refused before any of it is begun, so the client may
// send it again unchanged.
func TestWithoutADatabaseNothingIsBegun(t *testing.T) {
	t.Parallel()
	a := serve(t, func(c *graph.Config) {
		away := c.Pool.Config()
		away.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
		pool, err := pgxpool.NewWithConfig(t.Context(), away)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Pool = pool
	})
	r := a.Post("hf_a_key", `{"query":"mutation { donate(sats: 1) { id } }"}`)
	if r.Status != http.StatusServiceUnavailable || r.code() != "TRY_AGAIN" || r.Errors[0].Extensions.Fault != "" {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
}

// On an open connection, too, a key that cannot be looked up opens nothing: it may have been revoked meanwhile.
func TestWithoutALookAtItsKeyAConnectionDoesNothing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	s := a.Socket(a.Person("payer", 1000, 0))
	if _, err := a.Pool.Exec(a.Ctx, `ALTER TABLE key_epoch RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	s.Subscribe("1", `mutation { donate(sats: 1) { id } }`, nil)
	if r := s.next("1"); r.code() != "INTERNAL" || a.Count(`SELECT count(*) FROM paid_action`) != 0 {
		t.Errorf("%s", r.Raw)
	}
}
