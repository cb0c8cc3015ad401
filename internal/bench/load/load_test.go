package load

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plan is a plan for a server.
func plan(s *httptest.Server) Plan {
	return Plan{Addresses: []string{s.Listener.Addr().String()}, Keys: []string{"first", "second", "third"}, Items: 10, Sats: 10, Prefix: "test", Clients: 4}
}

const answer = `{"data":{"zap":{"id":"1","state":"PAID","costMsat":"10000"}}}`

// serve answers requests until the test ends.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

// Coordinated omission: a server that stood still for a while was slow for everybody who wanted something in that time,
// not only for the few whose requests were in flight. With a rate this is seen.
func TestAStandstillCountsForAllWhoCameInIt(t *testing.T) {
	t.Parallel()
	const stands = 600 * time.Millisecond
	var asked atomic.Int64
	var door sync.RWMutex
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 50 {
			door.Lock()
			<-time.After(stands)
			door.Unlock()
		}
		door.RLock()
		defer door.RUnlock()
		_, _ = io.WriteString(w, answer)
	})
	open := plan(s)
	open.Rate, open.Measure = 200, time.Second
	r, err := Run(t.Context(), open)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Paid != 200 {
		t.Fatalf("200 were due in a second: %s", r)
	}
	// Of the 200 requests that were due in the second, 120 were due during the standstill, and waited 300 ms on
	// average: half of all waited for 100 ms or more.
	if r.MaxMs < 550 || r.P99ms < 500 || r.P50ms < 50 {
		t.Errorf("it stood still for %v, and the longest took %.0f ms, the 99th of a hundred %.0f, the 50th %.0f", stands, r.MaxMs, r.P99ms, r.P50ms)
	}
	median := r.P50ms

	asked.Store(0)
	closed := plan(s)
	closed.Measure = time.Second
	if r, err = Run(t.Context(), closed); err != nil {
		t.Fatal(err)
	}
	if r.P50ms > median/2 {
		t.Errorf("without a rate only those who were asking waited, and yet half of all took %.0f ms or more", r.P50ms)
	}
}

// Every answer other than paid is a failure, and is reported.
func TestEverythingElseIsAFailure(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"a refusal": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"errors":[{"message":"no"}],"data":null}`)
		},
		"another state": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Replace(answer, "PAID", "PENDING", 1))
		},
		"another status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, answer, http.StatusTooManyRequests) },
		"a broken line": func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(serve(t, handler))
			p.Measure = 50 * time.Millisecond
			r, err := Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if r.OK() || r.Paid != 0 || r.Failures == 0 || len(r.Reasons) == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// No key is used twice, and requests follow the plan: an item that another user wrote, with the zapper's key.
func TestRequestsAreThoseOfThePlan(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]bool{}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v %v", r.Header, err)
		}
		mu.Lock()
		defer mu.Unlock()
		_, key, _ := strings.Cut(string(body), `"key":"`)
		if !strings.HasPrefix(key, "test-") || seen[key] {
			t.Errorf("the key %s comes again", key)
		}
		seen[key] = true
		// Item 4 was written by the second of three users.
		if who := r.Header.Get("Authorization"); !strings.Contains(string(body), `"item":"4","sats":10`) || who != "Bearer first" && who != "Bearer third" {
			t.Errorf("%s asks %s", who, body)
		}
		_, _ = io.WriteString(w, answer)
	})
	p := plan(s)
	p.Item, p.Warm, p.Measure = 4, 10*time.Millisecond, 300*time.Millisecond
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if int(r.Paid) != len(seen) || !r.OK() || r.Measured > r.Paid || r.Measured == 0 {
		t.Errorf("%d were asked: %+v", len(seen), r)
	}
}

// A request that is sent twice goes to two addresses under one key, and is one zap. If one key has bought two actions,
// that is a failure.
func TestWhatIsAskedForTwiceIsOne(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := [2]map[string]int{{}, {}} // requests by body
	addresses := make([]string, 2)
	for i := range addresses {
		addresses[i] = serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			asked[i][string(body)]++
			mu.Unlock()
			_, _ = io.WriteString(w, answer)
		}).Listener.Addr().String()
	}
	p := Plan{Addresses: addresses, Keys: []string{"first", "second", "third"}, Items: 10, Sats: 10, Prefix: "test", Clients: 4, Twice: 5,
		Measure: 100 * time.Millisecond}
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	twice := 0
	for body, n := range asked[0] {
		if n != 1 {
			t.Errorf("%d times at one address: %s", n, body)
		}
		twice += asked[1][body]
	}
	if !r.OK() || twice == 0 || int(r.Twice) != twice || int(r.Paid) != len(asked[0])+len(asked[1])-twice {
		t.Errorf("%d and %d were asked for, %d of them twice: %+v", len(asked[0]), len(asked[1]), twice, r)
	}
	if r.Twice < r.Paid/5 || r.Twice > r.Paid/5+4 || len(r.Each) != 2 || r.Each[0] == 0 || r.Each[0]+r.Each[1] != r.Measured {
		t.Errorf("one of five is asked for twice, and both addresses are: %+v", r)
	}

	p.Addresses[1] = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(answer, `"1"`, `"2"`, 1))
	}).Listener.Addr().String()
	if r, err = Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if r.OK() || r.Twice != 0 {
		t.Errorf("one key bought two actions: %+v", r)
	}
}

// The asked part of all values is at or below the quantile, which is one of them; no smaller one would do.
func TestQuantile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.SliceOfN(rapid.IntRange(0, 1000), 1, 200).Draw(t, "ms")
		percent := rapid.IntRange(1, 100).Draw(t, "percent")
		slices.Sort(ms)
		var took []time.Duration
		for _, m := range ms {
			took = append(took, time.Duration(m)*time.Millisecond)
		}
		q := Quantile(took, float64(percent)/100)
		below, atOrBelow := 0, 0
		for _, m := range ms {
			if float64(m) < q {
				below++
			}
			if float64(m) <= q {
				atOrBelow++
			}
		}
		if atOrBelow*100 < percent*len(ms) || below*100 >= percent*len(ms) {
			t.Fatalf("the quantile %d %% of %v is %v", percent, ms, q)
		}
	})
}
