// Package keyauth is signing in by a key of a wallet (LNURL-auth, LUD-01, 04 and 17): what a wallet is shown, what it answers, and that each
// challenge is signed once, in time. Whose account a key opens, and whether somebody may link one, is for others to say.
package keyauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Path is where wallets answer.
const Path = "/lnurlauth"

const (
	// Lifetime is how long a challenge can be signed.
	Lifetime = 5 * time.Minute
	// pickUp is how long a browser has at least to come for its key, once a wallet has signed.
	pickUp = time.Minute
)

// Action is what a wallet tells its owner that the signature is for.
type Action string

// The actions. The first two are the same but for the word: who is not known becomes a user by either.
const (
	Login    Action = "login"
	Register Action = "register"
	Link     Action = "link"
)

// Challenge is one to be signed. Secret is for who asked for it, and in none of the rest: that is shown as a QR code, and may be seen.
type Challenge struct {
	URL       string // https://…
	LNURL     string // the same as lnurl1…, in capitals: QR codes hold those best
	KeyAuth   string // the same as keyauth://… (LUD-17)
	Secret    string
	ExpiresAt time.Time
}

// Begin stores a new challenge. public is where people reach the service: wallets show its host to their owners, and derive their key
// from it. links is whose account the key is to open, by Link alone.
func Begin(ctx context.Context, q *db.Queries, public *url.URL, action Action, links *int64, now time.Time, random io.Reader) (Challenge, error) {
	var chance [64]byte
	if _, err := io.ReadFull(random, chance[:]); err != nil {
		return Challenge{}, fmt.Errorf("read randomness: %w", err)
	}
	k1 := chance[:32]
	c := Challenge{Secret: "si_" + base64.RawURLEncoding.EncodeToString(chance[32:]), ExpiresAt: now.Add(Lifetime)}
	u := public.JoinPath(Path)
	u.RawQuery = "tag=login&k1=" + hex.EncodeToString(k1) + "&action=" + string(action)
	c.URL = u.String()
	data, err := bech32.ConvertBits([]byte(c.URL), 8, 5, true)
	if err != nil {
		return Challenge{}, fmt.Errorf("write an LNURL: %w", err)
	}
	coded, err := bech32.Encode("lnurl", data)
	if err != nil {
		return Challenge{}, fmt.Errorf("write an LNURL: %w", err)
	}
	c.LNURL = strings.ToUpper(coded)
	u.Scheme = "keyauth"
	c.KeyAuth = u.String()
	err = q.InsertSignIn(ctx, db.InsertSignInParams{K1: k1, SecretHash: hashOf(c.Secret), Action: string(action), Links: links, At: now, ExpiresAt: c.ExpiresAt})
	if err != nil {
		return Challenge{}, fmt.Errorf("store a challenge: %w", err)
	}
	return c, nil
}

// hashOf is how a secret is stored, and looked up: it is 32 random bytes.
func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// Sweep deletes challenges that have expired, a page at a time.
func Sweep(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
	const page = 1000
	n, err := q.DeleteSignIns(ctx, db.DeleteSignInsParams{Before: now.Add(-time.Hour), Page: page})
	if err != nil {
		return false, fmt.Errorf("delete old challenges: %w", err)
	}
	return n == page, nil
}
