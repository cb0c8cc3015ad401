package sitejwt

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
)

// Fetch reads a set of keys (JWKS).
type Fetch func(ctx context.Context) ([]byte, error)

// FromURL reads the keys from the site. An operator gave the address, so it may be in a private network. Redirects are
// not followed.
func FromURL(address string) Fetch {
	client := outside.New(outside.Config{AllowPrivate: true})
	return func(ctx context.Context) ([]byte, error) {
		answer, err := client.Do(ctx, outside.Request{URL: address, Stays: true})
		if err == nil && answer.Status != http.StatusOK {
			err = fmt.Errorf("the site's keys are answered with status %d", answer.Status)
		}
		return answer.Body, err
	}
}

// FromFile reads the keys from a file, which may be replaced while the service runs.
func FromFile(path string) Fetch {
	return func(context.Context) ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, outside.MaxBody))
	}
}

const (
	freshFor     = time.Hour        // after that the keys are read again
	pause        = 30 * time.Second // at least, between two readings, whatever kid a token invents
	pauseOfNone  = 2 * time.Second  // the same while no key is known
	fetchTimeout = 5 * time.Second
	leastRSA     = 2048 // bits
)

// keys are the site's. Keys that were read once remain valid while the site cannot be reached.
type keys struct {
	fetch Fetch
	now   func() time.Time
	log   *slog.Logger

	reading sync.Mutex // one reads at a time
	mu      sync.Mutex
	known   []jose.JSONWebKey
	read    time.Time // when the keys were read
	tried   time.Time
}

var errUnknownKey = errors.New("sitejwt: no such key")

// find returns the key that a token names. If it is not known the site is asked, though not often.
func (k *keys) find(ctx context.Context, kid, algorithm string) (jose.JSONWebKey, error) {
	key, ok := k.look(kid, algorithm)
	if !k.due(ok) {
		return k.orNone(key, ok)
	}
	if ok {
		// The known key is good enough for now: only one caller needs to wait until the keys are read.
		if !k.reading.TryLock() {
			return key, nil
		}
	} else {
		k.reading.Lock()
	}
	defer k.reading.Unlock()
	if k.due(ok) { // nobody else has read them meanwhile
		k.refresh(ctx)
	}
	return k.orNone(k.look(kid, algorithm))
}

func (k *keys) orNone(key jose.JSONWebKey, ok bool) (jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ok:
		return key, nil
	case len(k.known) == 0:
		return key, ErrKeysAway
	}
	return key, errUnknownKey
}

// due reports whether the keys should be read now, because they are old or the one that is looked for is missing, and
// may be.
func (k *keys) due(found bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, rest := k.now(), pause
	if len(k.known) == 0 {
		rest = pauseOfNone
	}
	if !k.tried.IsZero() && now.Sub(k.tried) < rest {
		return false
	}
	return !found || now.Sub(k.read) >= freshFor
}

// look finds the key by its name. A token that names none is taken to mean the only key, if there is just one.
func (k *keys) look(kid, algorithm string) (jose.JSONWebKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.known {
		if (key.KeyID == kid || kid == "" && len(k.known) == 1) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			return key, true
		}
	}
	return jose.JSONWebKey{}, false
}

// refresh reads the keys. Keys that are no longer in the set become invalid; but if nothing can be read, all stay as
// they are.
func (k *keys) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout) // others wait for it too
	defer cancel()
	text, err := k.fetch(ctx)
	var usable []jose.JSONWebKey
	if err == nil {
		usable, err = parse(text)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried = k.now()
	if err != nil {
		k.log.WarnContext(ctx, "the site's keys cannot be read; those that are known go on", "known", len(k.known), "error", err)
		return
	}
	k.known, k.read = usable, k.tried
}

// parse reads a set. It skips keys that cannot check signatures: a set may hold keys for other uses.
func parse(text []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("sitejwt: this is no set of keys")
	}
	var usable []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && (key.Use == "" || key.Use == "sig") && public(key.Key) {
			usable = append(usable, key)
		}
	}
	if len(usable) == 0 {
		return nil, errors.New("sitejwt: in the set is no public key for signatures")
	}
	return usable, nil
}

// public reports whether a key can check signatures, and is strong enough.
func public(key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= leastRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}
