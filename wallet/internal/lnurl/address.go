// Package lnurl reads lightning addresses and LNURLs (LUD-01, 16, 17) and what their servers answer (LUD-06, 12). It calls nobody.
package lnurl

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/btcsuite/btcd/btcutil/bech32"
)

// ErrAddress says that a text is neither a lightning address nor an LNURL. It does not quote the text: an LNURL may hold a secret.
var ErrAddress = errors.New("lnurl: neither a lightning address nor an LNURL")

// maxAddress is the length of the longest text that is looked at, in bytes.
const maxAddress = 2000

var userPattern = regexp.MustCompile(`^[a-z0-9._+-]{1,64}$`)

// Parse says which URL an address stands for: user@domain, an LNURL in bech32 (lnurl1…), lnurlp://… or the URL itself. Whether it may
// be called is for the caller to say: it can be one without TLS.
func Parse(text string) (string, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxAddress {
		return "", ErrAddress
	}
	lower := strings.ToLower(text)
	for _, scheme := range []string{"lightning:", "lnurl:"} {
		if strings.HasPrefix(lower, scheme) {
			text, lower = text[len(scheme):], lower[len(scheme):]
		}
	}
	switch {
	case strings.HasPrefix(lower, "lnurl1"):
		return fromBech32(text)
	case strings.HasPrefix(lower, "lnurlp:"):
		return fromScheme(text[len("lnurlp:"):])
	case strings.Contains(text, "://"):
		return fromURL(text)
	}
	return fromUser(lower)
}

func fromBech32(text string) (string, error) {
	prefix, data, err := bech32.DecodeNoLimit(text)
	if err != nil || prefix != "lnurl" {
		return "", ErrAddress
	}
	raw, err := bech32.ConvertBits(data, 5, 8, false)
	if err != nil {
		return "", ErrAddress
	}
	return fromURL(string(raw))
}

func fromURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return "", ErrAddress
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String(), nil
}

// fromScheme reads what follows lnurlp:, with slashes or without.
func fromScheme(rest string) (string, error) {
	rest = strings.TrimPrefix(rest, "//")
	host, _, _ := strings.Cut(rest, "/")
	return fromURL(scheme(host) + "://" + rest)
}

// fromUser reads user@domain. The user's name is in small letters; some wallets show it otherwise.
func fromUser(text string) (string, error) {
	user, domain, ok := strings.Cut(text, "@")
	if !ok || !userPattern.MatchString(user) || strings.ContainsAny(domain, "/?#@\\ ") {
		return "", ErrAddress
	}
	return fromURL(scheme(domain) + "://" + domain + "/.well-known/lnurlp/" + user)
}

// scheme is https but for a machine of one's own, which has no certificate. In production no such machine is called.
func scheme(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if host == "localhost" || err == nil && address.IsLoopback() {
		return "http"
	}
	return "https"
}
