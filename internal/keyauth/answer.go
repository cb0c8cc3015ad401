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

// Answer is what a wallet sends: a challenge and a valid signature of it.
type Answer struct {
	K1     [32]byte
	Key    [33]byte // compressed
	Action Action   // empty where the wallet does not say
}

// Read reads an answer and checks the signature. A parameter that is given twice is refused: the wallet and we might
// read different ones.
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

// CodeContested is for a link that two wallets have signed, which is therefore made for neither. The code never changes
// its meaning.
const CodeContested paidaction.Code = "CONTESTED"

// Sign notes that a key has signed a challenge. This alone opens and links nothing, because anybody who has seen the
// code can sign it, and before its owner does. A link that a second key signs is void. The same key may sign again: its
// wallet may not have got the answer.
//
// Errors: INVALID_INPUT for a challenge that is not ours, or that the wallet took for something else; EXPIRED if it is
// too late; DUPLICATE if it was signed before; CONTESTED if another key has signed the same link.
func Sign(ctx context.Context, pool *pgxpool.Pool, a Answer, now time.Time) error {
	contested := false
	err := db.InTransaction(ctx, pool, func(tx *db.Transaction) error {
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
	if err == nil && contested { // an error inside the transaction would undo it
		err = errContested()
	}
	return err
}

func errContested() error {
	return paidaction.Errorf(CodeContested, "Another wallet has signed this code too, so neither was linked. Ask for a new code where nobody else can see it.")
}

const maxKeys = 20 // per account

// link lets a key open an account, whose row is locked. It may be linked already.
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

// Signed is what the browser collects.
type Signed struct {
	Key   []byte // the key that has signed
	Links *int64 // the account that the key was linked to; nil for a sign-in
}

// Collect takes what a wallet has signed, once. It returns nil while no wallet has signed. Call it in a transaction: if
// that is undone, it can be collected again.
//
// A wallet is linked here, and only if links is the account that the challenge is about. Then it is the account's owner
// who asks, with the authority that this needs, and who says that it was their own wallet that signed: a stranger's may
// have been first. A caller who does not say so (nil) is answered for a link as if no wallet had signed.
//
// Errors: NOT_FOUND if the secret is unknown, was used, or is not about that account; CONTESTED if two wallets have
// signed a link; EXPIRED if nobody signed in time. For a link also DUPLICATE if the wallet opens another account, and
// INVALID_INPUT if this account has too many keys.
func Collect(ctx context.Context, q *db.Queries, secret string, links *int64, now time.Time) (*Signed, error) {
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
	if err := q.UseSignIn(ctx, db.UseSignInParams{ID: row.ID, At: &now}); err != nil {
		return nil, fmt.Errorf("note that a challenge was used: %w", err)
	}
	if links != nil {
		// After the challenge, as for a sign-in: both may be asked for with one secret.
		if _, err := q.LockUser(ctx, *links); err != nil {
			return nil, fmt.Errorf("lock the user: %w", err)
		}
		if err := link(ctx, q, row.LinkingKey, *links, now); err != nil {
			return nil, err
		}
	}
	return &Signed{row.LinkingKey, row.Links}, nil
}
