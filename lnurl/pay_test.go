package lnurl_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lnurl"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestAnAddressSaysWhatItTakes(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{})
	h.User("alice", 0, 0)
	r, err := http.NewRequest(http.MethodGet, h.URL+"/.well-known/lnurlp/Alice", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example" // what a request says of the host is nowhere in the answer
	a := h.Send(r)
	if a.HTTP != http.StatusOK || a.Tag != "payRequest" || a.Callback != h.URL+"/lnurlp/alice" || a.MinSendable != 1000 || a.MaxSendable != 1_000_000_000 ||
		a.CommentAllowed != community.MaxReceiveComment || a.Status != "" || strings.Contains(a.Raw, "evil") {
		t.Errorf("%d %s", a.HTTP, a.Raw)
	}
	if want := `[["text/plain","Pay to alice@` + h.Host + `"],["text/identifier","alice@` + h.Host + `"]]`; a.Metadata != want {
		t.Errorf("the metadata are %s, want %s", a.Metadata, want)
	}
	if len(a.PayerData) != 3 {
		t.Errorf("of the payer it takes %v", a.PayerData)
	}
	for _, name := range []string{"name", "identifier", "email"} {
		if offered, ok := a.PayerData[name]; !ok || offered.Mandatory {
			t.Errorf("of the payer it takes %v", a.PayerData)
		}
	}
	for _, name := range []string{"nobody", "alice%00", "%ff", "%27%20OR%201", strings.Repeat("a", 65)} {
		for _, path := range []string{"/.well-known/lnurlp/", "/lnurlp/"} {
			if a := h.Get(h.URL + path + name + "?amount=1000"); a.HTTP != http.StatusNotFound || a.Status != "ERROR" || a.Reason != "Nobody has this address." {
				t.Errorf("%s%s: %d %s", path, name, a.HTTP, a.Raw)
			}
		}
	}
}

// Wallets that run in a browser call from pages of their own. A request that only looks ahead makes no invoice.
func TestWhoMayAskHow(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{})
	h.User("alice", 0, 0)
	for _, path := range []string{"/.well-known/lnurlp/alice", "/lnurlp/alice?amount=1000", "/lnurlp/verify/00/00"} {
		for method, status := range map[string]int{http.MethodOptions: http.StatusNoContent, http.MethodHead: http.StatusMethodNotAllowed, http.MethodPost: http.StatusMethodNotAllowed} {
			r, err := http.NewRequest(method, h.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Origin", "https://wallet.example")
			if a := h.Send(r); a.HTTP != status || a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s %s: %d %v", method, path, a.HTTP, a.Header)
			}
		}
	}
	if n := h.Count(`SELECT count(*) FROM paid_action`); n != 0 {
		t.Errorf("%d actions were begun", n)
	}
	order := h.Order("alice", url.Values{"amount": {"1000"}})
	for what, a := range map[string]answer{"looking": h.Look("alice"), "ordering": order, "verifying": h.Get(order.Verify)} {
		// What a cache keeps would be one invoice for two payers, and a payment that is never settled.
		if a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", what, a.Header)
		}
	}
}

