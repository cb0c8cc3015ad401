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
	"github.com/a-seed-a7aed72f/holdfast/internal/gather"
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
	s := &session{client: client, scopes: siteScopes(claims.Scopes), until: claims.Expires}
	ctx = withSession(ctx, s) // until it is known whose token it is, it counts as its address
	user, err := r.siteUser(ctx, claims)
	if errors.Is(err, errOvertaken) {
		user, err = r.siteUser(ctx, claims)
	}
	if err != nil {
		return nil, notLookedUp(err)
	}
	s.user = &user
	return s, nil
}

// subject asks for the user of a token's subject. Until it is answered, it has an error.
type subject struct {
	name string
	user int64
	err  error
}

// lookUpSubjects shares looks as lookUpKeys does: a look is before all meters, so it must not cost a connection for each
// request. Nothing is remembered: what a server has lost that was replaced by another must not be believed.
func (c Config) lookUpSubjects() *gather.Group[*subject] {
	looks := gather.New(looksAtOnce, keysOfALook, func(ctx context.Context, all []*subject) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		names := make([]string, len(all))
		for i, s := range all {
			names[i] = s.name
		}
		rows, err := db.New(c.Pool).UsersBySite(ctx, db.UsersBySiteParams{Issuer: c.Site.Issuer, Subjects: names})
		users := make(map[string]int64, len(rows))
		for _, row := range rows {
			users[row.Subject] = row.UserID
		}
		for _, s := range all {
			var known bool
			if s.user, known = users[s.name]; !known && err == nil {
				s.err = pgx.ErrNoRows
			} else {
				s.err = err
			}
		}
	})
	looks.Patience = lookPatience
	return looks
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
	known := &subject{name: c.Subject, err: errNotAnswered}
	if err := r.subjects.Do(ctx, known); err != nil {
		return 0, err
	}
	if !errors.Is(known.err, pgx.ErrNoRows) {
		return known.user, known.err
	}
	err = r.inTx(ctx, func(tx pgx.Tx) error {
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
