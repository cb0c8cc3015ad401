package graph

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// A good key is remembered, and trusted for as long as the database says that no key was revoked. As soon as its
// revocation commits it is refused, in every process, alone or among others. Nobody else's key is forgotten for that.
func TestAKeyIsRememberedUntilOneIsRevoked(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pgtest.New(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(ctx, sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	for name, user := range map[string]int64{"alice": 1, "bob": 2, "carol": 3} {
		exec(`INSERT INTO usr (id, name, created_at) OVERRIDING SYSTEM VALUE VALUES ($1, $2, now())`, user, name)
		exec(`INSERT INTO api_key (user_id, key_hash, scopes, created_at) VALUES ($1, $2, '{READ}', now())`, user, HashKey(name))
	}
	processes := make([]*keyring, 2)
	for i := range processes {
		processes[i] = &keyring{pool: pool}
		processes[i].kept.Store(newEpoch(epochID{}))
	}
	look := func(k *keyring, names ...string) (users []int64, err error) {
		all := make([]*whose, len(names))
		for i, name := range names {
			all[i] = &whose{hash: HashKey(name)}
		}
		if err := k.look(ctx, all); err != nil {
			return nil, err
		}
		for _, w := range all {
			if w.err != nil && !errors.Is(w.err, pgx.ErrNoRows) || (w.err == nil) != (w.found.user != 0) {
				t.Errorf("%+v", w)
			}
			users = append(users, w.found.user)
		}
		return users, nil
	}
	want := func(what string, names []string, want ...int64) {
		t.Helper()
		for i, k := range processes {
			got, err := look(k, names...)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%s: %d, %v", what, got, err)
			}
			for j := range got {
				if got[j] != want[j] {
					t.Errorf("%s, process %d: %v are of %d, want %d", what, i, names, got, want)
				}
			}
		}
	}
	want("the first look", []string{"alice", "bob", "nobody"}, 1, 2, 0)

	exec(`ALTER TABLE api_key RENAME TO away`)
	want("what is remembered", []string{"bob", "alice"}, 2, 1)
	if _, err := look(processes[0], "alice", "carol"); err == nil {
		t.Error("carol's key was found, and nobody could look for it")
	}
	exec(`ALTER TABLE away RENAME TO api_key`)

	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if n, err := db.New(tx).RevokeKey(ctx, db.RevokeKeyParams{At: new(time.Now()), KeyHash: HashKey("alice")}); err != nil || n != 1 {
		t.Fatalf("revoked %d keys, %v", n, err)
	}
	want("before the commit", []string{"alice"}, 1)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	// One process meets the new epoch with keys that it knows, the other with one that it does not know as well.
	if got, err := look(processes[0], "alice", "bob"); err != nil || got[0] != 0 || got[1] != 2 {
		t.Errorf("of keys that are known: %d, %v", got, err)
	}
	if got, err := look(processes[1], "bob", "carol", "alice"); err != nil || got[0] != 2 || got[1] != 3 || got[2] != 0 {
		t.Errorf("of known ones and another: %d, %v", got, err)
	}
	want("afterwards", []string{"alice", "bob", "carol"}, 0, 2, 3)

	// Signing out twice does not make any process forget a key.
	if n, err := db.New(pool).RevokeKey(ctx, db.RevokeKeyParams{At: new(time.Now()), KeyHash: HashKey("alice")}); err != nil || n != 0 {
		t.Fatalf("revoked %d keys, %v", n, err)
	}
	exec(`ALTER TABLE api_key RENAME TO away`)
	want("after nothing was revoked", []string{"bob", "carol"}, 2, 3)
	exec(`ALTER TABLE away RENAME TO api_key`)

	exec(`DELETE FROM api_key WHERE user_id = 2`)
	want("a key that was deleted", []string{"bob", "carol"}, 0, 3)
	exec(`TRUNCATE api_key`)
	want("without keys", []string{"carol"}, 0)
	exec(`DELETE FROM key_epoch`)
	if got, err := look(processes[0], "carol"); err == nil || errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("without an epoch: %d, %v", got, err)
	}
	if got, err := look(processes[0], "nobody"); err == nil || errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("without an epoch: %d, %v", got, err)
	}
}

// The goroutine that leads a look may panic. Nobody is let in by what is remembered but was not checked.
func TestNothingRememberedIsBelievedUnasked(t *testing.T) {
	t.Parallel()
	k := &keyring{} // without a pool to ask
	k.kept.Store(newEpoch(epochID{1, 1}))
	k.kept.Load().holders.Add(string(HashKey("alice")), holder{user: 1})
	w := &whose{hash: HashKey("alice"), err: errNotAnswered}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it did not panic")
			}
		}()
		_ = k.look(t.Context(), []*whose{w})
	}()
	if !errors.Is(w.err, errNotAnswered) || w.found.user != 0 {
		t.Errorf("%+v", w)
	}
}

// Each server counts epochs of its own: one that has taken over may come to the number at which something was remembered,
// and lack the key, or have revoked it. So what was remembered at another server is asked again, whatever is asked with
// it.
func TestNothingRememberedAtAnotherServerIsBelieved(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var number int64
	var since time.Time
	if err := pool.QueryRow(t.Context(), `SELECT epoch, pg_postmaster_start_time() FROM key_epoch`).Scan(&number, &since); err != nil {
		t.Fatal(err)
	}
	for server, want := range map[time.Time]int64{since: 1, since.Add(-time.Hour): 0} {
		for name, hashes := range map[string][][]byte{"alone": {HashKey("alice")}, "beside one not met": {HashKey("alice"), HashKey("bob")}} {
			k := &keyring{pool: pool}
			k.kept.Store(newEpoch(epochID{number, server.UnixNano()}))
			k.kept.Load().holders.Add(string(HashKey("alice")), holder{user: 1}) // who has no key here
			var all []*whose
			for _, hash := range hashes {
				all = append(all, &whose{hash: hash})
			}
			if err := k.look(t.Context(), all); err != nil || all[0].found.user != want {
				t.Errorf("remembered at %s of %s, %s: the key of %d, want %d, %v", server, since, name, all[0].found.user, want, err)
			}
		}
	}
}
