package config

import (
	"errors"
	"net/netip"
	"net/url"
	"time"
)

// SignIn is how people prove who they are, besides by the keys that an operator hands out.
type SignIn struct {
	WalletSignUp bool          `help:"An unknown wallet makes a new user when it signs in (LNURL-auth)." default:"true" negatable:""`
	SignedInFor  time.Duration `help:"How long an API key that was issued at sign-in is valid." default:"720h"`

	JWTIssuer   string `name:"jwt-issuer" help:"The iss of an existing site whose tokens (JWT) are accepted here; it must match exactly." placeholder:"ISSUER"`
	JWTAudience string `name:"jwt-audience" help:"What the tokens' aud must name." placeholder:"AUDIENCE"`
	JWKSURL     Keys   `name:"jwks-url" help:"URL of the site's keys (JWKS)." placeholder:"URL"`
	JWKSFile    string `name:"jwks-file" help:"File with the site's keys (JWKS), instead of a URL." placeholder:"FILE"`
}

// Keys is where an existing site publishes its keys.
type Keys string

// UnmarshalText implements encoding.TextUnmarshaler. It refuses a password, which would be shown with the settings and
// is never sent.
func (k *Keys) UnmarshalText(text []byte) error {
	if u, err := url.Parse(string(text)); err != nil || u.User != nil {
		return errors.New("the site's keys must be given as a URL without a password, such as https://example.org/jwks.json") // without quoting it
	}
	*k = Keys(text)
	return nil
}

func (s SignIn) check(development bool, refuse func(when bool, format string, args ...any)) {
	refuse(s.SignedInFor < time.Minute, "People who sign in would be signed out again at once: set HOLDFAST_SIGNED_IN_FOR to 1m or more.")
	said := 0
	for _, setting := range []string{s.JWTIssuer, s.JWTAudience, string(s.JWKSURL) + s.JWKSFile} {
		if setting != "" {
			said++
		}
	}
	refuse(said != 0 && said != 3, "A site's tokens cannot be accepted with only some of the settings: set HOLDFAST_JWT_ISSUER, HOLDFAST_JWT_AUDIENCE, and HOLDFAST_JWKS_URL or HOLDFAST_JWKS_FILE, or none of them.")
	refuse(s.JWKSURL != "" && s.JWKSFile != "", "The site's keys are given twice: set either HOLDFAST_JWKS_URL or HOLDFAST_JWKS_FILE.")
	refuse(s.JWKSURL != "" && !safe(string(s.JWKSURL), development), "Somebody in between could replace the site's keys: set HOLDFAST_JWKS_URL to a URL that begins with https://.")
}

// safe reports whether nobody can stand between us and the server: the address uses TLS or is on this machine.
func safe(address string, development bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return false
	}
	host, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (development || u.Hostname() == "localhost" || err == nil && host.IsLoopback())
}
