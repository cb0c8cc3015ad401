// Package nostr is what Nostr Wallet Connect (NIP-47) needs of Nostr: events and their signatures (NIP-01), the two encryptions
// (NIP-04, NIP-44 version 2), and the conversation with a wallet over a relay. Connections are handed in.
package nostr

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
)

// Event is the one kind of thing there is in Nostr (NIP-01).
type Event struct {
	ID        string     `json:"id"`     // hex of the hash of all but Sig
	PubKey    string     `json:"pubkey"` // hex, x only
	CreatedAt int64      `json:"created_at"`
	Kind      int        `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   string     `json:"content"`
	Sig       string     `json:"sig"` // hex
}

// Sign fills in who an event is from, its id and the signature (BIP-340).
func (e *Event) Sign(key *btcec.PrivateKey) error {
	e.PubKey = publicKey(key)
	id := e.hash()
	signature, err := schnorr.Sign(key, id[:])
	if err != nil {
		return err
	}
	e.ID, e.Sig = hex.EncodeToString(id[:]), hex.EncodeToString(signature.Serialize())
	return nil
}

// Verify says whether an event is from whom it says it is, word for word.
func (e *Event) Verify() bool {
	id := e.hash()
	if e.ID != hex.EncodeToString(id[:]) {
		return false
	}
	key, err := hex.DecodeString(e.PubKey)
	if err != nil {
		return false
	}
	from, err := schnorr.ParsePubKey(key)
	if err != nil {
		return false
	}
	raw, err := hex.DecodeString(e.Sig)
	if err != nil {
		return false
	}
	signature, err := schnorr.ParseSignature(raw)
	return err == nil && signature.Verify(id[:], from)
}

// tag is the first value of the first tag with this name.
func (e *Event) tag(name string) string {
	for _, t := range e.Tags {
		if len(t) > 1 && t[0] == name {
			return t[1]
		}
	}
	return ""
}

// tagged says whether one of the tags has this name and value.
func (e *Event) tagged(name, value string) bool {
	return slices.ContainsFunc(e.Tags, func(t []string) bool { return len(t) > 1 && t[0] == name && t[1] == value })
}

// hash is the SHA-256 of the event written in the one way of NIP-01, which is not quite the one of encoding/json.
func (e *Event) hash() [32]byte {
	var b strings.Builder
	b.WriteString(`[0,`)
	writeString(&b, e.PubKey)
	b.WriteByte(',')
	b.WriteString(strconv.FormatInt(e.CreatedAt, 10))
	b.WriteByte(',')
	b.WriteString(strconv.Itoa(e.Kind))
	b.WriteString(`,[`)
	for i, tag := range e.Tags {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('[')
		for j, value := range tag {
			if j > 0 {
				b.WriteByte(',')
			}
			writeString(&b, value)
		}
		b.WriteByte(']')
	}
	b.WriteString(`],`)
	writeString(&b, e.Content)
	b.WriteByte(']')
	return sha256.Sum256([]byte(b.String()))
}

var escapes = strings.NewReplacer("\n", `\n`, `"`, `\"`, `\`, `\\`, "\r", `\r`, "\t", `\t`, "\b", `\b`, "\f", `\f`)

func writeString(b *strings.Builder, s string) {
	b.WriteByte('"')
	_, _ = escapes.WriteString(b, s)
	b.WriteByte('"')
}

func publicKey(key *btcec.PrivateKey) string {
	return hex.EncodeToString(schnorr.SerializePubKey(key.PubKey()))
}

var errKey = errors.New("nostr: that is no key")

// parseSecret reads a private key in hex.
func parseSecret(text string) (*btcec.PrivateKey, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return nil, errKey
	}
	var scalar btcec.ModNScalar
	if overflow := scalar.SetByteSlice(raw); overflow || scalar.IsZero() {
		return nil, errKey
	}
	return btcec.PrivKeyFromScalar(&scalar), nil
}

// parsePublic reads a public key of which x alone is given, in hex.
func parsePublic(text string) (*btcec.PublicKey, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return nil, errKey
	}
	key, err := schnorr.ParsePubKey(raw)
	if err != nil {
		return nil, errKey
	}
	return key, nil
}
