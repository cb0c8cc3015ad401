package keyauth_test

import (
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth/keyauthtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// signed is a query as a wallet would send it.
func signed(t testing.TB, k1, action string) string {
	t.Helper()
	u := &url.URL{RawQuery: "tag=login&k1=" + k1 + action}
	if err := keyauthtest.Wallet("a seed").Sign(u, "example.org"); err != nil {
		t.Fatal(err)
	}
	return u.RawQuery
}

// Whatever a wallet answers, Read returns what it said, signed by that key, or a refusal. A valid signature becomes
// invalid with any change.
func FuzzRead(f *testing.F) {
	k1 := strings.Repeat("ab", 32)
	right := signed(f, k1, "&action=login")
	for _, query := range []string{right, signed(f, strings.ToUpper(k1), ""), strings.Replace(right, "tag=login", "tag=withdrawRequest", 1),
		right + "&k1=" + k1, strings.Replace(right, "sig=30", "sig=31", 1), "tag=login&k1=" + k1 + "&sig=&key=02" + k1, "tag=login&sig=3006020100020100", "%ff", ""} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		a, err := keyauth.Read(query)
		if err != nil {
			if _, refused := paidaction.AsRefusal(err); !refused {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if hex.EncodeToString(a.K1[:]) != strings.ToLower(query.Get("k1")) || hex.EncodeToString(a.Key[:]) != strings.ToLower(query.Get("key")) {
			t.Errorf("%q is read as %x by %x", text, a.K1, a.Key)
		}
		a.K1[0] ^= 1
		query.Set("k1", hex.EncodeToString(a.K1[:]))
		if _, err := keyauth.Read(query); err == nil {
			t.Errorf("the signature in %q is also one of another challenge", text)
		}
	})
}
