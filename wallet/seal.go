package wallet

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// sealer encrypts settings with AES-256-GCM. A sealed text is the number of the key, a random nonce, and the rest. The number leaves
// room for a second key: old texts are opened with theirs, and new ones sealed with the newest.
type sealer struct {
	aead   cipher.AEAD
	random io.Reader
}

// keyNumber is that of the only key so far. Its label makes it another one than all that are derived from the secret elsewhere.
const (
	keyNumber = 1
	keyLabel  = "holdfast wallet settings 1"
)

// place is where settings are stored. A sealed text opens in its own place only: whoever can write to the table cannot give one
// user's wallet to another.
type place struct {
	wallet int64
	user   int64
	kind   Kind
}

func (p place) bytes() []byte {
	b := []byte{keyNumber}
	b = binary.BigEndian.AppendUint64(b, uint64(p.wallet))
	b = binary.BigEndian.AppendUint64(b, uint64(p.user))
	return append(b, p.kind...)
}

var errSealed = errors.New("wallet: the settings cannot be opened: they are another wallet's, or were sealed with another secret")

func newSealer(secret []byte, random io.Reader) (*sealer, error) {
	if len(secret) < 32 {
		return nil, errors.New("wallet: the secret must have 32 bytes or more")
	}
	key, err := hkdf.Key(sha256.New, secret, nil, keyLabel, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of wallets: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &sealer{aead, random}, nil
}

func (s *sealer) seal(p place, text []byte) ([]byte, error) {
	sealed := make([]byte, 1+s.aead.NonceSize(), 1+s.aead.NonceSize()+len(text)+s.aead.Overhead())
	sealed[0] = keyNumber
	if _, err := io.ReadFull(s.random, sealed[1:]); err != nil {
		return nil, fmt.Errorf("read randomness: %w", err)
	}
	return s.aead.Seal(sealed, sealed[1:], text, p.bytes()), nil
}

func (s *sealer) open(p place, sealed []byte) ([]byte, error) {
	if len(sealed) < 1+s.aead.NonceSize() || sealed[0] != keyNumber {
		return nil, errSealed
	}
	nonce, content := sealed[1:1+s.aead.NonceSize()], sealed[1+s.aead.NonceSize():]
	text, err := s.aead.Open(nil, nonce, content, p.bytes())
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}
