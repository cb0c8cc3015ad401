package nostr

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"golang.org/x/crypto/chacha20"
)

// Encryption of contents between two people, as it is named in a wallet's tags.
type Encryption string

// There are two. NIP-04 has no authentication of its own: what it decrypts is believed because the event is signed.
const (
	NIP04 Encryption = "nip04"
	NIP44 Encryption = "nip44_v2"
)

var errCipher = errors.New("nostr: the content cannot be decrypted")

// Encrypt writes a text for the other one.
func (e Encryption) Encrypt(text string, own *btcec.PrivateKey, other *btcec.PublicKey) (string, error) {
	shared := btcec.GenerateSharedSecret(own, other) // x of the common point
	if e == NIP04 {
		return encrypt04(text, shared)
	}
	var nonce [32]byte
	rand.Read(nonce[:])
	key, err := conversationKey(shared)
	if err != nil {
		return "", err
	}
	return encrypt44(text, key, nonce)
}

// Decrypt reads what the other one wrote.
func (e Encryption) Decrypt(content string, own *btcec.PrivateKey, other *btcec.PublicKey) (string, error) {
	shared := btcec.GenerateSharedSecret(own, other)
	if e == NIP04 {
		return decrypt04(content, shared)
	}
	key, err := conversationKey(shared)
	if err != nil {
		return "", err
	}
	return decrypt44(content, key)
}

// encrypt04 is AES-256-CBC with the shared x as the key.
func encrypt04(text string, key []byte) (string, error) {
	var iv [aes.BlockSize]byte
	rand.Read(iv[:])
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	pad := aes.BlockSize - len(text)%aes.BlockSize
	content := append([]byte(text), strings.Repeat(string(rune(pad)), pad)...)
	cipher.NewCBCEncrypter(block, iv[:]).CryptBlocks(content, content)
	return base64.StdEncoding.EncodeToString(content) + "?iv=" + base64.StdEncoding.EncodeToString(iv[:]), nil
}

func decrypt04(text string, key []byte) (string, error) {
	before, after, _ := strings.Cut(text, "?iv=")
	content, errContent := base64.StdEncoding.DecodeString(before)
	iv, errIV := base64.StdEncoding.DecodeString(after)
	if errContent != nil || errIV != nil || len(iv) != aes.BlockSize || len(content) == 0 || len(content)%aes.BlockSize != 0 {
		return "", errCipher
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(content, content)
	pad := int(content[len(content)-1])
	if pad == 0 || pad > aes.BlockSize {
		return "", errCipher
	}
	return string(content[:len(content)-pad]), nil
}

const (
	version44  = 2
	nonce44    = 32
	mac44      = sha256.Size
	maxPlain44 = 1<<16 - 1
)

func conversationKey(shared []byte) ([]byte, error) {
	return hkdf.Extract(sha256.New, shared, []byte("nip44-v2"))
}

// messageKeys are those of one message: the cipher's key and nonce, and the key of the authentication.
func messageKeys(conversation []byte, nonce [nonce44]byte) (key, chachaNonce, macKey []byte, err error) {
	keys, err := hkdf.Expand(sha256.New, conversation, string(nonce[:]), 76)
	if err != nil {
		return nil, nil, nil, err
	}
	return keys[:32], keys[32:44], keys[44:], nil
}

func authenticate(macKey []byte, nonce [nonce44]byte, content []byte) []byte {
	mac := hmac.New(sha256.New, macKey)
	mac.Write(nonce[:])
	mac.Write(content)
	return mac.Sum(nil)
}

// padded44 is how long a text of n bytes is once it is padded: lengths are told apart coarsely only.
func padded44(n int) int {
	if n <= 32 {
		return 32
	}
	chunk := max(32, 1<<bits.Len(uint(n-1))/8)
	return (n + chunk - 1) / chunk * chunk
}

// encrypt44 is version, nonce, ChaCha20 of length, text and padding, and HMAC-SHA256.
func encrypt44(text string, conversation []byte, nonce [nonce44]byte) (string, error) {
	if len(text) == 0 || len(text) > maxPlain44 {
		return "", fmt.Errorf("nostr: a text of %d bytes cannot be encrypted", len(text))
	}
	key, chachaNonce, macKey, err := messageKeys(conversation, nonce)
	if err != nil {
		return "", err
	}
	content := make([]byte, 2+padded44(len(text)))
	binary.BigEndian.PutUint16(content, uint16(len(text)))
	copy(content[2:], text)
	stream, err := chacha20.NewUnauthenticatedCipher(key, chachaNonce)
	if err != nil {
		return "", err
	}
	stream.XORKeyStream(content, content)
	payload := append([]byte{version44}, nonce[:]...)
	payload = append(payload, content...)
	return base64.StdEncoding.EncodeToString(append(payload, authenticate(macKey, nonce, content)...)), nil
}

func decrypt44(text string, conversation []byte) (string, error) {
	payload, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(payload) < 1+nonce44+2+32+mac44 || payload[0] != version44 {
		return "", errCipher
	}
	nonce := [nonce44]byte(payload[1:])
	content, mac := payload[1+nonce44:len(payload)-mac44], payload[len(payload)-mac44:]
	key, chachaNonce, macKey, err := messageKeys(conversation, nonce)
	if err != nil {
		return "", err
	}
	if !hmac.Equal(mac, authenticate(macKey, nonce, content)) {
		return "", errCipher
	}
	stream, err := chacha20.NewUnauthenticatedCipher(key, chachaNonce)
	if err != nil {
		return "", err
	}
	stream.XORKeyStream(content, content)
	n := int(binary.BigEndian.Uint16(content))
	if n == 0 || len(content) != 2+padded44(n) {
		return "", errCipher
	}
	return string(content[2 : 2+n]), nil
}
