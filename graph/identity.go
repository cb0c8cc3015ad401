package graph

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// session is who a request or a connection belongs to.
type session struct {
	user   *int64 // nil is the anonymous
	hash   []byte // of the key
	client string
	slots  chan struct{} // of operations under way on one websocket; nil for single requests

	mu      sync.Mutex
	checked time.Time
}

type sessionKey struct{}

func withSession(ctx context.Context, s *session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// sessionOf is the session of a request. Every request has one: the door sees to it.
func sessionOf(ctx context.Context) *session { return ctx.Value(sessionKey{}).(*session) }

// caller is the session as the engine knows it. The secret, if any, proves that an anonymous action is theirs.
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
		"This key is not known, or was revoked. Send the header: Authorization: Bearer <your key>.")
}

// authenticate finds out whose key an Authorization header carries. No header at all is the anonymous; a key that is not
// known is refused, never taken for no key. An address that sends too many of those is asked to wait, before the database is.
func (r *resolver) authenticate(ctx context.Context, header, client string) (*session, error) {
	if header == "" {
		return &session{client: client}, nil
	}
	if err := r.meters.wrong.spent(client, r.Now()); err != nil {
		return nil, err
	}
	scheme, key, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, errKey()
	}
	s := &session{client: client, hash: HashKey(strings.TrimSpace(key)), checked: r.Now()}
	user, err := db.New(r.Pool).UserByKey(ctx, s.hash)
	if errors.Is(err, pgx.ErrNoRows) {
		_ = r.meters.wrong.take(client, r.Now()) // counted; whether the next one is looked up is asked above
		return nil, errKey()
	}
	if err != nil {
		return nil, fmt.Errorf("look up a key: %w", err)
	}
	s.user = &user
	return s, nil
}

// recheck refuses a session whose key was revoked meanwhile. The database is asked from time to time.
func (r *resolver) recheck(ctx context.Context, s *session) error {
	if s.user == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := r.Now()
	if now.Sub(s.checked) < r.RecheckKeys {
		return nil
	}
	if _, err := db.New(r.Pool).UserByKey(ctx, s.hash); errors.Is(err, pgx.ErrNoRows) {
		return errKey()
	} else if err != nil {
		return fmt.Errorf("look up a key: %w", err)
	}
	s.checked = now
	return nil
}

// initWebsocket signs a connection in by its first message: browsers cannot send headers with a websocket.
func (d *door) initWebsocket(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	header := payload.Authorization()
	if header == "" {
		return ctx, nil, nil
	}
	opened := sessionOf(ctx)
	s, err := d.authenticate(ctx, header, opened.client)
	if err != nil {
		const unauthorized = 4401 // as the protocol has it
		return transport.WithWebsocketCloseCode(transport.AppendCloseReason(ctx, "unauthenticated"), unauthorized), nil,
			errors.New(d.present(ctx, err).Message)
	}
	s.slots = opened.slots
	return withSession(ctx, s), nil, nil
}

// HashKey is how a key is stored. A key is 32 random bytes, so a fast hash gives nothing away.
func HashKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

var namePattern = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// SignUp makes a user and a key. The key is shown this once; only its hash is stored.
//
// Errors: INVALID_INPUT where the name breaks the rules, DUPLICATE where it is taken.
func SignUp(ctx context.Context, pool *pgxpool.Pool, name string, now time.Time, random io.Reader) (user int64, key string, err error) {
	if !namePattern.MatchString(name) {
		return 0, "", paidaction.Errorf(paidaction.CodeInvalidInput, "A name has 1 to 32 characters: small letters, digits and underscores.")
	}
	var secret [32]byte
	if _, err := io.ReadFull(random, secret[:]); err != nil {
		return 0, "", fmt.Errorf("read randomness: %w", err)
	}
	key = "hf_" + base64.RawURLEncoding.EncodeToString(secret[:])
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		user, err = q.InsertUser(ctx, db.InsertUserParams{Name: name, CreatedAt: now})
		if errors.Is(err, pgx.ErrNoRows) {
			return paidaction.Errorf(paidaction.CodeDuplicate, "The name %s is taken. Choose another one.", name)
		}
		if err != nil {
			return fmt.Errorf("insert a user: %w", err)
		}
		return q.InsertKey(ctx, db.InsertKeyParams{UserID: user, KeyHash: HashKey(key), CreatedAt: now})
	})
	return user, key, err
}
