// Package keyauth lets people sign in with a key of their wallet (LNURL-auth, LUD-01, 04 and 17). It covers what a
// wallet is shown, what it answers, and that each challenge is signed once and in time. Which account a key opens, and
// whether somebody may link a key, is decided elsewhere.
package keyauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
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
	// pickUp is the least time that a browser has to collect its key once a wallet has signed.
	pickUp = time.Minute
)

// Action is what a wallet tells its owner that the signature is for.
type Action string

// The actions. The first two differ only in the word: an unknown key makes a new user with either.
const (
	Login    Action = "login"
	Register Action = "register"
	Link     Action = "link"
)

// Challenge is one to be signed. Secret is for the one who asked for it, and is in none of the other fields: these are
// shown as a QR code, which others may see.
type Challenge struct {
	URL       string // https://…
	LNURL     string // the same as lnurl1…, in capitals, which QR codes hold best
	KeyAuth   string // the same as keyauth://… (LUD-17)
	Secret    string
	ExpiresAt time.Time
}

// Begin stores a new challenge. public is where people reach the service: wallets show its host to their owners, and
// derive their key from it. links is the account that the key is to open; only the action Link has one.
func Begin(ctx context.Context, q *db.Queries, public *url.URL, action Action, links *int64, now time.Time) (Challenge, error) {
	var chance [64]byte
	rand.Read(chance[:])
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

// hashOf is the form in which a secret is stored and looked up. A plain hash is enough: it is 32 random bytes.
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
