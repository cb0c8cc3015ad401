package config

import (
	"errors"
	"net/url"
	"strings"
)

// Public is where people reach the service: a scheme and a host, and nothing else. Empty: it is not said.
type Public string

// UnmarshalText implements encoding.TextUnmarshaler. Wallets make a URL of name@domain by themselves, so there is no room for a path.
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
	*p = Public(u.String())
	return nil
}

// URL is nil where nothing is said.
func (p Public) URL() *url.URL {
	if p == "" {
		return nil
	}
	u, err := url.Parse(string(p))
	if err != nil {
		return nil // it was read from a URL
	}
	return u
}

// check refuses a URL that wallets would not pay to.
func (p Public) check(development bool, refuse func(when bool, format string, args ...any)) {
	u := p.URL()
	refuse(u != nil && u.Scheme != "https" && !development && !strings.HasSuffix(u.Hostname(), ".onion"),
		"Wallets pay over TLS alone: set HOLDFAST_PUBLIC_URL to a URL that begins with https://.")
}
