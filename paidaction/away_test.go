package paidaction_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What may pass by itself is told as such, and never as a fault of ours or as a refusal of the action.
func TestDatabaseAwayIsToldAsPassing(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100*sat, 0)
	pa := donate(w, user, "")
	for name, away := range map[string]func(c *pgx.ConnConfig){
		"nobody answers":         func(c *pgx.ConnConfig) { c.Port = 1 },
		"nobody is let in":       func(c *pgx.ConnConfig) { c.User = "nobody" },
		"it is not restored yet": func(c *pgx.ConnConfig) { c.Database = "nowhere" },
	} {
		settings := w.Pool.Config()
		away(settings.ConnConfig)
		pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		config := w.Engine.Config
		config.Pool = pool
		engine, err := paidaction.New(config)
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, err error) {
			if !errors.Is(err, paidaction.Refused(paidaction.CodeTryAgain)) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		for _, key := range []string{"", "a key"} {
			_, err = engine.Pay(w.Ctx, paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 1}, Key: key, Caller: enginetest.Caller(user)})
			try("pay", err)
		}
		_, err = engine.Get(w.Ctx, enginetest.Caller(user), pa.ID)
		try("get", err)
		_, err = engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID)
		try("cancel", err)
	}
}

// PostgreSQL lets no new connection in, as between ALTER ROLE and the restart when a password is changed, and the pool needs one: a held payment
// waits. That is no fault of its action.
func TestAHeldPaymentWaitsUntilConnectionsAreLetIn(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	var shut bool
	settings := w.Pool.Config()
	settings.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if shut {
			c.User = "nobody"
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var used []*pgxpool.Conn
	letGo := func() {
		for _, c := range used {
			c.Release()
		}
		used = nil
	}
	defer letGo()
	config := w.Engine.Config
	config.Pool = pool
	config.Hooks.Fault = func(_ int64, err error) {
		t.Errorf("a fault of the action: %v", err)
		letGo() // and what is made of it is committed
	}
	engine, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Node.Before(simnode.MethodLookup, func(paidaction.Hash) {
		if !shut {
			shut, used = true, pool.AcquireAllIdle(w.Ctx)
		}
	})
	if p, err := engine.Advance(w.Ctx, pa.ID); err == nil || p != paidaction.Owing {
		t.Errorf("progress %d, error %v", p, err)
	}
	w.WantState(pa.ID, paidaction.PendingHeld)
	letGo()
	if p, err := engine.Advance(w.Ctx, pa.ID); err != nil || p != paidaction.Moved {
		t.Errorf("progress %d, error %v", p, err)
	}
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
}
