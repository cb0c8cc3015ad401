package graph

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func errToken() error {
	return refused(http.StatusUnauthorized, paidaction.CodeUnauthenticated, "This token is not valid here, or has expired. Get a new one from your site.")
}

// isToken says whether a credential is a token of the site, and no key of ours: those have no dots.
func (r *resolver) isToken(credential string) bool {
	return r.Site != nil && strings.Count(credential, ".") == 2
}

// authenticateToken finds out whose token it is, and makes them a user when they come for the first time.
func (r *resolver) authenticateToken(ctx context.Context, token, client string) (*session, error) {
	claims, err := r.Site.Verify(ctx, token)
	if errors.Is(err, sitejwt.ErrKeysAway) {
		return nil, refused(http.StatusServiceUnavailable, paidaction.CodeTryAgain, "Your site's keys cannot be read at the moment. Try again in a while.")
	}
	if err != nil {
		return nil, errToken()
	}
	user, err := r.siteUser(ctx, claims)
	if errors.Is(err, errOvertaken) {
		user, err = r.siteUser(ctx, claims)
	}
	if err != nil {
		return nil, notLookedUp(err)
	}
	return &session{client: client, user: &user, scopes: siteScopes(claims.Scopes), until: claims.Expires}, nil
}

// siteScopes are what a token is good for: all, unless it says. What is none of our scopes is another service's.
func siteScopes(said []string) []string {
	if said == nil {
		return Scopes
	}
	var ours []string
	for _, s := range said {
		if upper := strings.ToUpper(s); slices.Contains(Scopes, upper) {
			ours = append(ours, upper)
		}
	}
	return ours
}

// siteUser is whom a subject is here. Of two that come for the first time at once one gets errOvertaken.
func (r *resolver) siteUser(ctx context.Context, c sitejwt.Claims) (user int64, err error) {
	user, err = db.New(r.Pool).UserBySite(ctx, db.UserBySiteParams{Issuer: r.Site.Issuer, Subject: c.Subject})
	if !errors.Is(err, pgx.ErrNoRows) {
		return user, err
	}
	err = pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		q, now := db.New(tx), r.Now().UTC()
		user, err = newUser(ctx, q, strings.ToLower(c.Name), now)
		if _, refusal := paidaction.AsRefusal(err); refusal { // the site says no name, or one that is none here, or taken
			user, err = unnamedUser(ctx, q, now, r.Random)
		}
		if err != nil {
			return err
		}
		n, err := q.InsertSiteUser(ctx, db.InsertSiteUserParams{Issuer: r.Site.Issuer, Subject: c.Subject, UserID: user, At: now})
		if err == nil && n == 0 {
			return errOvertaken
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("make the user of a subject: %w", err)
	}
	return user, nil
}
