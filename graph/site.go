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

// isToken reports whether a credential is a token of the site rather than a key of ours: keys have no dots.
func (r *resolver) isToken(credential string) bool {
	return r.Site != nil && strings.Count(credential, ".") == 2
}

// authenticateToken finds whose token it is. It makes a user for somebody who comes for the first time.
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

// siteScopes are the scopes of a token: all, unless it names some. Scopes that are not ours are for other services.
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

// siteUser returns the user for a token's subject. If two first requests come at once, one gets errOvertaken.
func (r *resolver) siteUser(ctx context.Context, c sitejwt.Claims) (user int64, err error) {
	user, err = db.New(r.Pool).UserBySite(ctx, db.UserBySiteParams{Issuer: r.Site.Issuer, Subject: c.Subject})
	if !errors.Is(err, pgx.ErrNoRows) {
		return user, err
	}
	err = pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		q, now := db.New(tx), r.Now().UTC()
		user, err = newUser(ctx, q, strings.ToLower(c.Name), now)
		if _, refusal := paidaction.AsRefusal(err); refusal { // no name, or one that is invalid or taken
			user, err = unnamedUser(ctx, q, now)
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
