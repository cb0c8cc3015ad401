package sitejwt_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt"
	"github.com/a-seed-a7aed72f/holdfast/internal/sitejwt/sitejwttest"
)

// reading is a verifier whose keys are read by a function.
func reading(t testing.TB, c *clock, fetch sitejwt.Fetch) *sitejwt.Verifier {
	t.Helper()
	v, err := sitejwt.New(sitejwt.Config{Issuer: sitejwttest.Issuer, Audience: sitejwttest.Audience, Fetch: fetch, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// setOf is what a site publishes.
func setOf(t testing.TB, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Who gives up while the keys are read stops it for nobody: they are known to the next one.
func TestReadingTheKeysOutlivesTheOneWhoAsked(t *testing.T) {
	t.Parallel()
	site, v, c := verifier(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 2 {
		if _, err := v.Verify(gone, site.Token(with(c, nil))); err != nil {
			t.Errorf("the keys were not read: %v", err)
		}
	}
	if site.Reads() != 1 {
		t.Errorf("the keys were read %d times", site.Reads())
	}
}

// A set without a usable key is a mistake of the site, not its last word: the keys that are known go on.
func TestASetWithoutKeysChangesNothing(t *testing.T) {
	t.Parallel()
	site, c := sitejwttest.New(t), &clock{now: time.Now()}
	set := setOf(t, jose.JSONWebKey{Key: site.Key(), KeyID: "first"})
	v := reading(t, c, func(context.Context) ([]byte, error) { return set, nil })
	for _, next := range [][]byte{[]byte(`{"keys": []}`), []byte(`{}`), []byte(`<html>`)} {
		if _, err := v.Verify(t.Context(), site.Token(with(c, nil))); err != nil {
			t.Errorf("before %s: %v", next, err)
		}
		set = next
		c.Advance(2 * time.Hour)
		if _, err := v.Verify(t.Context(), site.Token(with(c, nil))); err != nil {
			t.Errorf("after %s: %v", next, err)
		}
	}
}

// However many come at once with a key that is not known, the site is asked once.
func TestOneReadsTheKeysForAll(t *testing.T) {
	t.Parallel()
	const callers = 10
	site, c := sitejwttest.New(t), &clock{now: time.Now()}
	token := site.Token(with(c, nil))
	var reads, looked atomic.Int32
	come := make(chan struct{})
	v, err := sitejwt.New(sitejwt.Config{Issuer: sitejwttest.Issuer, Audience: sitejwttest.Audience,
		Fetch: func(context.Context) ([]byte, error) {
			reads.Add(1)
			<-come
			return nil, errors.New("away")
		},
		Now: func() time.Time {
			if looked.Add(1) == callers { // all but one have found that the keys must be read
				close(come)
			}
			return c.Now()
		}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, sitejwt.ErrKeysAway) {
				t.Errorf("without keys: %v", err)
			}
		})
	}
	all.Wait()
	if reads.Load() != 1 {
		t.Errorf("the site was asked %d times", reads.Load())
	}
}
