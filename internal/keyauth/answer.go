package keyauth

import (
	"bytes"
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
			return refuse("The request has " + name + " more than once.")
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
		return refuse("The key is not a secp256k1 key.")
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
		return refuse("The signature over k1 is not from this key.")
	}
	return a, nil
}

// readHex fills to from exactly as many bytes in hex.
func readHex(to []byte, text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == len(to) && copy(to, raw) == len(to)
}

// CodeContested is for a link that two wallets have signed, so that it is made for neither. It keeps its meaning for ever.
const CodeContested paidaction.Code = "CONTESTED"

// Sign notes that a key has signed a challenge. Nothing is opened or linked by that: whoever has seen the code can do it, and before its owner
// does. A link that another key signs as well is void. By the same key it may be signed again: its wallet may not have been answered.
//
// Errors: INVALID_INPUT for a challenge that is not ours, or that the wallet took for something else; EXPIRED where it is too late, DUPLICATE
// where it was signed before, CONTESTED where another key has signed the same link.
func Sign(ctx context.Context, pool *pgxpool.Pool, a Answer, now time.Time) error {
	contested := false
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		row, err := q.LockSignInByK1(ctx, a.K1[:])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return paidaction.Errorf(paidaction.CodeInvalidInput, "This challenge is not ours. Scan the code again.")
		case err != nil:
			return fmt.Errorf("look up a challenge: %w", err)
		case a.Action != "" && a.Action != Action(row.Action):
			return paidaction.Errorf(paidaction.CodeInvalidInput, "This challenge is for something else. Scan the code again.")
		case row.UsedAt != nil, row.LinkingKey != nil && row.Links == nil:
			return paidaction.Errorf(paidaction.CodeDuplicate, "This code was used before. Ask for a new one.")
		case !now.Before(row.ExpiresAt):
			return paidaction.Errorf(paidaction.CodeExpired, "This code has expired. Ask for a new one.")
		case row.ContestedAt != nil:
			return errContested()
		case row.LinkingKey == nil:
			err = q.NoteSigner(ctx, db.NoteSignerParams{ID: row.ID, LinkingKey: a.Key[:], Until: now.Add(pickUp)})
		case !bytes.Equal(row.LinkingKey, a.Key[:]):
			contested = true
			err = q.ContestSignIn(ctx, db.ContestSignInParams{ID: row.ID, At: &now})
		}
		if err != nil {
			return fmt.Errorf("note a signature: %w", err)
		}
		return nil
	})
	if err == nil && contested { // which must be kept, so that it is no error before
		err = errContested()
	}
	return err
}

func errContested() error {
	return paidaction.Errorf(CodeContested, "Another wallet has signed this code too, so neither was linked. Ask for a new code where nobody else can see it.")
}

const maxKeys = 20 // that open one account

// link lets a key open an account that is locked. It may do so already.
func link(ctx context.Context, q *db.Queries, key []byte, user int64, now time.Time) error {
	n, err := q.CountLinkingKeys(ctx, user)
	if err != nil {
		return fmt.Errorf("count keys: %w", err)
	}
	if n >= maxKeys {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "An account can be linked to at most %d wallets.", maxKeys)
	}
	n, err = q.InsertLinkingKey(ctx, db.InsertLinkingKeyParams{Key: key, UserID: user, At: now})
	if err != nil {
		return fmt.Errorf("link a key: %w", err)
	}
	if n == 1 {
		return nil
	}
	owner, err := q.UserByLinkingKey(ctx, key)
	if err != nil {
		return fmt.Errorf("look up a key: %w", err)
	}
	if owner != user {
		return paidaction.Errorf(paidaction.CodeDuplicate, "This wallet already belongs to another account.")
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
// A wallet is linked here, and only where links is the account that the challenge is about: that is whose owner asks, with all that this
// needs, and says that their own wallet has signed. Who does not say so (nil) is told of a link what is told while no wallet has signed: a
// stranger's may have been the first.
//
// Errors: NOT_FOUND where the secret is none, was used or is not about that account; CONTESTED where two wallets have signed a link, EXPIRED
// where nobody has signed in time; of a link DUPLICATE where the wallet opens another account, INVALID_INPUT where this one has too many.
func Collect(ctx context.Context, q *db.Queries, secret string, links *int64, now time.Time) (*Signed, error) {
	if links != nil { // locked before anything else
		if _, err := q.LockUser(ctx, *links); err != nil {
			return nil, fmt.Errorf("lock the user: %w", err)
		}
	}
	row, err := q.LockSignIn(ctx, hashOf(secret))
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("look up a challenge: %w", err)
	}
	if err != nil || row.UsedAt != nil || links != nil && (row.Links == nil || *row.Links != *links) {
		return nil, paidaction.Errorf(paidaction.CodeNotFound, "This secret is not valid, or was already used. Begin again.")
	}
	if row.ContestedAt != nil {
		return nil, errContested()
	}
	if !now.Before(row.ExpiresAt) {
		return nil, paidaction.Errorf(paidaction.CodeExpired, "This took too long. Begin again.")
	}
	if row.LinkingKey == nil || row.Links != nil && links == nil {
		return nil, nil
	}
	if _, err := q.UseSignIn(ctx, db.UseSignInParams{ID: row.ID, At: &now}); err != nil {
		return nil, fmt.Errorf("note that a challenge was used: %w", err)
	}
	if links != nil {
		if err := link(ctx, q, row.LinkingKey, *links, now); err != nil {
			return nil, err
		}
	}
	return &Signed{row.LinkingKey, row.Links}, nil
}
