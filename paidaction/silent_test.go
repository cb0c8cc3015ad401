package paidaction_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/dbconn"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// The connections go silent on which all groups of zaps commit that may be under way at once. Of these zaps nobody knows; those that come after them
// are paid, and with their keys so are these.
func TestCommitsOnSilentConnectionsHoldUpNobody(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	item := w.Post(w.User("author", 1000*sat, 0), "popular")
	var requests []paidaction.Request
	for _, name := range []string{"first", "second", "third"} {
		requests = append(requests, zapBy(w.User(name, 100*sat, 0), item, 10, name))
	}
	late := zapBy(w.User("late", 100*sat, 0), item, 10, "late")

	proxy := pgtest.NewProxy(t, w.Pool)
	settings, err := pgxpool.ParseConfig(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	settings.MaxConns = 8
	settings.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "3000" // else PostgreSQL keeps the locks of who is gone
	dbconn.BoundPool(settings, 5*time.Second)                                         // far more than a busy machine takes
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	t.Cleanup(proxy.Reset)
	config := w.Engine.Config
	config.Pool = pool
	engine, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}

	answers := make(chan error, len(requests))
	proxy.Freeze(isCommit)
	for _, r := range requests {
		go func() {
			_, err := engine.Pay(w.Ctx, r)
			answers <- err
		}()
		<-proxy.Frozen // the next one takes another place
	}
	proxy.Freeze(nil)
	timeout := time.After(time.Minute)
	for range requests {
		select {
		case err := <-answers:
			w.WantRefusal(err, paidaction.CodeUnknownOutcome)
		case <-timeout:
			t.Fatal("a commit is waited for without an end")
		}
	}
	for _, r := range append(requests, late) {
		if pa, err := engine.Pay(w.Ctx, r); err != nil || pa.State != paidaction.Paid {
			t.Errorf("%s: %+v, %v", r.Key, pa, err)
		}
	}
	w.WantConserved()
}
