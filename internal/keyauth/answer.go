package keyauth

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Answer is what a wallet sends: a challenge and a signature of it that is right.
type Answer struct {
	K1     [32]byte
	Key    [33]byte // compressed
	Action Action   // empty where the wallet does not say
}

// Read reads an answer and checks the signature. Each thing may be said once: a wallet and we must not mean different ones.
func Read(query url.Values) (Answer, error) {
	refuse := func(sentence string) (Answer, error) {
		return Answer{}, paidaction.Errorf(paidaction.CodeInvalidInput, "%s", sentence)
	}
	for _, name := range []string{"tag", "k1", "sig", "key", "action"} {
		if len(query[name]) > 1 {
			return refuse("The request says " + name + " more than once.")
		}
	}
	if query.Get("tag") != "login" {
		return refuse("The tag must be login.")
	}
	a := Answer{Action: Action(query.Get("action"))}
	if !slices.Contains([]Action{"", Login, Register, Link}, a.Action) {
		return refuse("There is no such action.")
	}
	if !readHex(a.K1[:], query.Get("k1")) {
		return refuse("k1 must be 32 bytes in hex.")
	}
	if !readHex(a.Key[:], query.Get("key")) {
		return refuse("The key must be 33 bytes in hex.")
	}
	key, err := btcec.ParsePubKey(a.Key[:])
	if err != nil {
		return refuse("The key is none of secp256k1.")
	}
	const longest = 144 // digits of a signature in DER
	said := query.Get("sig")
	der, err := hex.DecodeString(said)
	if err != nil || len(said) > longest {
		return refuse("The signature must be DER in hex.")
	}
	signature, err := ecdsa.ParseDERSignature(der)
	if err != nil {
		return refuse("The signature must be DER in hex.")
	}
	if !signature.Verify(a.K1[:], key) {
		return refuse("The signature is not of this key over k1.")
	}
	return a, nil
}

// readHex fills to from exactly as many bytes in hex.
func readHex(to []byte, text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == len(to) && copy(to, raw) == len(to)
}

// Sign notes that a key has signed a challenge, and links it to the account that the challenge is about, if it is about one.
//
// Errors: INVALID_INPUT for a challenge that is not ours, or that the wallet took for something else; EXPIRED where it is too late, DUPLICATE
// where it was signed before or the key opens another account.
func Sign(ctx context.Context, pool *pgxpool.Pool, a Answer, now time.Time) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		row, err := q.SignInByK1(ctx, a.K1[:])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return paidaction.Errorf(paidaction.CodeInvalidInput, "This challenge is not ours. Scan the code again.")
		case err != nil:
			return fmt.Errorf("look up a challenge: %w", err)
		case a.Action != "" && a.Action != Action(row.Action):
			return paidaction.Errorf(paidaction.CodeInvalidInput, "This challenge is for something else. Scan the code again.")
		case row.LinkingKey != nil:
			return errSigned()
		case !now.Before(row.ExpiresAt):
			return paidaction.Errorf(paidaction.CodeExpired, "This code has expired. Ask for a new one.")
		}
		if row.Links != nil { // locked before anything else
			if _, err := q.LockUser(ctx, *row.Links); err != nil {
				return fmt.Errorf("lock the user: %w", err)
			}
		}
		n, err := q.SignK1(ctx, db.SignK1Params{K1: a.K1[:], LinkingKey: a.Key[:], At: now, Until: now.Add(pickUp)})
		if err != nil {
			return fmt.Errorf("note a signature: %w", err)
		}
		if n == 0 {
			return errSigned() // meanwhile
		}
		if row.Links != nil {
			return link(ctx, q, a.Key, *row.Links, now)
		}
		return nil
	})
}

func errSigned() error {
	return paidaction.Errorf(paidaction.CodeDuplicate, "This code was used before. Ask for a new one.")
}

const maxKeys = 20 // that open one account

// link lets a key open an account that is locked. It may do so already.
func link(ctx context.Context, q *db.Queries, key [33]byte, user int64, now time.Time) error {
	n, err := q.CountLinkingKeys(ctx, user)
	if err != nil {
		return fmt.Errorf("count keys: %w", err)
	}
	if n >= maxKeys {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "An account is opened by %d keys at most.", maxKeys)
	}
	n, err = q.InsertLinkingKey(ctx, db.InsertLinkingKeyParams{Key: key[:], UserID: user, At: now})
	if err != nil {
		return fmt.Errorf("link a key: %w", err)
	}
	if n == 1 {
		return nil
	}
	owner, err := q.UserByLinkingKey(ctx, key[:])
	if err != nil {
		return fmt.Errorf("look up a key: %w", err)
	}
	if owner != user {
		return paidaction.Errorf(paidaction.CodeDuplicate, "This wallet opens another account already.")
	}
	return nil
}

// Signed is what a browser comes for.
type Signed struct {
	Key   []byte // that has signed
	Links *int64 // the account that it was linked to; nil where somebody signs in
}

// Collect takes what a wallet has signed, once. It is nil while none has. It belongs in a transaction: what is undone can be collected again.
//
// Errors: NOT_FOUND where the secret is none or was used, EXPIRED where nobody has signed in time.
func Collect(ctx context.Context, q *db.Queries, secret string, now time.Time) (*Signed, error) {
	row, err := q.LockSignIn(ctx, hashOf(secret))
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.UsedAt != nil {
		return nil, paidaction.Errorf(paidaction.CodeNotFound, "Nobody signs in by this secret, or somebody has. Begin again.")
	}
	if err != nil {
		return nil, fmt.Errorf("look up a challenge: %w", err)
	}
	if !now.Before(row.ExpiresAt) {
		return nil, paidaction.Errorf(paidaction.CodeExpired, "This took too long. Begin again.")
	}
	if row.LinkingKey == nil {
		return nil, nil
	}
	if _, err := q.UseSignIn(ctx, db.UseSignInParams{ID: row.ID, At: &now}); err != nil {
		return nil, fmt.Errorf("note that a challenge was used: %w", err)
	}
	return &Signed{row.LinkingKey, row.Links}, nil
}