// said is what the receiver is told of their incoming payments.
func (h *house) said(user int64) string {
	h.Helper()
	key := strings.Repeat("k", 32)
	_, err := h.Pool.Exec(h.Ctx, `INSERT INTO api_key (user_id, key_hash, scopes, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (key_hash) DO UPDATE SET user_id = excluded.user_id`, user, graph.HashKey(key), graph.Scopes, h.Clock.Now())
	if err != nil {
		h.Fatal(err)
	}
	query, err := json.Marshal(map[string]string{"query": `{ me { history(first: 10) { nodes { received { direct comment sender { name identifier email } } } } } }`})
	if err != nil {
		h.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, h.URL+"/graphql", strings.NewReader(string(query)))
	if err != nil {
		h.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	return h.Send(r).Raw
}

const payerData = `{"name":"Bob ☃", "identifier":"bob@sats.example", "email":"bob@mail.example"}`

func TestAPaymentToAnAddress(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{})
	alice, other := h.User("alice", 0, 0), h.User("other", 0, 0)
	metadata := h.Look("alice").Metadata
	a := h.Order("alice", url.Values{"amount": {"100000"}, "comment": {"for lunch"}, "payerdata": {payerData}})
	if !strings.Contains(a.Raw, `"routes":[]`) || strings.Contains(a.Raw, h.Engine.SecretOf(h.Newest())) {
		t.Errorf("%s", a.Raw)
	}
	read, err := h.Node.DecodeInvoice(h.Ctx, a.Bolt11)
	if err != nil {
		t.Fatal(err)
	}
	described := sha256.Sum256([]byte(metadata + payerData))
	if read.DescriptionHash != hex.EncodeToString(described[:]) || read.Description != "" || read.Amount != 100_000 {
		t.Errorf("the invoice is %+v", read)
	}
	unsettled := func(when string) {
		t.Helper()
		v := h.Get(a.Verify)
		if v.HTTP != http.StatusOK || v.Status != "OK" || v.Settled == nil || *v.Settled || v.Preimage != nil || v.Bolt11 != a.Bolt11 {
			t.Errorf("%s it is %s", when, v.Raw)
		}
	}
	unsettled("before it is paid")
	h.PayInvoice(a.Bolt11)
	unsettled("while it is held")
	h.Advance(h.Newest())
	h.WantState(h.Newest(), paidaction.Held)
	unsettled("once it is performed")
	h.Drain()
	h.Advance(h.Newest())
	h.Drain()
	h.WantState(h.Newest(), paidaction.Paid)
	v := h.Get(a.Verify)
	if v.Settled == nil || !*v.Settled || v.Preimage == nil {
		t.Fatalf("paid, it is %s", v.Raw)
	}
	preimage, err := hex.DecodeString(*v.Preimage)
	if err != nil || sha256.Sum256(preimage) != read.Hash {
		t.Errorf("%s is no preimage of %s", *v.Preimage, read.Hash)
	}
	h.WantBalance(ledger.UserSats(alice), 90_000)
	h.WantConserved()

	for _, text := range []string{`"comment":"for lunch"`, `"name":"Bob ☃"`, `"email":"bob@mail.example"`, `"identifier":"bob@sats.example"`, `"direct":false`} {
		if got := h.said(alice); !strings.Contains(got, text) {
			t.Errorf("the receiver is not told %s: %s", text, got)
		}
	}
	if got := h.said(other); strings.Contains(got, "lunch") || strings.Contains(got, "bob@") {
		t.Errorf("somebody else is told: %s", got)
	}

	// This is the state after an operator's write-off: the receiver was paid, but the payer's money was never ours.
	if _, err := h.Pool.Exec(h.Ctx, `INSERT INTO action_history (action_id, from_state, to_state, fact, at) VALUES ($1, 'FORWARDED', 'PAID', 'WRITTEN_OFF', now())`, h.Newest()); err != nil {
		t.Fatal(err)
	}
	unsettled("written off")
}

