package config

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
)

// checkOrigins refuses origins that no browser sends. Origins are compared letter by letter, so the pages that were
// meant would be let in nowhere.
func checkOrigins(origins []string, refuse func(when bool, format string, args ...any)) {
	for _, said := range origins {
		u, err := url.Parse(said)
		refuse(err != nil || !isOrigin(u, said),
			"No page's origin is %q: write HOLDFAST_ORIGINS as browsers do, scheme, host and a port that is not the scheme's own, such as https://example.org.", said)
	}
}

// isOrigin reports whether text is an origin as browsers write it (RFC 6454, section 6.2): only scheme, host and port,
// in small letters.
func isOrigin(u *url.URL, text string) bool {
	leftOut := strings.HasSuffix(u.Host, ":") || u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80"
	unsent := strings.ContainsFunc(u.Host, func(r rune) bool { return r == '*' || r > unicode.MaxASCII })
	return u.Scheme != "" && u.Hostname() != "" && !leftOut && !unsent && text == strings.ToLower(u.Scheme+"://"+u.Host)
}

// Public is where people reach the service: a scheme and a host, nothing else. Empty: not given.
type Public string

// UnmarshalText implements encoding.TextUnmarshaler. A path is refused, because wallets build a URL from name@domain by
// themselves.
func (p *Public) UnmarshalText(text []byte) error {
	said := strings.TrimSuffix(strings.TrimSpace(string(text)), "/")
	if said == "" {
		*p = ""
		return nil
	}
	u, err := url.Parse(strings.ToLower(said))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the public URL must be a scheme and a host alone, such as https://example.org")
	}
	if strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }) { // we would not know ourselves by it
		return errors.New("the host of the public URL must be as the network has it, such as xn--mnchen-3ya.example for münchen.example")
	}
	*p = Public(u.String())
	return nil
}

// URL is nil where none is given.
func (p Public) URL() *url.URL {
	if p == "" {
		return nil
	}
	u, err := url.Parse(string(p))
	if err != nil {
		return nil // UnmarshalText parsed it
	}
	return u
}

// check refuses a URL that wallets would not pay to.
func (p Public) check(development bool, refuse func(when bool, format string, args ...any)) {
	u := p.URL()
	refuse(u != nil && u.Scheme != "https" && !development && !strings.HasSuffix(u.Hostname(), ".onion"),
		"Wallets pay only over TLS: set HOLDFAST_PUBLIC_URL to a URL that begins with https://.")
}
