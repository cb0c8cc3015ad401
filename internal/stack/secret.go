package stack

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// keptSecret is the secret in the file, which is made at the first start. It must outlive the process: what the service signed
// with it, it must know again tomorrow.
func keptSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	secret := rand.Text() + rand.Text() // 260 bits
	return secret, os.WriteFile(path, []byte(secret+"\n"), 0o600)
}
