package lnurl

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever somebody saves as their address, what comes of it is a URL of the two schemes, without a password, that reads as itself.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"alice@example.org", "ALICE@Example.org:8080", "lightning:LNURL1DP68GURN8GHJ7", "lnurlp://example.org/a", "lnurlp:localhost/a",
		"https://user:password@example.org/", "https://[::1]:80/#x", "a@b@c", "@", "lnurl1", "http://", "https://example.org/\x00", "a@..", "lnurlp://\\evil"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := Parse(text)
		if err != nil {
			return
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			t.Errorf("%q became %q, %v", text, address, err)
		}
		if again, err := Parse(address); err != nil || again != address {
			t.Errorf("%q is read as %q, %v", address, again, err)
		}
	})
}

// Whatever a server answers, the request that follows goes where it said, over the amount that is meant.
func FuzzReadPay(f *testing.F) {
	const metadata = `"[[\"text/plain\",\"x\"]]"`
	for _, body := range []string{`{"tag":"payRequest","callback":"https://example.org/cb?x=1&amount=5","minSendable":1000,"maxSendable":9e3,"metadata":` + metadata + `}`,
		`{"tag":"payRequest","callback":"https://example.org/cb","minSendable":1,"maxSendable":9223372036854775807,"commentAllowed":1e9,"metadata":` + metadata + `}`,
		`{"status":"ERROR","reason":"x"}`, `{}`, `[]`, `{"tag":"payRequest","minSendable":-1}`, `{"metadata":"[[1]]"}`} {
		f.Add([]byte(body), "a comment ☃")
	}
	f.Fuzz(func(t *testing.T, body []byte, comment string) {
		p, err := ReadPay(body)
		if err != nil {
			return
		}
		if p.Min < 1 || p.Max < p.Min {
			t.Errorf("from %d to %d", p.Min, p.Max)
		}
		u, err := url.Parse(p.Callback(p.Min, comment))
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		if len(query["amount"]) != 1 || u.Host != p.callback.Host || u.Scheme != p.callback.Scheme {
			t.Errorf("%s asks for %v", u, query["amount"])
		}
		if utf8.ValidString(comment) && !strings.HasPrefix(comment, query.Get("comment")) && !p.callback.Query().Has("comment") {
			t.Errorf("the comment %q became %q", comment, query.Get("comment"))
		}
	})
}

func FuzzReadInvoice(f *testing.F) {
	for _, body := range []string{`{"pr":"lnbc1"}`, `{"pr":""}`, `{"pr":1}`, `{"status":"ERROR","pr":"lnbc1"}`, `null`, ``} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, err := ReadInvoice(body); (err == nil) == (got.Bolt11 == "") {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
