package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// session says who makes a request or opened a connection.
type session struct {
	user   *int64   // nil is the anonymous user
	hash   []byte   // of the key; nil with a token of the site
	scopes []string // of the key; they never change
	client string
	until  time.Time     // a token of the site is good until then, and cannot be revoked; zero for keys
	slots  chan struct{} // of operations under way on one websocket; nil for single requests
	line   line

	mu      sync.Mutex
	checked time.Time
}

// line is how the end of an open connection is signaled; the zero value is for a single request.
type line struct {
	ending <-chan struct{} // closed when a websocket is to end
	gone   <-chan struct{} // closed when it has ended
	cut    func()          // ends server-sent events without calling them complete
}

type sessionKey struct{}

func withSession(ctx context.Context, s *session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// sessionOf returns the session of a request. Every request has one, from the door.
func sessionOf(ctx context.Context) *session { return ctx.Value(sessionKey{}).(*session) }

// signedIn returns the user; there is nothing here for the anonymous.
func signedIn(ctx context.Context) (int64, error) {
	user := sessionOf(ctx).user
	if user == nil {
		return 0, paidaction.Errorf(paidaction.CodeUnauthenticated, "Sign in to do this.")
	}
	return *user, nil
}

// caller is the session as the engine knows it. The secret, if there is one, proves that an anonymous action is theirs.
func caller(ctx context.Context, secret *string) paidaction.Caller {
	s := sessionOf(ctx)
	c := paidaction.Caller{User: s.user, Client: s.client}
	if secret != nil {
		c.Secret = *secret
	}
	return c
}

func errKey() error {
	return refused(http.StatusUnauthorized, paidaction.CodeUnauthenticated,
		"This key is not known, has expired, or was revoked. Send the header: Authorization: Bearer <your key>.")
}

// authenticate finds the owner of the key, or of the site's token, in an Authorization header. No header means the
// anonymous user; an unknown key is refused, never treated as no key. An address that sends too many unknown keys is
// refused before the database is asked. A token is checked first: each is new here, and a good one is no guess.
func (r *resolver) authenticate(ctx context.Context, header, client string) (*session, error) {
	if header == "" {
		return &session{client: client}, nil
	}
	scheme, key, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, errKey()
	}
	key = strings.TrimSpace(key)
	hash := HashKey(key)
	limited := r.meters.guesses.mayTry(hash, client, r.Now())
	find := r.authenticateKey
	if r.isToken(key) {
		find = r.authenticateToken
	} else if limited != nil {
		return nil, limited
	}
	s, err := find(ctx, key, client)
	switch {
	case err == nil:
		r.meters.guesses.right(hash)
	case errors.Is(err, paidaction.Refused(paidaction.CodeUnauthenticated)):
		r.meters.guesses.wrong(hash, client, r.Now())
		err = cmp.Or(limited, err)
	}
	return s, err
}

func (r *resolver) authenticateKey(ctx context.Context, key, client string) (*session, error) {
	s := &session{client: client, hash: HashKey(key), checked: r.Now()}
	found, err := r.userByKey(ctx, s.hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errKey()
	}
	if err != nil {
		return nil, notLookedUp(err)
	}
	s.user, s.scopes = &found.user, found.scopes
	return s, nil
}

// notLookedUp says that nothing was begun: if the database is unavailable, the client may ask again.
func notLookedUp(err error) error {
	if paidaction.IsPassing(err) {
		again := paidaction.Errorf(paidaction.CodeTryAgain, "A part of this service is busy or restarting. Try again in a moment.")
		return &httpError{http.StatusServiceUnavailable, again.Because(err)}
	}
	return fmt.Errorf("look up a key: %w", err)
}

// recheck refuses a session whose key has been revoked. The database is asked unless it was asked within last.
func (r *resolver) recheck(ctx context.Context, s *session, last time.Duration) error {
	if s.user == nil {
		return nil
	}
	if !s.until.IsZero() {
		if !r.Now().Before(s.until) {
			return errToken()
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.Now()
	if now.Sub(s.checked) < last {
		return nil
	}
	if _, err := r.userByKey(ctx, s.hash); errors.Is(err, pgx.ErrNoRows) {
		return errKey()
	} else if err != nil {
		return notLookedUp(err)
	}
	s.checked = now
	return nil
}

// recheckLater is recheck for each mutation of a request but the first, for which the key has just been looked up. The
// ones before it may have waited for a stranger's server, for as long as that chose.
func (r *resolver) recheckLater(ctx context.Context) error {
	op := graphql.GetOperationContext(ctx)
	first := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Mutation"})[0]
	if graphql.GetRootFieldContext(ctx).Field.Alias == first.Alias {
		return nil
	}
	return r.recheck(ctx, sessionOf(ctx), 0)
}

// holdKey refuses a request whose key is not good any more, and lets nobody revoke it before the transaction of q ends.
// So what is written there is there when whoever revokes the key is told that it is revoked.
func (r *resolver) holdKey(ctx context.Context, q *db.Queries) error {
	s := sessionOf(ctx)
	if s.hash == nil { // a token of the site, which nobody can revoke
		return r.recheck(ctx, s, 0)
	}
	until, err := q.HoldKey(ctx, s.hash)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && until != nil && !r.Now().Before(*until) {
		return errKey()
	}
	if err != nil {
		return notLookedUp(err)
	}
	return nil
}

// initWebsocket authenticates a connection by its first message: browsers cannot send headers with a websocket.
func (d *door) initWebsocket(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	s := sessionOf(ctx)
	if header := payload.Authorization(); header != "" {
		signedIn, err := d.authenticate(ctx, header, s.client)
		if err != nil {
			status := closeUnauthorized
			if !errors.Is(err, paidaction.Refused(paidaction.CodeUnauthenticated)) {
				status = closeTryAgainLater // it is not known whether the key is good
			}
			return d.closing(ctx, status, err)
		}
		signedIn.slots, signedIn.line = s.slots, s.line
		s = signedIn
	} else if isNoText(payload["Authorization"]) || isNoText(payload["authorization"]) {
		return d.closing(ctx, closeUnauthorized, errKey())
	}
	if !d.sockets.take(s.who(), 1) {
		return d.closing(ctx, closeTooManyRequests, paidaction.Errorf(codeOperationLimit, "At most %d connections may be open at once. Close some first.", d.Limits.Sockets))
	}
	context.AfterFunc(ctx, func() { d.sockets.free(s.who(), 1) }) // the place is free when the connection ends
	return withSession(ctx, s), nil, nil
}

func isNoText(v any) bool {
	_, text := v.(string)
	return v != nil && !text
}
