package stack

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// keptSecret is the secret in the file (32 bytes in hex), made at the first start. It must outlive the process: what
// the service signed with it must still verify later.
func keptSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails
	secret := hex.EncodeToString(key)
	return secret, os.WriteFile(path, []byte(secret+"\n"), 0o600)
}
