// Package seal encrypts stored data that must not be readable from the database alone: receivers' wallets, the secrets
// of webhooks. A sealed text opens only in its own place: nobody who can write to the database can move it to another
// row.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Box encrypts with AES-256-GCM. A sealed text is the number of the key, a random nonce, and the ciphertext. The number
// allows for a second key: old texts are opened with theirs, new ones are sealed with the newest. A Box is safe for
// concurrent use.
type Box struct{ aead cipher.AEAD }

// KeyNumber is the number of the only key so far.
const KeyNumber = 1

// ErrSealed means that a text cannot be opened.
var ErrSealed = errors.New("seal: the text cannot be opened: it is of another place, or was sealed with another secret")

// New derives the key for one kind of things from the service's secret. The label makes it differ from every other
// derived key.
func New(secret []byte, label string) (*Box, error) {
	if len(secret) < 32 {
		return nil, errors.New("seal: the secret must have 32 bytes or more")
	}
	key, err := hkdf.Key(sha256.New, secret, nil, label, 32)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Box{aead}, nil
}

// Seal encrypts a text. It can be opened only in its own place: even someone who can write to the table cannot move it
// to another row.
func (b *Box) Seal(place, text []byte) []byte {
	sealed := make([]byte, 1+b.aead.NonceSize(), 1+b.aead.NonceSize()+len(text)+b.aead.Overhead())
	sealed[0] = KeyNumber
	rand.Read(sealed[1:])
	return b.aead.Seal(sealed, sealed[1:], text, place)
}

// Open decrypts what was sealed in this place, or returns ErrSealed.
func (b *Box) Open(place, sealed []byte) ([]byte, error) {
	if len(sealed) < 1+b.aead.NonceSize() || sealed[0] != KeyNumber {
		return nil, ErrSealed
	}
	nonce, content := sealed[1:1+b.aead.NonceSize()], sealed[1+b.aead.NonceSize():]
	text, err := b.aead.Open(nil, nonce, content, place)
	if err != nil {
		return nil, ErrSealed
	}
	return text, nil
}
