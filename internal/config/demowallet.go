package config

import (
	"errors"
	"net/url"
)

// Wallet is where the demo wallet of a development network listens. Empty: there is none.
type Wallet string

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Wallet) UnmarshalText(text []byte) error {
	u, err := url.Parse(string(text))
	if len(text) > 0 && (err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil) {
		return errors.New("the demo wallet must be given as a URL, http://HOST:PORT")
	}
	*w = Wallet(text)
	return nil
}

// URL is nil where there is no demo wallet.
func (w Wallet) URL() *url.URL {
	if w == "" {
		return nil
	}
	u, err := url.Parse(string(w))
	if err != nil {
		return nil // UnmarshalText parsed it
	}
	return u
}
