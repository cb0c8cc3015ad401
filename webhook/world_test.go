package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is webhooks and an engine, on a fresh database with a clock that stands still.
type world struct {
	*enginetest.World
	*webhook.Webhooks
	Out *enginetest.Log
}

func newWorld(t testing.TB, change ...func(*webhook.Config)) *world {
	t.Helper()
	w := &world{World: enginetest.New(t, paidaction.Settings{}), Out: &enginetest.Log{}}
	if _, err := w.Pool.Exec(w.Ctx, `CREATE TABLE test_delivery (message bigint, due timestamptz)`); err != nil {
		t.Fatal(err)
	}
	c := webhook.Config{Pool: w.Pool, Outside: outside.New(outside.Config{AllowPrivate: true}), Jobs: jobs{}, Secret: make([]byte, 32), Now: w.Clock.Now,
		Log: slog.New(slog.NewTextHandler(w.Out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&c)
	}
	var err error
	if w.Webhooks, err = webhook.New(c); err != nil {
		t.Fatal(err)
	}
	return w
}

// jobs stores jobs in a table, inside the transaction that makes them.
type jobs struct{}

func (jobs) InsertDeliveries(ctx context.Context, tx pgx.Tx, messages []int64, due []time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO test_delivery SELECT unnest($1::bigint[]), unnest($2::timestamptz[])`, messages, due)
	return err
}

// Deliver makes jobs for what was written, and does each of them once. Those that are to be repeated stay.
func (w *world) Deliver() {
	w.Helper()
	if _, err := w.Queue(w.Ctx); err != nil {
		w.Fatal(err)
	}
	rows, err := w.Pool.Query(w.Ctx, `SELECT message FROM test_delivery ORDER BY message`)
	if err != nil {
		w.Fatal(err)
	}
	messages, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		w.Fatal(err)
	}
	for _, m := range messages {
		again, err := w.Webhooks.Deliver(w.Ctx, m)
		if err != nil {
			w.Fatal(err)
		}
		if again == 0 {
			if _, err := w.Pool.Exec(w.Ctx, `DELETE FROM test_delivery WHERE message = $1`, m); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// Tell registers a server.
func (w *world) Tell(owner webhook.Owner, url string, events ...string) (id int64, secret string) {
	w.Helper()
	made, secret, err := w.Create(w.Ctx, owner, url, events, nil)
	if err != nil {
		w.Fatal(err)
	}
	return made.ID, secret
}

// log returns all that a webhook was told, newest first.
func (w *world) log(id int64) []webhook.Message {
	w.Helper()
	list, err := w.Messages(w.Ctx, id, 1<<62, 1000)
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// server is somebody's server, on loopback.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	got    []call
	answer http.HandlerFunc // nil: 204
}

// call is a request that a server got.
type call struct {
	Header http.Header
	Text   []byte
	Body   struct {
		Type      string
		Timestamp time.Time
		Data      struct {
			ID, Kind, State, PreviousState, PaymentMethod, CostMsat, GenesisID, PayerID, ReceivedMsat, ItemID string
			Attempt                                                                                           int
			Failure                                                                                           *struct{ Code, Message string }
		}
	}
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := call{Header: r.Header}
	c.Text, _ = io.ReadAll(r.Body)
	_ = json.Unmarshal(c.Text, &c.Body) // if it cannot be read, it stays empty, and the test sees that
	s.mu.Lock()
	s.got = append(s.got, c)
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Answers sets what the server answers from now on.
func (s *server) Answers(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Status answers with a status alone.
func (s *server) Status(status int) {
	s.Answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// Got returns the calls since the last time, in the order in which they came.
func (s *server) Got() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// types are the types of calls, each preceded by the previous state.
func types(calls []call) string {
	var all []string
	for _, c := range calls {
		all = append(all, c.Body.Data.PreviousState+">"+c.Body.Type)
	}
	return strings.Join(all, " ")
}

// verify does what a receiver does according to Standard Webhooks. The signed content is {id}.{timestamp}.{body}; the
// key is what follows whsec_, in base64. One of the signatures of version v1 must fit, and the timestamp must be near.
func verify(secret string, c call, now time.Time) error {
	id, at := c.Header.Get("webhook-id"), c.Header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || id == "" || strings.Contains(id, ".") {
		return fmt.Errorf("id %q, timestamp %q", id, at)
	}
	if d := now.Sub(time.Unix(seconds, 0)); d > 5*time.Minute || d < -5*time.Minute {
		return fmt.Errorf("the timestamp is %s away", d)
	}
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return fmt.Errorf("no secret: %d bytes, %v", len(key), err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, c.Text)
	for _, signature := range strings.Split(c.Header.Get("webhook-signature"), " ") {
		version, value, _ := strings.Cut(signature, ",")
		raw, err := base64.StdEncoding.DecodeString(value)
		if err == nil && version == "v1" && hmac.Equal(raw, mac.Sum(nil)) {
			return nil
		}
	}
	return errors.New("no signature fits")
}
