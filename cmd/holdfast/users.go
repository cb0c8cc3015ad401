package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

type usersCommand struct {
	Add     usersAdd     `cmd:"" changes:"" help:"Make a user with an API key that has every scope. The key is shown only this once."`
	Key     usersKey     `cmd:"" changes:"" help:"Make another API key for a user. The key is shown only this once."`
	Keys    usersKeys    `cmd:"" help:"List a user's API keys: their numbers and scopes."`
	Revoke  usersRevoke  `cmd:"" changes:"" help:"Revoke an API key."`
	Wallets usersWallets `cmd:"" help:"List the keys of the wallets that a user signs in with."`
	Trust   usersTrust   `cmd:"" changes:"" help:"Set how much a user's zaps weigh in the votes that decide rewards."`
	Unlink  usersUnlink  `cmd:"" changes:"" help:"Stop a wallet from signing in to a user's account. API keys that it was given stay valid until they are revoked."`
}

// userNamed is the user with this name.
func userNamed(ctx context.Context, q *db.Queries, name string) (int64, error) {
	users, err := q.UsersByName(ctx, []string{name})
	if err != nil {
		return 0, err
	}
	if len(users) == 0 {
		return 0, fmt.Errorf("there is no user %q: holdfast users add makes one", name)
	}
	return users[0].ID, nil
}

type usersAdd struct {
	Name string `arg:"" help:"1 to 32 lowercase letters, digits and underscores."`
}

func (c usersAdd) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, _ *db.Queries) error {
		id, key, err := graph.SignUp(ctx, pool, c.Name, time.Now())
		if err != nil {
			return refusedArguments(err)
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

type usersKey struct {
	Name   string   `arg:"" help:"Whose key it is."`
	Scopes []string `required:"" help:"Its scopes: one or more of READ, SPEND, WITHDRAW, SETTINGS."`
}

func (c usersKey) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, q *db.Queries) error {
		if _, err := userNamed(ctx, q, c.Name); err != nil {
			return err
		}
		id, key, err := graph.AddKey(ctx, pool, c.Name, c.Scopes, time.Now())
		if err != nil {
			return refusedArguments(err)
		}
		made := struct {
			Number int64  `json:"number"`
			Key    string `json:"key"`
		}{id, key}
		return e.print(made, func(t *table) {
			t.row("number", id)
			t.row("key", key)
		})
	})
}

type usersKeys struct {
	Name string `arg:"" help:"Whose keys they are."`
}

// keyShown is a key as shown to an operator.
type keyShown struct {
	Number  int64      `json:"number"`
	Scopes  []string   `json:"scopes"`
	Made    time.Time  `json:"made"`
	Revoked *time.Time `json:"revoked,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
}

func (c usersKeys) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		user, err := userNamed(ctx, q, c.Name)
		if err != nil {
			return err
		}
		rows, err := q.KeysOf(ctx, user)
		if err != nil {
			return err
		}
		shown := make([]keyShown, len(rows))
		for i, row := range rows {
			shown[i] = keyShown{row.ID, row.Scopes, row.CreatedAt, row.RevokedAt, row.ExpiresAt}
		}
		return e.print(shown, func(t *table) {
			t.row("NUMBER", "SCOPES", "MADE", "EXPIRES", "REVOKED")
			for _, k := range shown {
				t.row(k.Number, strings.Join(k.Scopes, " "), k.Made, k.Expires, k.Revoked)
			}
		})
	})
}

type usersRevoke struct {
	Key string `arg:"" secret:"" help:"The key, as it was shown, or its number."`
}

// Run fails if there is no such key, so that a mistyped one is not believed to be revoked.
func (c usersRevoke) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, _ *db.Queries) error {
		found, err := graph.RevokeKey(ctx, pool, c.Key, time.Now())
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("there is no such key, or it was already revoked: holdfast users keys lists those of a user")
		}
		return e.print(map[string]bool{"revoked": true}, func(t *table) { t.row("The key is revoked: it no longer works.") })
	})
}

type usersWallets struct {
	Name string `arg:"" help:"Whose wallets they are."`
}

// walletKeyShown is a wallet's public key as shown to an operator.
type walletKeyShown struct {
	Key    string    `json:"key"`
	Linked time.Time `json:"linked"`
}

func (c usersWallets) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		user, err := userNamed(ctx, q, c.Name)
		if err != nil {
			return err
		}
		rows, err := q.LinkingKeysOf(ctx, user)
		if err != nil {
			return err
		}
		shown := make([]walletKeyShown, len(rows))
		for i, row := range rows {
			shown[i] = walletKeyShown{hex.EncodeToString(row.Key), row.CreatedAt}
		}
		return e.print(shown, func(t *table) {
			t.row("KEY", "LINKED")
			for _, k := range shown {
				t.row(k.Key, k.Linked)
			}
		})
	})
}

type usersUnlink struct {
	Name string `arg:"" help:"Whose wallet it is."`
	Key  string `arg:"" help:"The wallet's key, as wallets lists it."`
}

// Run fails if the key is not linked to this user, so that a mistyped one is not believed to be unlinked.
func (c usersUnlink) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		user, err := userNamed(ctx, q, c.Name)
		if err != nil {
			return err
		}
		key, err := hex.DecodeString(c.Key)
		if err != nil {
			return fmt.Errorf("%w: a wallet's key is written in hex, as users wallets lists it", errArguments)
		}
		n, err := q.DeleteLinkingKey(ctx, db.DeleteLinkingKeyParams{UserID: user, Key: key})
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("no wallet of %[1]s has this key: holdfast users wallets %[1]s lists those that have one", c.Name)
		}
		return e.print(map[string]bool{"unlinked": true}, func(t *table) {
			t.row("The wallet can no longer sign in to this account. API keys that it was given stay valid until they are revoked.")
		})
	})
}

// maxTrust is the most that one person's zaps can weigh: as much as the zaps of this many people.
const maxTrust = 10

type usersTrust struct {
	Name  string  `arg:"" help:"Whose zaps they are."`
	Trust float64 `arg:"" help:"Everybody starts with 1; 0 is nothing, 10 the most."`
}

// Run changes the weight of future zaps. Past zaps keep theirs.
func (c usersTrust) Run(ctx context.Context, e *environment) error {
	micros := math.Round(c.Trust * 1_000_000)
	if !(micros >= 0 && micros <= maxTrust*1_000_000) { // NaN too
		return fmt.Errorf("%w: trust is a number from 0 to %d", errArguments, maxTrust)
	}
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		user, err := userNamed(ctx, q, c.Name)
		if err != nil {
			return err
		}
		if err := q.SetTrust(ctx, db.SetTrustParams{ID: user, Micros: int64(micros)}); err != nil {
			return err
		}
		return e.print(map[string]float64{"trust": micros / 1_000_000}, func(t *table) { t.row("Zaps from now on have this weight.") })
	})
}
