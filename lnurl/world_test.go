package lnurl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/keyauth"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lnurl"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// house serves addresses, and the API beside them, on a fresh database and a simulated node.
type house struct {
	*enginetest.World
	URL     string
	Host    string
	Wallets *wallet.Wallets // with which our own users pay other addresses
	Log     *enginetest.Log
}

// still never reports a change.
type still struct{}

func (still) Subscribe(context.Context, int64) <-chan struct{} { return nil }

var secret = bytes.Repeat([]byte{7}, 32)

func serve(t testing.TB, rates graph.Rates, change ...func(*lnurl.Config)) *house {
	t.Helper()
	return serveBoth(t, func(c *graph.Config) { c.Rates = rates }, change...)
}

// serveAPI is serve with changes to the API's configuration.
func serveAPI(t testing.TB, change func(*graph.Config)) *house {
	t.Helper()
	return serveBoth(t, change)
}

func serveBoth(t testing.TB, changeAPI func(*graph.Config), change ...func(*lnurl.Config)) *house {
	t.Helper()
	h := &house{World: enginetest.New(t, paidaction.Settings{}), Log: &enginetest.Log{}}
	log := slog.New(slog.NewTextHandler(h.Log, nil))
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	public, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	h.URL, h.Host = server.URL, public.Host
	h.Wallets, err = wallet.New(wallet.Config{Pool: h.Pool, Secret: secret, Outside: outside.New(outside.Config{AllowPrivate: true}),
		Decode: h.Node.DecodeInvoice, Now: h.Clock.Now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	webhooks, err := webhook.New(webhook.Config{Pool: h.Pool, Secret: secret, Outside: outside.New(outside.Config{AllowPrivate: true}), Now: h.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	of := graph.Config{Engine: h.Engine, Pool: h.Pool, Updates: still{}, Wallets: h.Wallets, Webhooks: webhooks, Public: public, Now: h.Clock.Now, Log: log}
	changeAPI(&of)
	api, err := graph.NewHandler(of)
	if err != nil {
		t.Fatal(err)
	}
	c := lnurl.Config{Engine: h.Engine, Pool: h.Pool, Askers: api, Public: public, Most: 1_000_000_000, Secret: secret, Log: log}
	for _, f := range change {
		f(&c)
	}
	addresses, err := lnurl.NewHandler(c)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/.well-known/lnurlp/", addresses)
	mux.Handle("/lnurlp/", addresses)
	mux.Handle(keyauth.Path, addresses)
	mux.Handle("/", api)
	return h
}

// answer has the fields of all answers.
type answer struct {
	HTTP           int         `json:"-"`
	Header         http.Header `json:"-"`
	Raw            string      `json:"-"`
	Status         string
	Reason         string
	Tag            string
	Callback       string
	MinSendable    int64
	MaxSendable    int64
	Metadata       string
	CommentAllowed int
	PayerData      map[string]struct{ Mandatory bool }
	Bolt11         string `json:"pr"`
	Verify         string
	Settled        *bool
	Preimage       *string
}

// Send sends a request unchanged.
func (h *house) Send(r *http.Request) answer {
	h.Helper()
	response, err := http.DefaultTransport.RoundTrip(r.WithContext(h.Ctx))
	if err != nil {
		h.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		h.Fatal(err)
	}
	a := answer{HTTP: response.StatusCode, Header: response.Header, Raw: string(raw)}
	if len(raw) > 0 && response.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(raw, &a); err != nil {
			h.Fatalf("%s: %v", raw, err)
		}
	}
	return a
}

// Get asks a URL.
func (h *house) Get(url string) answer {
	h.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		h.Fatal(err)
	}
	return h.Send(r)
}

// Look looks an address up.
func (h *house) Look(name string) answer {
	h.Helper()
	return h.Get(h.URL + "/.well-known/lnurlp/" + name)
}

// Order asks for an invoice, and fails the test if none comes.
func (h *house) Order(name string, query url.Values) answer {
	h.Helper()
	a := h.Get(h.Look(name).Callback + "?" + query.Encode())
	if a.Bolt11 == "" || a.Verify == "" {
		h.Fatalf("no invoice: %s", a.Raw)
	}
	return a
}

// Queries are those of the database.
func (h *house) Queries() *db.Queries { return db.New(h.Pool) }

// Newest is the action that was begun last.
func (h *house) Newest() int64 { return h.Count(`SELECT max(id) FROM paid_action`) }

// PayInvoice pays an invoice at the node.
func (h *house) PayInvoice(bolt11 string) {
	h.Helper()
	if err := h.Node.PayBolt11(bolt11, simnode.Payment{}); err != nil {
		h.Fatal(err)
	}
}
