// Package sitejwttest is a site that issues tokens, for tests.
package sitejwttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// What the site's tokens say, unless a test says otherwise.
const (
	Issuer   = "https://site.example"
	Audience = "holdfast"
)

// Site serves its keys on loopback.
type Site struct {
	testing.TB
	URL string

	mu    sync.Mutex
	kid   string
	key   *ecdsa.PrivateKey
	more  []jose.JSONWebKey
	away  bool
	reads int
}

// New makes a site with one key, named first.
func New(t testing.TB) *Site {
	s := &Site{TB: t}
	s.Rotate("first")
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Rotate replaces the site's key.
func (s *Site) Rotate(kid string) {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kid, s.key = kid, key
}

// Adds puts further keys into the set.
func (s *Site) Adds(more ...jose.JSONWebKey) { s.mu.Lock(); defer s.mu.Unlock(); s.more = more }

// Away sets whether the site fails to answer.
func (s *Site) Away(away bool) { s.mu.Lock(); defer s.mu.Unlock(); s.away = away }

// Reads is how often the keys were asked for.
func (s *Site) Reads() int { s.mu.Lock(); defer s.mu.Unlock(); return s.reads }

// Key is the public key.
func (s *Site) Key() crypto.PublicKey { s.mu.Lock(); defer s.mu.Unlock(); return s.key.Public() }

// ServeHTTP serves the keys.
func (s *Site) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.away {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	set := jose.JSONWebKeySet{Keys: append([]jose.JSONWebKey{{Key: s.key.Public(), KeyID: s.kid, Algorithm: string(jose.ES256), Use: "sig"}}, s.more...)}
	_ = json.NewEncoder(w).Encode(set)
}

// Claims are those of a token that is valid for a minute.
func Claims(subject string, now time.Time) map[string]any {
	return map[string]any{"iss": Issuer, "aud": Audience, "sub": subject, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
}

// Token is a token signed with the site's key.
func (s *Site) Token(claims map[string]any) string {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Sign(s, jose.ES256, s.key, s.kid, claims)
}

// Sign makes a token of any kind.
func Sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
