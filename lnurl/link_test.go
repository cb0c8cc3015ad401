package lnurl_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth/keyauthtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Two browsers sign in by the same new wallet at the same moment: both come to the one account that it opens. An account of which no wallet
// knows could never be entered again.
func TestANewWalletOpensOneAccount(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	lnurl, secret := h.Begin()
	if a := h.Get(h.Answer("alice's", lnurl).String()); a.Status != "OK" {
		t.Fatalf("%s", a.Raw)
	}
	alice := h.User("alice", 0, 0)
	tx, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(h.Ctx, `INSERT INTO linking_key (key, user_id, created_at) SELECT linking_key, $1, created_at FROM sign_in`, alice); err != nil {
		t.Fatal(err)
	}
	second := make(chan asked, 1)
	go func() { second <- h.SignedIn(secret, "") }()
	h.AwaitBlocked(1) // it has found nobody whose wallet this is
	if err := tx.Commit(h.Ctx); err != nil {
		t.Fatal(err)
	}
	if in := <-second; in.Data["it"] == nil || in.Data["it"].New || in.Data["it"].User.Name != "alice" || h.Count(`SELECT count(*) FROM usr`) != 1 {
		t.Errorf("%+v", in)
	}
}

// A thief confirms a link, and the stolen key is revoked while that waits for its turn: whoever looks through the wallets of the account
// from then on misses none.
func TestALinkThatWaitsEndsWithTheKey(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	stolen, _, _ := h.Enter("alice's")
	lnurl, secret := h.Link(stolen)
	if a := h.Get(h.Answer("the thief's", lnurl).String()); a.Status != "OK" {
		t.Fatalf("%s", a.Raw)
	}
	tx, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(h.Ctx, `SELECT FROM usr FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	confirmed := make(chan asked, 1)
	go func() { confirmed <- h.Confirm(stolen, secret) }()
	h.AwaitBlocked(1)
	if n, err := db.New(h.Pool).RevokeKey(h.Ctx, db.RevokeKeyParams{At: new(h.Clock.Now()), KeyHash: graph.HashKey(stolen)}); err != nil || n != 1 {
		t.Fatalf("%d keys were revoked, %v", n, err)
	}
	if err := tx.Commit(h.Ctx); err != nil {
		t.Fatal(err)
	}
	if in := <-confirmed; in.code() != "UNAUTHENTICATED" || h.Count(`SELECT count(*) FROM linking_key`) != 1 {
		t.Errorf("linked all the same: %+v", in)
	}
}

// With one secret its owner can both sign in and say that it links a wallet, which it does not. Whoever is first, the
// other waits for the challenge alone.
func TestASignInThatIsConfirmedAsALinkIsNoDeadlock(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	h.Enter("alice's")
	alice := h.Count(`SELECT min(id) FROM usr`)
	secret := h.signed("alice's")
	gate, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(h.Ctx, `SELECT FROM sign_in FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	in, confirmed := make(chan asked, 1), make(chan error, 1)
	go func() { in <- h.SignedIn(secret, "") }()
	h.AwaitBlocked(1)
	go func() {
		confirmed <- pgx.BeginFunc(h.Ctx, h.Pool, func(tx pgx.Tx) error {
			_, err := keyauth.Collect(h.Ctx, db.New(tx), secret, &alice, h.Clock.Now())
			return err
		})
	}()
	h.AwaitBlocked(2)
	if err := gate.Rollback(h.Ctx); err != nil {
		t.Fatal(err)
	}
	if a := <-in; a.code() != "" || a.Data["it"] == nil {
		t.Errorf("%+v", a)
	}
	if err := <-confirmed; !errors.Is(err, paidaction.Refused(paidaction.CodeNotFound)) {
		t.Error(err)
	}
}

// signed begins a sign-in, which this wallet signs.
func (h *house) signed(wallet keyauthtest.Wallet) (secret string) {
	h.Helper()
	lnurl, secret := h.Begin()
	if a := h.Get(h.Answer(wallet, lnurl).String()); a.Status != "OK" {
		h.Fatalf("%s", a.Raw)
	}
	return secret
}

// A thief's wallet is unlinked while a sign-in that it has signed waits for its turn: whoever looks through the keys of
// the account from then on misses none. The wallet opens what any other unknown one does.
func TestASignInThatWaitsEndsWithItsWallet(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	_, alice, _ := h.Enter("the thief's")
	secret := h.signed("the thief's")
	tx, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(h.Ctx, `SELECT FROM usr FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	entered := make(chan asked, 1)
	go func() { entered <- h.SignedIn(secret, "") }()
	h.AwaitBlocked(1)
	h.unlinkAll()
	if err := tx.Commit(h.Ctx); err != nil {
		t.Fatal(err)
	}
	if in := (<-entered).Data["it"]; in == nil || !in.New || in.User.Name == alice {
		t.Errorf("signed in as %s: %+v", alice, in)
	}
	if n := h.keysOf(alice); n != 1 {
		t.Errorf("alice has %d keys, and one was there when her wallet was unlinked", n)
	}
}

// A wallet is unlinked once the key is there that it is about to get, so that whoever looks through the keys then sees
// it.
func TestAWalletIsUnlinkedOnceItGetsNoKey(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	_, alice, _ := h.Enter("the thief's")
	secret := h.signed("the thief's")
	tx, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(h.Ctx, `LOCK TABLE api_key IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	entered := make(chan asked, 1)
	go func() { entered <- h.SignedIn(secret, "") }()
	h.AwaitBlocked(1)
	listed := make(chan int64, 1)
	go func() { h.unlinkAll(); listed <- h.keysOf(alice) }()
	h.AwaitBlocked(2)
	if err := tx.Commit(h.Ctx); err != nil {
		t.Fatal(err)
	}
	if in := (<-entered).Data["it"]; in == nil || in.User.Name != alice {
		t.Errorf("%+v", in)
	}
	if n := <-listed; n != 2 {
		t.Errorf("%d keys are there once the wallet is unlinked, want 2", n)
	}
}

// unlinkAll takes away all wallets, as holdfast users unlink takes away one.
func (h *house) unlinkAll() {
	if _, err := h.Pool.Exec(h.Ctx, `DELETE FROM linking_key`); err != nil {
		h.Error(err)
	}
}

func (h *house) keysOf(name string) int64 {
	return h.Count(`SELECT count(*) FROM api_key WHERE revoked_at IS NULL AND user_id = (SELECT id FROM usr WHERE name = $1)`, name)
}

// An account is linked to at most 20 wallets.
func TestWalletsOfAnAccountAreBounded(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, withNewUsers)
	key, alice, _ := h.Enter("alice's")
	if _, err := h.Pool.Exec(h.Ctx, `INSERT INTO linking_key (key, user_id, created_at)
		SELECT decode(lpad(n::text, 66, '0'), 'hex'), u.id, u.created_at FROM usr AS u, generate_series(1, 18) AS n WHERE u.name = $1`, alice); err != nil {
		t.Fatal(err)
	}
	lnurl, secret := h.Link(key)
	h.Get(h.Answer("the twentieth", lnurl).String())
	if in := h.Confirm(key, secret); in.code() != "" || in.Data["it"] == nil {
		t.Errorf("the twentieth: %+v", in)
	}
	lnurl, secret = h.Link(key)
	h.Get(h.Answer("one more", lnurl).String())
	if in := h.Confirm(key, secret); in.code() != "INVALID_INPUT" || h.Count(`SELECT count(*) FROM linking_key`) != 20 {
		t.Errorf("one more: %+v", in)
	}
}

// Whoever signs in at several browsers at once has no more keys by it than one after the other: 20.
func TestSignInsAtOnceAreCounted(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, func(c *graph.Config) {
		withNewUsers(c)
		settings := c.Pool.Config()
		settings.MaxConns = 24 // of which one address may sign in with two
		pool, err := pgxpool.NewWithConfig(t.Context(), settings)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Pool = pool
	})
	h.Enter("alice's")
	if _, err := h.Pool.Exec(h.Ctx, `INSERT INTO api_key (user_id, key_hash, scopes, created_at, expires_at)
		SELECT k.user_id, sha256(n::text::bytea), k.scopes, k.created_at, k.expires_at FROM api_key AS k, generate_series(1, 19) AS n`); err != nil {
		t.Fatal(err)
	}
	tx, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(h.Ctx, `SELECT FROM usr ORDER BY id FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 2 {
		lnurl, secret := h.Begin()
		h.Get(h.Answer("alice's", lnurl).String())
		all.Go(func() {
			if in := h.SignedIn(secret, ""); in.Data["it"] == nil || in.Data["it"].Key == "" {
				t.Errorf("%+v", in)
			}
		})
	}
	h.AwaitBlocked(2)
	if err := tx.Commit(h.Ctx); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if n := h.Count(`SELECT count(*) FROM api_key WHERE revoked_at IS NULL`); n != 20 {
		t.Errorf("%d keys are good", n)
	}
}
