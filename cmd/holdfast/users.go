package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

type usersCommand struct {
	Add    usersAdd    `cmd:"" help:"Make a user with an API key, which is shown this once."`
	Revoke usersRevoke `cmd:"" help:"Take back an API key."`
}

type usersAdd struct {
	Name string `arg:"" help:"1 to 32 small letters, digits and underscores."`
}

func (c usersAdd) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, _ *db.Queries) error {
		id, key, err := graph.SignUp(ctx, pool, c.Name, time.Now(), rand.Reader)
		if err != nil {
			return err
		}
		made := struct {
			ID   int64  `json:"id"`
			Name string `json:"name"`
			Key  string `json:"key"`
		}{id, c.Name, key}
		return e.print(made, func(t *table) {
			t.row("user", id)
			t.row("name", c.Name)
			t.row("key", key)
		})
	})
}

type usersRevoke struct {
	Key string `arg:"" help:"The key, as it was shown."`
}

// Run says when there is no such key, so that a mistyped one is not taken for revoked.
func (c usersRevoke) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		n, err := q.RevokeKey(ctx, db.RevokeKeyParams{KeyHash: graph.HashKey(c.Key), At: new(time.Now())})
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("there is no such key, or it was revoked before")
		}
		return e.print(struct {
			Revoked bool `json:"revoked"`
		}{true}, func(t *table) { t.row("The key is good for nothing from now on.") })
	})
}
