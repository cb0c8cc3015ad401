package graph

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// HashKey is the form in which a key is stored and looked up. A key is 32 random bytes, so a fast hash is safe. The
// time of a look-up depends only on the hash of what was sent, so it tells nothing about similar keys.
func HashKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// newKey makes a key for a user. It is good until the given time; nil: until it is revoked. The key is never shown
// again: only its hash is stored.
func newKey(ctx context.Context, q *db.Queries, user int64, scopes []string, until *time.Time, now time.Time) (id int64, key string, err error) {
	var secret [32]byte
	rand.Read(secret[:])
	key = "hf_" + base64.RawURLEncoding.EncodeToString(secret[:])
	id, err = q.InsertKey(ctx, db.InsertKeyParams{UserID: user, KeyHash: HashKey(key), Scopes: scopes, CreatedAt: now, ExpiresAt: until})
	if err != nil {
		return 0, "", fmt.Errorf("insert a key: %w", err)
	}
	return id, key, nil
}

var namePattern = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// newUser makes a user, or refuses as SignUp does.
func newUser(ctx context.Context, q *db.Queries, name string, now time.Time) (int64, error) {
	if !namePattern.MatchString(name) {
		return 0, paidaction.Errorf(paidaction.CodeInvalidInput, "A name has 1 to 32 characters: lowercase letters, digits and underscores.")
	}
	user, err := q.InsertUser(ctx, db.InsertUserParams{Name: name, CreatedAt: now})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, paidaction.Errorf(paidaction.CodeDuplicate, "The name %s is taken. Choose another one.", name)
	}
	if err != nil {
		return 0, fmt.Errorf("insert a user: %w", err)
	}
	return user, nil
}

// SignUp makes a user, and a key with all scopes. The key is never shown again.
//
// Errors: INVALID_INPUT if the name breaks the rules, DUPLICATE if it is taken.
func SignUp(ctx context.Context, pool *pgxpool.Pool, name string, now time.Time) (user int64, key string, err error) {
	err = db.InTransaction(ctx, pool, func(tx *db.Transaction) error {
		q := db.New(tx)
		if user, err = newUser(ctx, q, name, now); err != nil {
			return err
		}
		_, key, err = newKey(ctx, q, user, Scopes, nil, now)
		return err
	})
	return user, key, err
}

// tidyScopes returns the requested scopes of a key, each once.
func tidyScopes(scopes []string) ([]string, error) {
	scopes = slices.Compact(slices.Sorted(slices.Values(scopes)))
	if len(scopes) == 0 || slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(Scopes, s) }) {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "Say what the key allows: one or more of %s.", strings.Join(Scopes, ", "))
	}
	return scopes, nil
}

// deadKeysKept is how long a key that is no longer good is still listed.
const deadKeysKept = 30 * 24 * time.Hour

// SweepKeys deletes keys that were revoked or expired long ago, a page at a time. The page is small: each deleted key
// begins an epoch, and whoever revokes a key waits for the end of the statement.
func SweepKeys(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
	const page = 100
	n, err := q.DeleteKeys(ctx, db.DeleteKeysParams{Before: now.Add(-deadKeysKept), Page: page})
	if err != nil {
		return false, fmt.Errorf("delete old keys: %w", err)
	}
	return n == page, nil
}

// RevokeKey revokes a key for an operator, who names it as it was shown or by its number. It returns false where there is
// no such key, or it was revoked before.
//
// Nothing that its owner has under way to receivers' wallets is tried again without being asked for: whoever has stolen
// the key may have begun it, can let it fail whenever they like, and the next attempt would be paid from the owner's
// balance (paidaction.Engine.Again).
func RevokeKey(ctx context.Context, pool *pgxpool.Pool, which string, now time.Time) (found bool, err error) {
	var named db.OwnerOfKeyParams
	if number, err := strconv.ParseInt(which, 10, 64); err == nil {
		named.ID = &number
	} else {
		named.KeyHash = HashKey(which)
	}
	q := db.New(pool)
	owner, err := q.OwnerOfKey(ctx, named)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a key: %w", err)
	}
	n, err := q.EndKey(ctx, db.EndKeyParams{At: &now, ID: named.ID, KeyHash: named.KeyHash})
	if err != nil {
		return false, fmt.Errorf("revoke a key: %w", err)
	}
	// Once that is committed, and again of a key that was revoked before: what this waits for may wait for somebody who is
	// about to hold the key (holdKey), and so must not be waited for with the key in hand.
	err = db.InTransaction(ctx, pool, func(tx *db.Transaction) error { return paidaction.RefuseAgainOf(ctx, db.New(tx), owner, now) })
	return n > 0 && err == nil, err
}

// AddKey makes a further key for a user, with these scopes. They never change: other scopes need another key. The key
// is never shown again; its id is what it is revoked by.
//
// Errors: INVALID_INPUT if there are no scopes or one does not exist, NOT_FOUND if there is no such user.
func AddKey(ctx context.Context, pool *pgxpool.Pool, name string, scopes []string, now time.Time) (id int64, key string, err error) {
	scopes, err = tidyScopes(scopes)
	if err != nil {
		return 0, "", err
	}
	users, err := db.New(pool).UsersByName(ctx, []string{name})
	if err != nil {
		return 0, "", fmt.Errorf("look up a user: %w", err)
	}
	if len(users) == 0 {
		return 0, "", paidaction.Errorf(paidaction.CodeNotFound, "There is no user %s.", name)
	}
	return newKey(ctx, db.New(pool), users[0].ID, scopes, nil, now)
}
