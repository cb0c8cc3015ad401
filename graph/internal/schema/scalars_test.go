package schema_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
)

// Clients are told the same moment alike, whatever the zone of the machine that they ask is.
func TestMomentsAreInUTC(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 23, 30, 0, 5_000, time.FixedZone("east", 2*60*60))
	var written bytes.Buffer
	schema.MarshalTime(at).MarshalGQL(&written)
	if got := written.String(); got != `"2026-03-01T21:30:00.000005Z"` {
		t.Error(got)
	}
	if read, err := schema.UnmarshalTime("2026-03-01T23:30:00.000005+02:00"); err != nil || !read.Equal(at) {
		t.Errorf("%s, %v", read, err)
	}
}

// What is read can be written, in a form that clients read: years have four digits.
func TestMomentsHaveAYearOfFourDigits(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"9999-12-31T23:59:59Z": true, "9999-12-31T23:59:59-23:59": false, "0000-01-01T00:00:00Z": true, "0000-01-01T00:00:00+00:01": false} {
		if _, err := schema.UnmarshalTime(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
