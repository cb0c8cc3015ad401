package nostr

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
)

// Connection is what a Nostr Wallet Connect URI says (NIP-47). It holds a secret.
type Connection struct {
	Relays []string // where the wallet listens; one at least
	wallet *btcec.PublicKey
	secret *btcec.PrivateKey
	name   string // the wallet's public key in hex
}

// ErrURI says that a text is no Nostr Wallet Connect URI. It says nothing of what the text holds.
var ErrURI = errors.New("nostr: that is no Nostr Wallet Connect URI")

const maxRelays = 5

// ParseConnection reads nostr+walletconnect://<public key>?relay=<URL>&secret=<secret key>. Whether the relays may be called is
// for the caller to say.
func ParseConnection(text string) (*Connection, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || !slices.Contains([]string{"nostr+walletconnect", "nostrwalletconnect"}, u.Scheme) {
		return nil, ErrURI
	}
	name := u.Host
	if name == "" {
		name = u.Opaque // some write it without the slashes
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, ErrURI
	}
	c := &Connection{Relays: slices.DeleteFunc(query["relay"], func(relay string) bool { return relay == "" }), name: strings.ToLower(name)}
	if c.wallet, err = parsePublic(c.name); err != nil {
		return nil, ErrURI
	}
	if c.secret, err = parseSecret(query.Get("secret")); err != nil || len(c.Relays) == 0 || len(c.Relays) > maxRelays {
		return nil, ErrURI
	}
	return c, nil
}
