package paidaction

import (
	"encoding/json"
	"errors"
	"testing"
)

// What only a newer program knows waits for it. What cannot be read at all is a fault that no waiting mends.
func TestWhatIsStoredIsReadWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	type args struct {
		Sats int64 `json:"sats"`
		Of   *struct {
			Name string `json:"name"`
		} `json:"of,omitempty"`
	}
	for raw, want := range map[string]struct{ unknown, passing bool }{
		`{"sats": 1}`: {}, `{"sats": 1, "of": {"name": "x"}}`: {}, `{}`: {},
		`{"sats": 1, "later": 0}`:                        {unknown: true, passing: true},
		`{"sats": 1, "of": {"name": "x", "later": "y"}}`: {unknown: true, passing: true},
		``: {}, `{"sats"`: {}, `{"sats": "one"}`: {}, `{"sats": "one", "later": 1}`: {},
	} {
		_, err := decode[args](json.RawMessage(raw))
		if errors.Is(err, errUnknownField) != want.unknown || IsPassing(err) != want.passing {
			t.Errorf("%s: %v, passing %v", raw, err, IsPassing(err))
		}
	}
	for _, raw := range []string{``, `{"sats"`, `{"sats": "one"}`} {
		if _, err := decode[args](json.RawMessage(raw)); err == nil {
			t.Errorf("%s was read", raw)
		}
	}
}
