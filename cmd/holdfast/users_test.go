package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// whose is the user who has a key; the zero value if nobody has.
func whose(t *testing.T, pool *pgxpool.Pool, key string) db.UsersByKeysRow {
	t.Helper()
	rows, err := db.New(pool).UsersByKeys(t.Context(), [][]byte{graph.HashKey(key)})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows[0]
}

func TestUsers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	code, out, said := command(t, env, "users", "add", "alice")
	var made struct {
		ID  int64
		Key string
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK || made.Key == "" {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	if found := whose(t, pool, made.Key); found.UserID != made.ID || len(found.Scopes) != len(graph.Scopes) {
		t.Errorf("the key is %+v", found)
	}
	for name, want := range map[string]int{"alice": exitFailed, "Not A Name": exitUsage} {
		if code, out, _ := command(t, env, "users", "add", name); code != want || out != "" {
			t.Errorf("users add %q: exit code %d\n%s", name, code, out)
		}
	}
	for _, want := range []int{exitOK, exitFailed} { // the second time there is nothing to revoke
		if code, _, said := command(t, env, "users", "revoke", made.Key); code != want {
			t.Errorf("users revoke: exit code %d, want %d\n%s", code, want, said)
		}
	}
	if found := whose(t, pool, made.Key); found.UserID != 0 {
		t.Error("the revoked key still opens")
	}
}

// A key is made with scopes, and revoked by its number: somebody who has lost it cannot name it.
func TestKeysHaveScopes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	if code, _, said := command(t, env, "users", "add", "alice"); code != exitOK {
		t.Fatal(said)
	}
	for args, want := range map[string]int{"alice": exitUsage, "alice --scopes=": exitUsage, "alice --scopes=READ,STEAL": exitUsage, "bob --scopes=READ": exitFailed} {
		if code, out, _ := command(t, env, append([]string{"users", "key"}, strings.Fields(args)...)...); code != want || out != "" {
			t.Errorf("users key %v: exit code %d\n%s", args, code, out)
		}
	}
	var made struct {
		Number int64
		Key    string
	}
	code, out, said := command(t, env, "users", "key", "alice", "--scopes=SPEND,READ,READ")
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	if found := whose(t, pool, made.Key); fmt.Sprint(found.Scopes) != "[READ SPEND]" {
		t.Errorf("the key is %+v", found)
	}
	for _, want := range []int{exitOK, exitFailed} {
		if code, _, said := command(t, env, "users", "revoke", fmt.Sprint(made.Number)); code != want {
			t.Errorf("users revoke: exit code %d, want %d\n%s", code, want, said)
		}
	}
	var shown []struct {
		Number  int64
		Scopes  []string
		Revoked *time.Time
	}
	code, out, said = command(t, env, "users", "keys", "alice")
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != exitOK || len(shown) != 2 || shown[0].Revoked != nil || shown[1].Revoked == nil ||
		shown[1].Number != made.Number || len(shown[0].Scopes) != len(graph.Scopes) || strings.Contains(out, made.Key) {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
}

// The wallets that open an account are listed, and unlinked one by one.
func TestWalletsAreUnlinked(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	keys := map[string]string{}
	for i, name := range []string{"alice", "bob"} {
		user, _, err := graph.SignUp(t.Context(), pool, name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		key := bytes.Repeat([]byte{byte(i + 2)}, 33)
		if _, err := db.New(pool).InsertLinkingKey(t.Context(), db.InsertLinkingKeyParams{Key: key, UserID: user, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		keys[name] = hex.EncodeToString(key)
	}
	wallets := func(name string) string {
		t.Helper()
		code, out, said := command(t, env, "users", "wallets", name)
		if code != exitOK {
			t.Fatalf("exit code %d\n%s%s", code, out, said)
		}
		return out
	}
	if out := wallets("alice"); !strings.Contains(out, keys["alice"]) || strings.Contains(out, keys["bob"]) {
		t.Errorf("the wallets of alice: %s", out)
	}
	for args, want := range map[string]int{"alice " + keys["bob"]: exitFailed, "alice no-key": exitUsage, "nobody " + keys["alice"]: exitFailed} {
		if code, out, _ := command(t, env, append([]string{"users", "unlink"}, strings.Fields(args)...)...); code != want || out != "" {
			t.Errorf("users unlink %v: exit code %d\n%s", args, code, out)
		}
	}
	for _, want := range []int{exitOK, exitFailed} { // the second time there is nothing to unlink
		if code, _, said := command(t, env, "users", "unlink", "alice", keys["alice"]); code != want {
			t.Errorf("users unlink: exit code %d, want %d\n%s", code, want, said)
		}
	}
	if alice, bob := wallets("alice"), wallets("bob"); strings.TrimSpace(alice) != "[]" || !strings.Contains(bob, keys["bob"]) {
		t.Errorf("the wallets of alice: %s, of bob: %s", alice, bob)
	}
}

// An operator changes the weight of the zaps of accounts that are only there to vote: 0 is nothing, 1 is normal, 10 is
// the most.
func TestTrustOfAUser(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	if code, _, said := command(t, env, "users", "add", "alice"); code != exitOK {
		t.Fatal(said)
	}
	trust := func() (micros int64) {
		if err := pool.QueryRow(t.Context(), `SELECT trust_micros FROM usr WHERE name = 'alice'`).Scan(&micros); err != nil {
			t.Fatal(err)
		}
		return micros
	}
	for _, refused := range [][]string{{"alice", "10.1"}, {"alice", "NaN"}, {"alice", "much"}, {"bob", "1"}, {"alice", "--", "-0.1"}} {
		if code, out, _ := command(t, env, append([]string{"users", "trust"}, refused...)...); code == exitOK || out != "" || trust() != 1_000_000 {
			t.Errorf("users trust %v: exit code %d, %d\n%s", refused, code, trust(), out)
		}
	}
	for given, want := range map[string]int64{"0": 0, "0.25": 250_000, "10": 10_000_000, "0.0000004": 0} {
		if code, _, said := command(t, env, "users", "trust", "alice", given); code != exitOK || trust() != want {
			t.Errorf("users trust alice %s: exit code %d, %d\n%s", given, code, trust(), said)
		}
	}
}
