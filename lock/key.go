package lock

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKey is how many bytes a key may have after normalisation.
const MaxKey = 255

// Normalise returns the form in which keys are compared: without surrounding space and in lower case, so that two
// spellings of one address are one key. The result must be text of 1 to [MaxKey] bytes without white space or control
// characters; otherwise the error is [ErrBadKey].
func Normalise(key string) (string, error) {
	if !utf8.ValidString(key) {
		return "", fmt.Errorf("%w: it is not UTF-8", ErrBadKey)
	}
	normal := strings.ToLower(strings.TrimSpace(key))
	if normal == "" || len(normal) > MaxKey {
		return "", fmt.Errorf("%w: %d bytes, not 1 to %d", ErrBadKey, len(normal), MaxKey)
	}
	if at := strings.IndexFunc(normal, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }); at >= 0 {
		return "", fmt.Errorf("%w: white space or a control character at byte %d", ErrBadKey, at)
	}
	return normal, nil
}
