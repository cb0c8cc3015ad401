// Package sitejwt checks the tokens (JWT) of an existing site that Holdfast stands behind: they say who somebody is. It
// makes no tokens.
package sitejwt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Why somebody is not let in.
var (
	// ErrRefused says that a token is not good. Why is for the log alone.
	ErrRefused = errors.New("sitejwt: the token is not good")
	// ErrKeysAway says that no token can be checked: the site's keys cannot be read, and none are known.
	ErrKeysAway = errors.New("sitejwt: the site's keys cannot be read")
)

// algorithms are those that are checked with a public key. A token that names any other, including "none" and HMAC, is
// refused before any key is looked for: a public key must never be used as the secret of an HMAC.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// types are the values allowed for a token's typ; it may also have none.
var types = []string{"", "jwt", "at+jwt", "application/at+jwt"}

const (
	leeway     = 30 * time.Second // between the site's clock and ours
	maxToken   = 8 << 10          // bytes
	maxSubject = 255              // bytes
)

// Config says whose tokens are accepted. Everything is required except Log.
type Config struct {
	Issuer   string // iss, letter by letter
	Audience string // one of aud
	Fetch    Fetch  // reads the site's keys
	Now      func() time.Time
	Log      *slog.Logger // default slog.Default()
}

// Verifier is safe for concurrent use.
type Verifier struct {
	Config
	keys keys
}

// New makes a verifier. It reads no keys until the first token comes.
func New(c Config) (*Verifier, error) {
	if c.Issuer == "" || c.Audience == "" || c.Fetch == nil || c.Now == nil {
		return nil, errors.New("sitejwt: an issuer, an audience, keys and a clock are needed")
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	v := &Verifier{Config: c}
	v.keys = keys{fetch: c.Fetch, now: c.Now, log: c.Log}
	return v, nil
}

// Claims are those contents of a token that count here.
type Claims struct {
	Subject string
	Name    string   // preferred_username, as it is; may be empty
	Scopes  []string // nil: the token says nothing of scopes
	Expires time.Time
}

// said are the claims besides the registered ones.
type said struct {
	Scope scopes `json:"scope"`
	Name  string `json:"preferred_username"`
}

// scopes are nil if the claim is missing: then the token is good for everything. So the claim must not count as missing
// where it is there but says nothing.
type scopes []string

// UnmarshalJSON refuses all but text, null included.
func (s *scopes) UnmarshalJSON(claim []byte) error {
	var text *string
	if err := json.Unmarshal(claim, &text); err != nil {
		return err
	}
	if text == nil {
		return errors.New("the scope is null")
	}
	*s = append(scopes{}, strings.Fields(*text)...)
	return nil
}

// Verify checks a token and returns its claims, or ErrRefused or ErrKeysAway. Expires includes the leeway.
func (v *Verifier) Verify(ctx context.Context, token string) (Claims, error) {
	refuse := func(why string, err error) (Claims, error) {
		v.Log.DebugContext(ctx, "a token was refused", "why", why, "error", err)
		return Claims{}, ErrRefused
	}
	if len(token) > maxToken {
		return refuse("it is too long", nil)
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return refuse("it cannot be read, or its algorithm is none of ours", err)
	}
	header := parsed.Headers[0]
	if kind, _ := header.ExtraHeaders[jose.HeaderType].(string); !slices.Contains(types, strings.ToLower(kind)) {
		return refuse("it is of another type", nil)
	}
	key, err := v.keys.find(ctx, header.KeyID, header.Algorithm)
	if errors.Is(err, ErrKeysAway) {
		return Claims{}, err
	}
	if err != nil {
		return refuse("its key is not known", err)
	}
	var claims jwt.Claims
	var more said
	if err := parsed.Claims(key.Key, &claims, &more); err != nil {
		return refuse("its signature or its claims are wrong", err)
	}
	err = claims.ValidateWithLeeway(jwt.Expected{Issuer: v.Issuer, AnyAudience: jwt.Audience{v.Audience}, Time: v.Now()}, leeway)
	if err != nil {
		return refuse("it is for somebody else, or at another time", err)
	}
	if claims.Expiry == nil {
		return refuse("it never expires", nil)
	}
	if claims.Subject == "" || len(claims.Subject) > maxSubject || !utf8.ValidString(claims.Subject) || strings.ContainsRune(claims.Subject, 0) {
		return refuse("it says of nobody", nil)
	}
	return Claims{Subject: claims.Subject, Name: more.Name, Scopes: more.Scope, Expires: claims.Expiry.Time().Add(leeway)}, nil
}
