package graph_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// api is the whole API on a fresh database and a simulated node.
type api struct {
	*enginetest.World
	URL  string
	Feed *feed
	Log  *enginetest.Log
	// Stop ends the requests under way, as a server does that shuts down.
	Stop func()
}

func serve(t testing.TB, change ...func(*graph.Config)) *api {
	t.Helper()
	a := &api{World: enginetest.New(t, paidaction.Settings{}), Feed: newFeed(), Log: &enginetest.Log{}}
	a.Engine.Hooks.Changed = a.Feed.changed
	a.Engine.Log = slog.New(slog.NewTextHandler(a.Log, nil))
	wallets, err := wallet.New(wallet.Config{Pool: a.Pool, Secret: make([]byte, 32), Outside: outside.New(outside.Config{AllowPrivate: true}),
		Decode: a.Node.DecodeInvoice, Now: a.Clock.Now, Log: slog.New(slog.NewTextHandler(a.Log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	webhooks, err := webhook.New(webhook.Config{Pool: a.Pool, Secret: make([]byte, 32), Outside: outside.New(outside.Config{AllowPrivate: true}), Now: a.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	c := graph.Config{Engine: a.Engine, Pool: a.Pool, Updates: a.Feed, Wallets: wallets, Webhooks: webhooks, Development: true, Now: a.Clock.Now,
		Log: slog.New(slog.NewTextHandler(a.Log, nil))}
	for _, f := range change {
		f(&c)
	}
	handler, err := graph.NewHandler(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	server := httptest.NewUnstartedServer(handler)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	a.URL = server.URL
	a.Stop = sync.OnceFunc(func() { stop(); server.Close() })
	t.Cleanup(a.Stop)
	return a
}

// feed tells subscribers of changes, as internal/changefeed does.
type feed struct {
	mu          sync.Mutex
	subscribers map[chan struct{}]int64
}

func newFeed() *feed { return &feed{subscribers: map[chan struct{}]int64{}} }

func (f *feed) Subscribe(ctx context.Context, id int64) <-chan struct{} {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	f.subscribers[ch] = id
	f.mu.Unlock()
	context.AfterFunc(ctx, func() { f.mu.Lock(); delete(f.subscribers, ch); f.mu.Unlock() })
	return ch
}

func (f *feed) changed(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch, of := range f.subscribers {
		if of == id {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}

// person is somebody with a key.
type person struct {
	ID  int64
	Key string
}

var nobody = person{}

// Person signs somebody up and gives them credits and sats, in whole sats.
func (a *api) Person(name string, credits, sats int64) person {
	a.Helper()
	id, key, err := graph.SignUp(a.Ctx, a.Pool, name, a.Clock.Now())
	if err != nil {
		a.Fatal(err)
	}
	transfers := []ledger.Transfer{
		{From: ledger.Lightning, To: ledger.UserSats(id), Msat: sats * 1000, Reason: "deposit"},
		{From: ledger.Lightning, To: ledger.BackingSats, Msat: credits * 1000, Reason: "deposit"},
		{From: ledger.IssuedCredits, To: ledger.UserCredits(id), Msat: credits * 1000, Reason: "deposit"},
	}
	transfers = slices.DeleteFunc(transfers, func(t ledger.Transfer) bool { return t.Msat == 0 })
	if err := ledger.Post(a.Ctx, db.New(a.Pool), nil, a.Clock.Now(), transfers); err != nil {
		a.Fatal(err)
	}
	return person{id, key}
}

// In is the same API as seen from a subtest.
func (a *api) In(t testing.TB) *api {
	inner, world := *a, *a.World
	world.TB, inner.World = t, &world
	return &inner
}

// number is an id in the form that the engine uses.
func number(t testing.TB, id string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

type vars = map[string]any

type answer struct {
	Status int
	Header http.Header `json:"-"`
	Data   map[string]any
	Errors []answerError
	Raw    string
}

type answerError struct {
	Message    string
	Path       []any
	Extensions struct{ Code, Fault, CostMsat, SuccessorID string }
}

// code is the code of the only error, or empty.
func (r answer) code() string {
	if len(r.Errors) == 0 {
		return ""
	}
	return r.Errors[0].Extensions.Code
}

// at finds a value in the data by its path.
func (r answer) at(path ...string) any {
	var v any = r.Data
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func (r answer) text(path ...string) string { s, _ := r.at(path...).(string); return s }

// Do sends an operation as somebody.
func (a *api) Do(as person, query string, v vars) answer {
	a.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": v})
	if err != nil {
		a.Fatal(err)
	}
	return a.Post(as.Key, string(body))
}

// Post sends a body with a key.
func (a *api) Post(key, body string, headers ...string) answer {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Ctx, http.MethodPost, a.URL+"/graphql", strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return a.Send(req)
}

// Send sends a request unchanged.
func (a *api) Send(req *http.Request) answer {
	a.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		a.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		a.Fatal(err)
	}
	r := answer{Status: resp.StatusCode, Header: resp.Header, Raw: string(raw)}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(raw, &r); err != nil {
			a.Fatalf("%s: %v", raw, err)
		}
	}
	return r
}

// Want sends an operation that must succeed.
func (a *api) Want(as person, query string, v vars) answer {
	a.Helper()
	r := a.Do(as, query, v)
	if len(r.Errors) > 0 {
		a.Fatalf("%s: %s", query, r.Raw)
	}
	return r
}

// PayInvoice pays an invoice at the node.
func (a *api) PayInvoice(bolt11 string) {
	a.Helper()
	if err := a.Node.PayBolt11(bolt11, simnode.Payment{}); err != nil {
		a.Fatal(err)
	}
}

// PostBy writes a paid post and returns its id in the form that the API uses.
func (a *api) PostBy(author person, title string) string {
	a.Helper()
	r := a.Want(author, `mutation($t: String!) { createPost(title: $t, paymentMethod: FEE_CREDIT) { state result { item { id } } } }`, vars{"t": title})
	if got := r.text("createPost", "state"); got != "PAID" {
		a.Fatalf("the post is %s: %s", got, r.Raw)
	}
	a.Clock.Advance(11 * time.Minute) // the next one costs no more than this
	return r.text("createPost", "result", "item", "id")
}
