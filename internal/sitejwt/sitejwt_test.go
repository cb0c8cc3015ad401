package sitejwt_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt"
	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt/sitejwttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time          { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) Advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

func verifier(t testing.TB) (*sitejwttest.Site, *sitejwt.Verifier, *clock) {
	t.Helper()
	site, c := sitejwttest.New(t), &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	v, err := sitejwt.New(sitejwt.Config{Issuer: sitejwttest.Issuer, Audience: sitejwttest.Audience, Fetch: sitejwt.FromURL(site.URL), Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	return site, v, c
}

// with is a token's claims with some of them changed; nil removes a claim.
func with(c *clock, change map[string]any) map[string]any {
	claims := sitejwttest.Claims("alice", c.Now())
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

func TestTokensThatAreGood(t *testing.T) {
	t.Parallel()
	site, v, c := verifier(t)
	second := int64(1)
	for name, x := range map[string]struct {
		claims map[string]any
		scopes []string
	}{
		"as it is":             {nil, nil},
		"for several":          {map[string]any{"aud": []string{"another", sitejwttest.Audience}}, nil},
		"with scopes":          {map[string]any{"scope": "read  openid"}, []string{"read", "openid"}},
		"with empty scopes":    {map[string]any{"scope": ""}, []string{}},
		"a little too late":    {map[string]any{"exp": c.Now().Unix() - 29*second}, nil},
		"a little too soon":    {map[string]any{"nbf": c.Now().Unix() + 29*second}, nil},
		"with a name":          {map[string]any{"preferred_username": "al"}, nil},
		"a clock that is fast": {map[string]any{"iat": c.Now().Unix() + 29*second}, nil},
	} {
		claims, err := v.Verify(t.Context(), site.Token(with(c, x.claims)))
		if err != nil || claims.Subject != "alice" || (claims.Scopes == nil) != (x.scopes == nil) || strings.Join(claims.Scopes, " ") != strings.Join(x.scopes, " ") {
			t.Errorf("%s: %+v, %v", name, claims, err)
		}
	}
	if site.Reads() != 1 {
		t.Errorf("the keys were read %d times", site.Reads())
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	site.Adds(jose.JSONWebKey{Key: rsaKey.Public(), KeyID: "rsa"}, jose.JSONWebKey{Key: public, KeyID: "ed"})
	c.Advance(2 * time.Minute)
	for _, token := range []string{sitejwttest.Sign(t, jose.RS256, rsaKey, "rsa", with(c, nil)), sitejwttest.Sign(t, jose.PS384, rsaKey, "rsa", with(c, nil)),
		sitejwttest.Sign(t, jose.EdDSA, private, "ed", with(c, nil))} {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Error(err)
		}
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	site, v, c := verifier(t)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	shared := jose.JSONWebKey{Key: []byte(strings.Repeat("k", 32)), KeyID: "shared"}
	site.Adds(jose.JSONWebKey{Key: weak.Public(), KeyID: "weak"}, shared, jose.JSONWebKey{Key: stranger.Public(), KeyID: "for encryption", Use: "enc"},
		jose.JSONWebKey{Key: strong.Public(), KeyID: "strong"}, jose.JSONWebKey{Key: strong.Public(), KeyID: "for PS256", Algorithm: string(jose.PS256)})
	der, err := x509.MarshalPKIXPublicKey(site.Key())
	if err != nil {
		t.Fatal(err)
	}
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	asJSON, err := json.Marshal(jose.JSONWebKey{Key: site.Key()})
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	good := site.Token(with(c, nil))
	parts := strings.Split(good, ".")
	embedded, err := json.Marshal(map[string]any{"alg": "ES256", "jwk": jose.JSONWebKey{Key: stranger.Public()}, "kid": "first"})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: strong},
		(&jose.SignerOptions{}).WithType("logout+jwt").WithHeader("kid", "strong"))
	if err != nil {
		t.Fatal(err)
	}
	elsewise, err := jwt.Signed(signer).Claims(with(c, nil)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"of another type":            elsewise,
		"by another algorithm":       sitejwttest.Sign(t, jose.RS256, strong, "for PS256", with(c, nil)),
		"expired":                    site.Token(with(c, map[string]any{"exp": c.Now().Unix() - 31})),
		"not yet":                    site.Token(with(c, map[string]any{"nbf": c.Now().Unix() + 31})),
		"made in the future":         site.Token(with(c, map[string]any{"iat": c.Now().Unix() + 31})),
		"without an end":             site.Token(with(c, map[string]any{"exp": nil})),
		"of another issuer":          site.Token(with(c, map[string]any{"iss": sitejwttest.Issuer + "/"})),
		"of no issuer":               site.Token(with(c, map[string]any{"iss": nil})),
		"for another audience":       site.Token(with(c, map[string]any{"aud": "another"})),
		"for no audience":            site.Token(with(c, map[string]any{"aud": nil})),
		"of nobody":                  site.Token(with(c, map[string]any{"sub": ""})),
		"of a subject too long":      site.Token(with(c, map[string]any{"sub": strings.Repeat("x", 256)})),
		"with a zero in the subject": site.Token(with(c, map[string]any{"sub": "a\x00"})),
		"with a scope of null":       site.Token(with(c, map[string]any{"scope": json.RawMessage("null")})),
		"with scopes in a list":      site.Token(with(c, map[string]any{"scope": []string{"read"}})),
		"by another key":             sitejwttest.Sign(t, jose.ES256, stranger, "first", with(c, nil)),
		"by an unknown key":          sitejwttest.Sign(t, jose.ES256, stranger, "unknown", with(c, nil)),
		"by a key for encryption":    sitejwttest.Sign(t, jose.ES256, stranger, "for encryption", with(c, nil)),
		"by a weak key":              sitejwttest.Sign(t, jose.RS256, weak, "weak", with(c, nil)),
		"by a shared secret":         sitejwttest.Sign(t, jose.HS256, shared.Key, "shared", with(c, nil)),
		"public key as secret, PEM":  sitejwttest.Sign(t, jose.HS256, asPEM, "first", with(c, nil)),
		"public key as secret, DER":  sitejwttest.Sign(t, jose.HS256, der, "first", with(c, nil)),
		"public key as secret, JWK":  sitejwttest.Sign(t, jose.HS256, asJSON, "first", with(c, nil)),
		"alg none":                   encoded(`{"alg":"none","kid":"first"}`) + "." + parts[1] + ".",
		"alg None with a signature":  encoded(`{"alg":"None","kid":"first"}`) + "." + parts[1] + "." + parts[2],
		"its own key":                encoded(string(embedded)) + "." + parts[1] + "." + parts[2],
		"without a signature":        parts[0] + "." + parts[1] + ".",
		"with other claims":          parts[0] + "." + encoded(strings.Replace(string(decoded(t, parts[1])), "alice", "mallory", 1)) + "." + parts[2],
		"too long":                   site.Token(with(c, map[string]any{"x": strings.Repeat("x", 9<<10)})),
		"no token":                   "a.b.c",
		"nothing":                    "..",
	} {
		if claims, err := v.Verify(t.Context(), token); !errors.Is(err, sitejwt.ErrRefused) {
			t.Errorf("%s: %+v, %v", name, claims, err)
		}
	}
	for name, token := range map[string]string{"the good one": good, "of the type and algorithm that are right": sitejwttest.Sign(t, jose.RS256, strong, "strong", with(c, nil))} {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if site.Reads() != 1 {
		t.Errorf("tokens of unknown keys had the keys read %d times", site.Reads())
	}
}

func decoded(t testing.TB, part string) []byte {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A new key is found when the first token names it. The previous key is no longer valid once the keys were read again.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	site, v, c := verifier(t)
	verify := func(token string) error { _, err := v.Verify(t.Context(), token); return err }
	old := site.Token(with(c, map[string]any{"exp": c.Now().Add(time.Hour).Unix()}))
	if err := verify(old); err != nil {
		t.Fatal(err)
	}
	site.Rotate("second")
	young := site.Token(with(c, map[string]any{"exp": c.Now().Add(3 * time.Hour).Unix()}))
	if err := verify(young); !errors.Is(err, sitejwt.ErrRefused) || site.Reads() != 1 {
		t.Errorf("read again at once, %d times: %v", site.Reads(), err)
	}
	c.Advance(30 * time.Second)
	if err := verify(young); err != nil || site.Reads() != 2 {
		t.Errorf("after a pause: %v, read %d times", err, site.Reads())
	}
	if err := verify(old); !errors.Is(err, sitejwt.ErrRefused) {
		t.Errorf("the old key: %v", err)
	}
	c.Advance(time.Hour)
	if err := verify(young); err != nil || site.Reads() != 3 {
		t.Errorf("after an hour: %v, read %d times", err, site.Reads())
	}
}

// An unreachable site locks out nobody who has a token. But if its keys were never read, nobody gets in.
func TestKeysThatAreAway(t *testing.T) {
	t.Parallel()
	site, v, c := verifier(t)
	verify := func() error {
		_, err := v.Verify(t.Context(), site.Token(with(c, nil)))
		return err
	}
	site.Away(true)
	for range 3 {
		if err := verify(); !errors.Is(err, sitejwt.ErrKeysAway) {
			t.Errorf("without keys: %v", err)
		}
	}
	if site.Reads() != 1 {
		t.Errorf("the site was asked %d times in a moment", site.Reads())
	}
	site.Away(false)
	c.Advance(2 * time.Second)
	if err := verify(); err != nil {
		t.Fatalf("the site is back: %v", err)
	}
	site.Away(true)
	for range 3 {
		c.Advance(24 * time.Hour)
		if err := verify(); err != nil {
			t.Errorf("the site is away: %v", err)
		}
	}
}

func TestKeysInAFile(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, set, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &clock{now: time.Now()}
	v, err := sitejwt.New(sitejwt.Config{Issuer: sitejwttest.Issuer, Audience: sitejwttest.Audience, Fetch: sitejwt.FromFile(path), Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), sitejwttest.Sign(t, jose.ES384, key, "", with(c, nil))); err != nil {
		t.Errorf("a token that names no key, of the only one: %v", err)
	}
}
