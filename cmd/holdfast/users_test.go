package main

import (
	"encoding/json"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

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
	if id, err := db.New(pool).UserByKey(t.Context(), graph.HashKey(made.Key)); err != nil || id != made.ID {
		t.Errorf("the key is of user %d, %v", id, err)
	}
	for _, name := range []string{"alice", "Not A Name"} {
		if code, out, _ := command(t, env, "users", "add", name); code != exitFailed || out != "" {
			t.Errorf("users add %q: exit code %d\n%s", name, code, out)
		}
	}
	for _, want := range []int{exitOK, exitFailed} { // the second time there is nothing to revoke
		if code, _, said := command(t, env, "users", "revoke", made.Key); code != want {
			t.Errorf("users revoke: exit code %d, want %d\n%s", code, want, said)
		}
	}
	if _, err := db.New(pool).UserByKey(t.Context(), graph.HashKey(made.Key)); err == nil {
		t.Error("the revoked key still opens")
	}
}
