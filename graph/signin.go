package graph

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func (m mutations) SignIn(ctx context.Context, register bool) (*schema.SignIn, error) {
	if register {
		return m.challenge(ctx, keyauth.Register, nil)
	}
	return m.challenge(ctx, keyauth.Login, nil)
}

func (m mutations) LinkWalletKey(ctx context.Context) (*schema.SignIn, error) {
	user, err := m.mayLink(ctx)
	if err != nil {
		return nil, err
	}
	return m.challenge(ctx, keyauth.Link, user)
}

// mayLink returns the user to whose account a wallet may be linked. The wallet opens the whole account, and outlives
// the key with which it was linked. So a key with fewer scopes is refused, and so is one that was revoked after it let
// this request in.
func (m mutations) mayLink(ctx context.Context) (user *int64, err error) {
	s := sessionOf(ctx)
	if s.user == nil {
		return nil, paidaction.Errorf(paidaction.CodeUnauthenticated, "Sign in to link a wallet to your account.")
	}
	for _, scope := range Scopes {
		if err := s.may(scope); err != nil {
			return nil, err
		}
	}
	return s.user, m.recheck(ctx, s, 0)
}

func (m mutations) challenge(ctx context.Context, action keyauth.Action, links *int64) (*schema.SignIn, error) {
	if m.Public == nil {
		return nil, paidaction.Errorf(paidaction.CodeForbidden, "Signing in with a wallet is not set up here.")
	}
	if err := m.meters.paying(sessionOf(ctx), m.Now()); err != nil {
		return nil, err
	}
	c, err := keyauth.Begin(ctx, db.New(m.Pool), m.Public, action, links, m.Now().UTC())
	if err != nil {
		return nil, err
	}
	return &schema.SignIn{Lnurl: c.LNURL, Keyauth: c.KeyAuth, Secret: c.Secret, ExpiresAt: c.ExpiresAt}, nil
}

// errOvertaken says that at the same moment somebody else signed in by the same new wallet, or it was unlinked.
var errOvertaken = errors.New("the wallet has come to open another account, or none, meanwhile")

func (m mutations) SignedIn(ctx context.Context, secret string, name *string, scopes []string, confirmed bool) (*schema.SignedIn, error) {
	if scopes == nil {
		scopes = Scopes
	}
	scopes, err := tidyScopes(scopes)
	if err != nil {
		return nil, err
	}
	var links *int64
	if confirmed {
		if links, err = m.mayLink(ctx); err != nil {
			return nil, err
		}
	}
	var user int64
	var in *schema.SignedIn
	collect := func(tx pgx.Tx) (err error) {
		user, in, err = m.collect(ctx, db.New(tx), secret, links, name, scopes)
		return err
	}
	err = m.inTx(ctx, collect)
	if errors.Is(err, errOvertaken) {
		err = m.inTx(ctx, collect)
	}
	if err != nil || in == nil {
		return nil, err
	}
	in.User, err = loadersOf(ctx).users.Load(ctx, user)
	return in, err
}

// collect takes what a wallet has signed. In one transaction it links the wallet, or makes the key for the sign-in.
func (m mutations) collect(ctx context.Context, q *db.Queries, secret string, links *int64, name *string, scopes []string) (user int64, in *schema.SignedIn, err error) {
	now := m.Now().UTC()
	signed, err := keyauth.Collect(ctx, q, secret, links, now)
	if err != nil || signed == nil {
		return 0, nil, err
	}
	if signed.Links != nil {
		// mayLink has looked, but this transaction may have waited for its turn since.
		return *signed.Links, &schema.SignedIn{}, m.holdKey(ctx, q)
	}
	in = &schema.SignedIn{ExpiresAt: new(now.Add(m.KeepsKeys))}
	user, err = q.UserByLinkingKey(ctx, signed.Key)
	if errors.Is(err, pgx.ErrNoRows) {
		in.New = true
		user, err = m.firstSignIn(ctx, q, signed.Key, name, now)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("find whose wallet signs in: %w", err)
	}
	if _, err = q.LockUser(ctx, user); err != nil {
		return 0, nil, fmt.Errorf("lock who signs in: %w", err)
	}
	// This may have waited for its turn. Once a wallet is unlinked, whoever looks through the keys sees all that it got.
	_, err = q.HoldLinkingKey(ctx, db.HoldLinkingKeyParams{Key: signed.Key, UserID: user})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil, errOvertaken
	}
	if err != nil {
		return 0, nil, fmt.Errorf("hold the wallet that signs in: %w", err)
	}
	key, err := signInKey(ctx, q, user, scopes, *in.ExpiresAt, now)
	in.Key = &key
	return user, in, err
}

