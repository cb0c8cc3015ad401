package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/seal"
)

func box(t *testing.T, secret, label string) *seal.Box {
	t.Helper()
	b, err := seal.New([]byte(secret), label)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const secret, another = "the secret of a service, 32 bytes", "another secret of a service, 32+"

// What is sealed is opened in its own place alone, with the same secret and for the same kind of things.
func TestWhatIsSealedIsOpenedInItsPlaceAlone(t *testing.T) {
	t.Parallel()
	b, text := box(t, secret, "wallets"), []byte("macaroon")
	sealed := b.Seal([]byte("1"), text)
	if bytes.Contains(sealed, text) {
		t.Fatalf("sealed as %q", sealed)
	}
	if got, err := box(t, secret, "wallets").Open([]byte("1"), sealed); err != nil || !bytes.Equal(got, text) {
		t.Errorf("opened as %q, %v", got, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"in another place":    func() ([]byte, error) { return b.Open([]byte("2"), sealed) },
		"in no place":         func() ([]byte, error) { return b.Open(nil, sealed) },
		"as another kind":     func() ([]byte, error) { return box(t, secret, "webhooks").Open([]byte("1"), sealed) },
		"with another secret": func() ([]byte, error) { return box(t, another, "wallets").Open([]byte("1"), sealed) },
		"with another key":    func() ([]byte, error) { return b.Open([]byte("1"), append([]byte{sealed[0] + 1}, sealed[1:]...)) },
		"with a bit changed": func() ([]byte, error) {
			return b.Open([]byte("1"), append(sealed[:len(sealed)-1:len(sealed)-1], sealed[len(sealed)-1]^1))
		},
		"without what follows": func() ([]byte, error) { return b.Open([]byte("1"), sealed[:5]) },
		"if there is nothing":  func() ([]byte, error) { return b.Open([]byte("1"), nil) },
	} {
		if got, err := open(); !errors.Is(err, seal.ErrSealed) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// The nonce is chance: with the same one twice, whoever reads the table could tell what two texts have in common, and
// forge others.
func TestTheSameTextIsNeverSealedAlike(t *testing.T) {
	t.Parallel()
	b, seen := box(t, secret, "wallets"), map[string]bool{}
	for range 100 {
		nonce := string(b.Seal([]byte("1"), []byte("macaroon"))[1:13])
		if seen[nonce] {
			t.Fatal("a nonce came twice")
		}
		seen[nonce] = true
	}
}

func TestAShortSecretIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := seal.New([]byte(secret)[:31], "wallets"); err == nil {
		t.Error("a secret of 31 bytes was accepted")
	}
}
