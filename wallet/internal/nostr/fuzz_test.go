package nostr

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

const (
	someSecret = "0000000000000000000000000000000000000000000000000000000000000001"
	somePublic = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
)

// Whatever somebody saves as their connection, it has relays, keys, and errors that do not quote it.
func FuzzParseConnection(f *testing.F) {
	good := "nostr+walletconnect://" + somePublic + "?relay=wss%3A%2F%2Frelay.example&secret=" + someSecret
	for _, text := range []string{good, strings.Replace(good, "://", ":", 1), strings.ToUpper(good), good + "&relay=", good + strings.Repeat("&relay=wss://x", 9),
		"nostr+walletconnect://?secret=" + someSecret, "nostrwalletconnect://" + somePublic, "%", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConnection(text)
		if err != nil {
			if !errors.Is(err, ErrURI) || err.Error() != ErrURI.Error() {
				t.Errorf("%v", err)
			}
			return
		}
		if c.wallet == nil || c.secret == nil || len(c.Relays) == 0 || len(c.Relays) > maxRelays {
			t.Errorf("%q became %+v", text, c)
		}
	})
}

// A relay may send anything. What does not bear the wallet's signature is no answer, and what cannot be read is none either.
func FuzzAnswer(f *testing.F) {
	c, err := ParseConnection("nostr+walletconnect://" + somePublic + "?relay=wss://x&secret=" + someSecret)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range []string{`{"kind":23195,"pubkey":"` + somePublic + `","tags":[["e","id"]],"content":"x","sig":"00"}`, `{"tags":[[],null,["e"]]}`, `{}`,
		`{"content":"AgAA?iv=AAAA"}`, `{"content":"` + strings.Repeat("A", 200) + `"}`, `{"kind":-1,"created_at":-9e18}`} {
		f.Add([]byte(e), "id")
	}
	f.Fuzz(func(t *testing.T, raw []byte, request string) {
		var e Event
		if json.Unmarshal(raw, &e) != nil {
			return
		}
		if c.answers(&e, request) && !e.Verify() {
			t.Error("an answer without a signature")
		}
		for _, encryption := range []Encryption{NIP04, NIP44} {
			if result, err := c.result(&e, "make_invoice", encryption); err == nil {
				t.Errorf("%s was read as %s", raw, result)
			}
		}
	})
}

// What was encrypted reads as itself, and only unchanged.
func FuzzEncryption(f *testing.F) {
	for _, text := range []string{"x", "", strings.Repeat("long ", 500), "\x00\xff"} {
		f.Add(text, 3)
	}
	own, err := parseSecret(someSecret)
	if err != nil {
		f.Fatal(err)
	}
	other, err := parsePublic(somePublic)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, at int) {
		sealed, err := NIP44.Encrypt(text, own, other)
		if err != nil {
			if text != "" && len(text) < 1<<16 {
				t.Errorf("%d bytes: %v", len(text), err)
			}
			return
		}
		if got, err := NIP44.Decrypt(sealed, own, other); err != nil || got != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
		i := max(at, -at) % len(sealed)
		changed := []byte(sealed)
		if changed[max(i, 0)] = 'A'; string(changed) == sealed {
			return
		}
		if got, err := NIP44.Decrypt(string(changed), own, other); err == nil && got != text {
			t.Errorf("changed, it reads as %q", got)
		}
	})
}