// If the receiver has a wallet, the payer's invoice wraps the wallet's invoice, and still carries the hash of our
// metadata.
func TestAPaymentToAnAddressGoesToTheReceiversWallet(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{})
	alice := h.User("alice", 0, 0)
	own := h.World.Wallets.Add(alice)
	a := h.Order("alice", url.Values{"amount": {"100000"}, "comment": {"for lunch"}})
	id, described := h.Newest(), sha256.Sum256([]byte(h.Look("alice").Metadata))
	if read, err := h.Node.DecodeInvoice(h.Ctx, a.Bolt11); err != nil || read.DescriptionHash != hex.EncodeToString(described[:]) || read.Hash != own.Last().Hash {
		t.Fatalf("the invoice is %+v, error %v", read, err)
	}
	h.PayInvoice(a.Bolt11)
	h.Advance(id)
	if v := h.Get(a.Verify); *v.Settled || v.Preimage != nil {
		t.Errorf("being forwarded, it is %s", v.Raw)
	}
	// The receiver has their money by now, and we know the preimage; but the payer's payment can still go back.
	h.Node.FailBefore(simnode.MethodSettle, 1_000_000)
	h.Run(h.Relay)
	h.Await(id, paidaction.Forwarded)
	if v := h.Get(a.Verify); *v.Settled || v.Preimage != nil {
		t.Errorf("forwarded and not settled, it is %s", v.Raw)
	}
	h.Node.FailBefore(simnode.MethodSettle, 0)
	h.AwaitStage(id, "completed")
	h.WantState(id, paidaction.Paid)
	if v := h.Get(a.Verify); !*v.Settled || v.Preimage == nil || len(*v.Preimage) != 64 {
		t.Errorf("paid, it is %s", v.Raw)
	}
	if got := h.said(alice); !strings.Contains(got, `"direct":true,"comment":"for lunch","sender":null`) {
		t.Errorf("the receiver is told %s", got)
	}
	// If the payer's money went back after all, nobody gets a proof of having paid.
	if _, err := h.Pool.Exec(h.Ctx, `INSERT INTO action_history (action_id, from_state, to_state, fact, at) VALUES ($1, 'FORWARDED', 'PAID', $2, $3)`,
		id, paidaction.IncomingLost, h.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	if v := h.Get(a.Verify); *v.Settled || v.Preimage != nil {
		t.Errorf("lost, it is %s", v.Raw)
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{})
	h.User("alice", 0, 0)
	long := strings.Repeat("☃", community.MaxReceiveComment+1)
	for query, reason := range map[string]string{
		"":                                            "Give the amount",
		"amount=":                                     "Give the amount",
		"amount=x":                                    "Give the amount",
		"amount=-1000":                                "Give the amount",
		"amount=1000.5":                               "Give the amount",
		"amount=99999999999999999999":                 "Give the amount",
		"amount=0":                                    "from 1000 to 1000000000",
		"amount=999":                                  "from 1000 to 1000000000",
		"amount=1000001000":                           "from 1000 to 1000000000",
		"amount=9223372036854775000":                  "from 1000 to 1000000000",
		"amount=1001":                                 "whole sats",
		"amount=1000&amount=2000":                     "the amount more than once",
		"amount=1000&comment=a&comment=b":             "the comment more than once",
		"amount=1000&payerdata=&payerdata={}":         "the payerdata more than once",
		"amount=1000&comment=" + long:                 "at most 280 characters",
		"amount=1000&comment=%00":                     "cannot be stored",
		"amount=1000&comment=%ff":                     "not valid text",
		"amount=1000&comment=%zz":                     "cannot be read",
		"amount=1000&payerdata=x":                     "payer data cannot be read",
		"amount=1000&payerdata=null":                  "payer data cannot be read",
		"amount=1000&payerdata=[]":                    "payer data cannot be read",
		"amount=1000&payerdata=%ff":                   "payer data cannot be read",
		`amount=1000&payerdata={"x":`:                 "payer data cannot be read",
		`amount=1000&payerdata={}{}`:                  "payer data cannot be read",
		"amount=1000&payerdata=" + long + long + long: "payer data cannot be read",
		`amount=1000&payerdata={"pubkey":"02"}`:       "can only have name, identifier and email",
		`amount=1000&payerdata={"auth":{"k1":"00"}}`:  "payer data cannot be read",
		`amount=1000&payerdata={"name":1}`:            "payer data cannot be read",
		`amount=1000&payerdata={"NAME":"x"}`:          "can only have name, identifier and email",
		`amount=1000&payerdata={"name":"` + strings.Repeat("x", 121) + `"}`: "at most 120",
		`amount=1000&payerdata={"name":"\u0000"}`:                           "cannot be stored",
	} {
		a := h.Get(h.URL + "/lnurlp/alice?" + strings.NewReplacer(`"`, "%22", "{", "%7B", "}", "%7D", `\`, "%5C").Replace(query))
		if a.HTTP != http.StatusOK || a.Status != "ERROR" || !strings.Contains(a.Reason, reason) || a.Bolt11 != "" {
			t.Errorf("%s: %d %s", query, a.HTTP, a.Raw)
		}
	}
	if n := h.Count(`SELECT count(*) FROM paid_action`); n != 0 {
		t.Errorf("%d actions were begun", n)
	}
	// The longest comment is taken: its length is in characters (LUD-12).
	h.Order("alice", url.Values{"amount": {"1000"}, "comment": {strings.Repeat("☃", community.MaxReceiveComment)}})
}

// However a wallet writes the name, its invoice has the hash of the metadata that it was shown.
func TestAnInvoiceIsOfTheMetadataThatWereShown(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{})
	h.User("alice", 0, 0)
	described := sha256.Sum256([]byte(h.Look("ALICE").Metadata))
	a := h.Get(h.URL + "/lnurlp/Alice?amount=1000")
	if read, err := h.Node.DecodeInvoice(h.Ctx, a.Bolt11); err != nil || read.DescriptionHash != hex.EncodeToString(described[:]) {
		t.Errorf("the invoice is %+v, error %v", read, err)
	}
}

// What one network address asks of lightning addresses and of the API counts together.
func TestOrdersAreCounted(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{AddressPaying: 0.2}) // two at once
	h.User("alice", 0, 0)
	for range 2 {
		h.Order("alice", url.Values{"amount": {"1000"}})
	}
	a := h.Get(h.URL + "/lnurlp/alice?amount=1000")
	if a.HTTP != http.StatusTooManyRequests || a.Status != "ERROR" || !strings.Contains(a.Reason, "Too many requests") || a.Header.Get("Retry-After") != "5" {
		t.Errorf("%d %s", a.HTTP, a.Raw)
	}
	if a := h.Look("alice"); a.Tag != "payRequest" {
		t.Errorf("looking is no paying: %s", a.Raw)
	}
	r, err := http.NewRequest(http.MethodPost, h.URL+"/graphql", strings.NewReader(`{"query":"mutation { donate(sats: 1) { id } }"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if a := h.Send(r); !strings.Contains(a.Raw, "RATE_LIMITED") {
		t.Errorf("the API: %s", a.Raw)
	}
}

// Whoever leaves as many invoices unpaid as one may gets no more; other payers are not told to wait for them (spec 05.12).
func TestOpenOrdersAreBoundedPerNetworkAddress(t *testing.T) {
	t.Parallel()
	h := serveAPI(t, func(c *graph.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	h.User("alice", 0, 0)
	from := func(client string) answer {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, h.URL+"/lnurlp/alice?amount=1000", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", client)
		return h.Send(r)
	}
	for i := range 100 {
		if a := from("203.0.113.1"); a.Bolt11 == "" {
			t.Fatalf("order %d: %s", i+1, a.Raw)
		}
	}
	if a := from("203.0.113.1"); a.Bolt11 != "" || !strings.Contains(a.Reason, "You have 100 unpaid invoices.") {
		t.Errorf("one more: %s", a.Raw)
	}
	if a := from("203.0.113.2"); a.Bolt11 == "" {
		t.Errorf("somebody else: %s", a.Raw)
	}
}

// Looking pays nothing, and yet is bounded like any request.
func TestLooksAreCounted(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{Address: 0.2}) // two at once
	h.User("alice", 0, 0)
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if a := h.Get(h.URL + "/.well-known/lnurlp/alice"); a.HTTP != want {
			t.Errorf("look %d: %d %s", i+1, a.HTTP, a.Raw)
		}
	}
}

func TestFaultsSayNothingOfTheInside(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{}, func(c *lnurl.Config) {
		gone, err := pgxpool.NewWithConfig(t.Context(), c.Pool.Config())
		if err != nil {
			t.Fatal(err)
		}
		gone.Close()
		c.Pool = gone
	})
	a := h.Look("alice")
	if a.Status != "ERROR" || a.Reason != "Something went wrong on our side. Try again in a moment." {
		t.Errorf("%d %s", a.HTTP, a.Raw)
	}
	if !strings.Contains(h.Log.String(), "closed pool") {
		t.Errorf("the log has %s", h.Log)
	}
}

// A wallet of ours or a database that is too slow for the one who asks is no fault in the program: it is told and logged
// as what it is.
func TestWhatTakesTooLongIsNoFault(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{}, func(c *lnurl.Config) { c.Patience = 100 * time.Millisecond })
	tx, err := h.Pool.Begin(h.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(h.Ctx)) }()
	if _, err := tx.Exec(h.Ctx, `LOCK TABLE usr`); err != nil {
		t.Fatal(err)
	}
	if a := h.Look("alice"); a.Status != "ERROR" || a.Reason != "This took too long and was given up. Try again in a moment." {
		t.Errorf("%d %s", a.HTTP, a.Raw)
	}
	if log := h.Log.String(); strings.Contains(log, "level=ERROR") || !strings.Contains(log, "level=WARN") {
		t.Errorf("the log has %s", log)
	}
}

// Our own users can pay an address that is served as ours are.
func TestOurOwnClientPaysAnAddress(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{})
	alice := h.User("alice", 0, 0)
	bolt11, err := h.Wallets.Address(h.Ctx, "alice@"+h.Host, 50_000, "from afar")
	if err != nil {
		t.Fatal(err)
	}
	h.PayInvoice(bolt11)
	for range 3 {
		h.Advance(h.Newest())
	}
	h.WantState(h.Newest(), paidaction.Paid)
	h.WantBalance(ledger.UserSats(alice), 45_000)
	if got := h.said(alice); !strings.Contains(got, `"comment":"from afar"`) {
		t.Errorf("%s", got)
	}
}
