package nostr

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"pgregory.net/rapid"
)

// TestPublishedEvent is one that somebody else signed: the hash is the one of NIP-01, escapes included.
func TestPublishedEvent(t *testing.T) {
	t.Parallel()
	const published = `{"kind":1,"id":"dc90c95f09947507c1044e8f48bcf6350aa6bff1507dd4acfc755b9239b5c962","pubkey":"3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d",` +
		`"created_at":1644271588,"tags":[],"content":"now that https://blueskyweb.org/blog/2-7-2022-overview was announced we can stop working on nostr?",` +
		`"sig":"230e9d8f0ddaf7eb70b5f7741ccfa37e87a455c9a469282e3464e2052d3192cd63a167e196e381ef9d7e69e9ea43af2443b839974dc85d8aaab9efe1d9296524"}`
	var e Event
	if err := json.Unmarshal([]byte(published), &e); err != nil {
		t.Fatal(err)
	}
	if !e.Verify() {
		t.Error("the event counts as forged")
	}
}

func TestTouchedEventsAreForged(t *testing.T) {
	t.Parallel()
	key, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		signed := Event{CreatedAt: rapid.Int64Range(0, 1<<40).Draw(t, "at"), Kind: rapid.IntRange(0, 65535).Draw(t, "kind"),
			Tags: [][]string{{"p", rapid.String().Draw(t, "tag")}}, Content: rapid.String().Draw(t, "content")}
		if err := signed.Sign(key); err != nil {
			t.Fatal(err)
		}
		// It is the same after the way over the wire.
		text, err := json.Marshal(&signed)
		if err != nil {
			t.Fatal(err)
		}
		var e Event
		if err := json.Unmarshal(text, &e); err != nil || !e.Verify() {
			t.Fatalf("%s counts as forged, error %v", text, err)
		}
		for what, touch := range map[string]func(*Event){
			"the time":            func(e *Event) { e.CreatedAt++ },
			"the kind":            func(e *Event) { e.Kind++ },
			"the content":         func(e *Event) { e.Content += " " },
			"a tag":               func(e *Event) { e.Tags = [][]string{{"p", e.Tags[0][1] + " "}} },
			"another tag":         func(e *Event) { e.Tags = append([][]string{{"x"}}, e.Tags...) },
			"the sender":          func(e *Event) { e.PubKey = publicKey(other) },
			"the sender, hash":    func(e *Event) { was := e.Sig; _ = e.Sign(other); e.Sig = was },
			"the signature":       func(e *Event) { e.Sig = e.Sig[64:] + e.Sig[:64] },
			"the signature's end": func(e *Event) { e.Sig = e.Sig[:126] },
			"the id":              func(e *Event) { e.ID = strings.Repeat("0", 64) },
			"no key":              func(e *Event) { e.PubKey = "" },
		} {
			forged := e
			if touch(&forged); forged.Verify() {
				t.Fatalf("%s was touched, and the signature still holds", what)
			}
		}
	})
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	writeString(&b, "\"\\\n\r\t\b\f<>&\u2028é\x01")
	if want := `"\"\\\n\r\t\b\f<>&` + "\u2028é\x01" + `"`; b.String() != want {
		t.Errorf("written as %q, want %q", b.String(), want)
	}
}

func TestParseConnection(t *testing.T) {
	t.Parallel()
	const wallet, key = "b889ff5b1513b641e2a139f661a661364979c5beee91842f8f0ef42ab558e9d4", "71a8c14c1407c113601079c4302dab36460f0ccd0ad506f1f2dc73b5100e4f3c"
	for text, relays := range map[string]string{
		"nostr+walletconnect://" + wallet + "?relay=wss%3A%2F%2Frelay.damus.io&secret=" + key:                                   "wss://relay.damus.io",
		"nostr+walletconnect:" + wallet + "?relay=wss://one.example&relay=wss://two.example&secret=" + key:                      "wss://one.example wss://two.example",
		" nostr+walletconnect://" + strings.ToUpper(wallet) + "?secret=" + key + "&relay=wss://one.example&lud16=a@b.example\n": "wss://one.example",
		"NOSTR+WALLETCONNECT://" + wallet + "?relay=wss://one.example&secret=" + key:                                            "wss://one.example",

		"":                       "",
		"nostr+walletconnect://": "",
		"https://" + wallet + "?relay=wss://one.example&secret=" + key:                                       "",
		"nostr+walletconnect://" + wallet + "?secret=" + key:                                                 "",
		"nostr+walletconnect://" + wallet + "?relay=&secret=" + key:                                          "",
		"nostr+walletconnect://" + wallet + "?relay=wss://one.example":                                       "",
		"nostr+walletconnect://" + wallet + "?relay=wss://one.example&secret=" + key[2:]:                     "",
		"nostr+walletconnect://" + wallet + "?relay=wss://one.example&secret=" + strings.Repeat("0", 64):     "",
		"nostr+walletconnect://" + wallet + "?relay=wss://one.example&secret=" + strings.Repeat("f", 64):     "",
		"nostr+walletconnect://" + wallet[2:] + "?relay=wss://one.example&secret=" + key:                     "",
		"nostr+walletconnect://" + strings.Repeat("f", 64) + "?relay=wss://one.example&secret=" + key:        "",
		"nostr+walletconnect://" + wallet + "?relay=%zz&secret=" + key:                                       "",
		"nostr+walletconnect://" + wallet + "?secret=" + key + strings.Repeat("&relay=wss://one.example", 6): "",
	} {
		c, err := ParseConnection(text)
		if (err == nil) != (relays != "") {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if err == nil && (strings.Join(c.Relays, " ") != relays || c.name != wallet) {
			t.Errorf("%q: relays %q, wallet %s", text, c.Relays, c.name)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		_, _ = ParseConnection(rapid.String().Draw(t, "text")) // whatever comes in, no panic
	})
}