// signedInAtOnce is how many good keys that they got by signing in a user may have: more than anybody has browsers. A
// new one ends the oldest.
const signedInAtOnce = 20

// deadKeysOfOne is how many of the keys that a user got by signing in are still listed when they are good for nothing.
// Of those beyond that, each sign-in deletes a page.
const (
	deadKeysOfOne = 1000
	deadKeysPage  = 10
)

// signInKey makes a key for a user who is locked.
func signInKey(ctx context.Context, q *db.Queries, user int64, scopes []string, until, now time.Time) (key string, err error) {
	if _, key, err = newKey(ctx, q, user, scopes, &until, now); err != nil {
		return "", err
	}
	if err = q.RevokeOldestKeys(ctx, db.RevokeOldestKeysParams{At: &now, UserID: user, Most: signedInAtOnce}); err != nil {
		return "", fmt.Errorf("revoke the oldest keys: %w", err)
	}
	// Each sign-in reads all keys of its user. Without a bound, whoever signs in all day would have that read millions.
	if err = q.ForgetDeadKeys(ctx, db.ForgetDeadKeysParams{UserID: user, At: now, Most: deadKeysOfOne, Page: deadKeysPage}); err != nil {
		return "", fmt.Errorf("forget dead keys: %w", err)
	}
	return key, nil
}

// firstSignIn makes the user of an unknown wallet.
func (m mutations) firstSignIn(ctx context.Context, q *db.Queries, linking []byte, name *string, now time.Time) (user int64, err error) {
	if !m.NewUsers {
		return 0, paidaction.Errorf(paidaction.CodeForbidden, "No account belongs to this wallet, and signing up is closed here.")
	}
	if name != nil {
		user, err = newUser(ctx, q, *name, now)
	} else {
		user, err = unnamedUser(ctx, q, now)
	}
	if err != nil {
		return 0, err
	}
	n, err := q.InsertLinkingKey(ctx, db.InsertLinkingKeyParams{Key: linking, UserID: user, At: now})
	if err == nil && n == 0 {
		err = errOvertaken
	}
	return user, err
}

// unnamedUser makes a user with a random name. 40 random bits are almost never taken; a few tries make up for the rest.
func unnamedUser(ctx context.Context, q *db.Queries, now time.Time) (user int64, err error) {
	for range 3 {
		var chance [5]byte
		rand.Read(chance[:])
		user, err = newUser(ctx, q, "user_"+strings.ToLower(base32.StdEncoding.EncodeToString(chance[:])), now)
		if !errors.Is(err, paidaction.Refused(paidaction.CodeDuplicate)) {
			break
		}
	}
	return user, err
}

func (m mutations) SignOut(ctx context.Context) (*db.Usr, error) {
	s := sessionOf(ctx)
	if s.user == nil {
		return nil, paidaction.Errorf(paidaction.CodeUnauthenticated, "You are not signed in.")
	}
	n, err := m.writes().RevokeKey(ctx, db.RevokeKeyParams{At: new(m.Now()), KeyHash: s.hash})
	if err != nil {
		return nil, fmt.Errorf("revoke a key: %w", err)
	}
	if n == 0 { // a token, which is its site's
		return nil, paidaction.Errorf(paidaction.CodeForbidden, "This key cannot be revoked here. If your site has signed you in, sign out there.")
	}
	// As RevokeKey does, and to the end even if the page is closed: nobody can ask for it with this key again.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.Limits.Time)
	defer cancel()
	if err := m.inTx(end, func(tx pgx.Tx) error { return paidaction.RefuseAgainOf(end, db.New(tx), *s.user, m.Now()) }); err != nil {
		return nil, err
	}
	return loadersOf(ctx).users.Load(ctx, *s.user)
}
