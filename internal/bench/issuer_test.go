package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// says is a service with these metrics, one answer after the other, the last one for ever. An empty answer means that
// it cannot tell yet.
func says(t *testing.T, answers ...string) (s *service, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[min(int(asked.Add(1)), len(answers))-1]
		if r.URL.Path != "/metrics" || answer == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return &service{address: strings.TrimPrefix(server.URL, "http://")}, asked
}

// An invoice that the service has opened at a real node is not yet one that it has heard of; and all of them are waited
// for.
func TestAllInvoicesOfARealNodeAreHeardOf(t *testing.T) {
	t.Parallel()
	const streams, heard = "holdfast_node_hold_streams{node=\"holdfast\"} 10000\n", "holdfast_node_hold_streams_heard{node=\"holdfast\"} "
	s, asked := says(t, "", streams, streams+heard+"9999\n", streams+heard+"10000\n")
	wait, err := (&lnd{}).watch(t.Context(), s, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := wait(); err != nil || asked.Load() != 4 || at.IsZero() {
		t.Errorf("after %d answers, at %s: %v", asked.Load(), at, err)
	}
}

func TestWhatIsNeverHeardOfIsAnError(t *testing.T) {
	t.Parallel()
	s, _ := says(t, "holdfast_node_hold_streams_heard{node=\"holdfast\"} 7\n")
	ctx, cancel := context.WithTimeout(t.Context(), 10*hearPause)
	defer cancel()
	wait, err := (&lnd{}).watch(ctx, s, 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wait(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
