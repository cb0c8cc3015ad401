package graph_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Whoever saves a wallet with a stolen key decides how long its test takes. What was asked for before the key was revoked is not stored
// after it: by then the owner has looked through the wallets.
func TestAWalletIsNotSavedAfterItsKeyWasRevoked(t *testing.T) {
	t.Parallel()
	for _, replaces := range []bool{false, true} {
		a := serve(t)
		owner := a.Person("owner", 0, 0)
		real := newLNbits(t)
		saved := any(nil)
		if replaces {
			saved = a.saveWallet(owner, real.URL, "the owner's")
		}
		slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a.revoke(owner)
			real.Config.Handler.ServeHTTP(w, r)
		}))
		t.Cleanup(slow.Close)
		if r := a.Do(owner, walletSave, vars{"id": saved, "url": slow.URL, "label": "the thief's"}); r.code() != "UNAUTHENTICATED" {
			t.Errorf("%s", r.Raw)
		}
		if n := a.Count(`SELECT count(*) FROM receiver_wallet WHERE label = 'the thief''s'`); n != 0 {
			t.Error("the thief's wallet was stored")
		}
	}
}

// Whoever revokes a key is told so only once nothing is being written with it any more.
func TestAKeyIsRevokedOnceNothingIsWrittenWithIt(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 0)
	tx, err := a.Pool.Begin(a.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).HoldKey(a.Ctx, graph.HashKey(owner.Key)); err != nil {
		t.Fatal(err)
	}
	revoked := make(chan struct{})
	go func() { a.revoke(owner); close(revoked) }()
	a.AwaitBlocked(1)
	if err := tx.Commit(a.Ctx); err != nil {
		t.Fatal(err)
	}
	<-revoked
	if _, err := db.New(a.Pool).HoldKey(a.Ctx, graph.HashKey(owner.Key)); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("it is good: %v", err)
	}
}
