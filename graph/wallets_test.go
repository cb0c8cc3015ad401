package graph_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// lnbits is a server that speaks LNbits' protocol, in front of a simulated node.
type lnbits struct {
	*httptest.Server
	broken atomic.Bool
}

const lnbitsKey = "0123456789abcdef-a-secret"

func newLNbits(t testing.TB) *lnbits {
	t.Helper()
	s, node := &lnbits{}, simnode.New("stranger", time.Now)
	var issued atomic.Int64
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Amount int64 }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("X-Api-Key") != lnbitsKey || s.broken.Load() {
			http.Error(w, "no: "+r.Header.Get("X-Api-Key"), http.StatusUnauthorized)
			return
		}
		preimage := paidaction.Preimage{1, byte(issued.Add(1))}
		bolt11, err := node.OpenInvoice(r.Context(), paidaction.InvoiceRequest{Preimage: preimage, Hash: preimage.Hash(),
			Amount: paidaction.Msat(in.Amount * 1000), Expiry: time.Hour, CLTVDelta: 80})
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"bolt11": bolt11})
	}))
	t.Cleanup(s.Close)
	return s
}

const walletSave = `mutation($id: ID, $url: String!, $label: String!) {
	walletSave(id: $id, label: $label, settings: {lnbits: {url: $url, key: "` + lnbitsKey + `"}}) { id kind label priority enabled } }`

// saveWallet saves a wallet and returns its id.
func (a *api) saveWallet(owner person, url, label string) string {
	a.Helper()
	return a.Want(owner, walletSave, vars{"url": url, "label": label}).text("walletSave", "id")
}

func TestWallets(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 0)
	s := newLNbits(t)
	r := a.Want(owner, walletSave, vars{"url": s.URL, "label": "first"})
	if got := r.at("walletSave"); fmt.Sprint(got) != fmt.Sprint(map[string]any{"id": r.text("walletSave", "id"), "kind": "LNBITS", "label": "first", "priority": 1, "enabled": true}) {
		t.Errorf("saved as %v", got)
	}
	first, second := r.text("walletSave", "id"), a.saveWallet(owner, s.URL, "second")

	order := func(r answer, field string) string {
		t.Helper()
		var labels []string
		nodes, _ := r.at(field).([]any)
		for _, n := range nodes {
			labels = append(labels, fmt.Sprint(n.(map[string]any)["label"]))
		}
		return strings.Join(labels, " ")
	}
	if got := order(a.Want(owner, `{ wallets { label } }`, nil), "wallets"); got != "first second" {
		t.Errorf("the order is %s", got)
	}
	r = a.Want(owner, `mutation($ids: [ID!]!) { walletsReorder(ids: $ids) { label } }`, vars{"ids": []string{second, first}})
	if got := order(r, "walletsReorder"); got != "second first" {
		t.Errorf("reordered to %s", got)
	}
	if r := a.Want(owner, `mutation($id: ID!) { walletEnable(id: $id, enabled: false) { enabled } }`, vars{"id": first}); r.at("walletEnable", "enabled") != false {
		t.Errorf("disabled: %s", r.Raw)
	}
	if r := a.Want(owner, walletSave, vars{"id": first, "url": s.URL, "label": "renamed"}); r.text("walletSave", "id") != first || r.at("walletSave", "enabled") != false {
		t.Errorf("saved again: %s", r.Raw)
	}
	s.broken.Store(true)
	r = a.Do(owner, walletSave, vars{"id": first, "url": s.URL, "label": "broken"})
	if r.code() != "WALLET_KEY_REFUSED" || strings.Contains(r.Raw, lnbitsKey) {
		t.Errorf("a wallet that fails: %s", r.Raw)
	}
	r = a.Want(owner, `mutation($id: ID!) { walletRemove(id: $id) { label } }`, vars{"id": second})
	if got := order(r, "walletRemove"); got != "renamed" {
		t.Errorf("left is %s", got)
	}
	if strings.Contains(a.Log.String(), lnbitsKey) {
		t.Errorf("the key is in the log: %s", a.Log)
	}
}

// The log comes in pages; the logs of several wallets need only one query.
func TestWalletLogs(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 0)
	s := newLNbits(t)
	id := a.saveWallet(owner, s.URL, "")
	for range 3 {
		a.Want(owner, walletSave, vars{"id": id, "url": s.URL, "label": ""})
	}
	a.saveWallet(owner, s.URL, "")
	const page = `query($n: Int!, $after: ID) { wallets { log(first: $n, after: $after) { nodes { id ok code message ms at } next } } }`
	r := a.Want(owner, page, vars{"n": 3})
	var logs struct {
		Wallets []struct {
			Log struct {
				Nodes []struct {
					ID, Code, Message string
					Ok                bool
				}
				Next string
			}
		}
	}
	read := func(r answer) {
		t.Helper()
		raw, err := json.Marshal(r.Data)
		if err == nil {
			err = json.Unmarshal(raw, &logs)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read(r)
	if len(logs.Wallets) != 2 || len(logs.Wallets[0].Log.Nodes) != 3 || len(logs.Wallets[1].Log.Nodes) != 1 || logs.Wallets[1].Log.Next != "" {
		t.Fatalf("the logs are %s", r.Raw)
	}
	if e := logs.Wallets[0].Log.Nodes[0]; !e.Ok || e.Code != "INVOICE_ISSUED" || !strings.HasSuffix(e.Message, ".") {
		t.Errorf("an entry is %+v", e)
	}
	next := logs.Wallets[0].Log.Next
	logs.Wallets = nil
	read(a.Want(owner, page, vars{"n": 3, "after": next}))
	if len(logs.Wallets[0].Log.Nodes) != 1 || logs.Wallets[0].Log.Next != "" || number(t, logs.Wallets[0].Log.Nodes[0].ID) >= number(t, next) {
		t.Errorf("the next page is %+v", logs.Wallets[0].Log)
	}
	for _, n := range []int{0, -1, 101} {
		if r := a.Do(owner, page, vars{"n": n}); r.code() != "INVALID_INPUT" {
			t.Errorf("%d entries: %s", n, r.Raw)
		}
	}
}

// Wallets are private: others neither see nor change them.
func TestWalletsAreTheirOwners(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner, other := a.Person("owner", 0, 0), a.Person("other", 0, 0)
	s := newLNbits(t)
	id := a.saveWallet(owner, s.URL, "mine")
	operations := map[string]vars{
		walletSave: {"id": id, "url": s.URL, "label": ""},
		`mutation($id: ID!) { walletEnable(id: $id, enabled: false) { id } }`:         {"id": id},
		`mutation($id: ID!) { walletRemove(id: $id) { id } }`:                         {"id": id},
		`mutation($id: ID!) { walletsReorder(ids: [$id]) { id } }`:                    {"id": id},
		`{ wallets { id label log { nodes { message } } } }`:                          nil,
		`mutation { walletSave(settings: {lightningAddress: "a@b.example"}) { id } }`: nil,
	}
	for query, v := range operations {
		if r := a.Do(nobody, query, v); r.code() != "UNAUTHENTICATED" {
			t.Errorf("%s by nobody: %s", query, r.Raw)
		}
		if v == nil {
			continue
		}
		if r := a.Do(other, query, v); r.code() != "NOT_FOUND" && r.code() != "INVALID_INPUT" {
			t.Errorf("%s by another: %s", query, r.Raw)
		}
	}
	if r := a.Want(other, `{ wallets { id } }`, nil); strings.Contains(r.Raw, `"id"`) {
		t.Errorf("another sees %s", r.Raw)
	}
	if r := a.Want(owner, `{ wallets { id enabled label } }`, nil); !strings.Contains(r.Raw, `"mine"`) || !strings.Contains(r.Raw, `"enabled":true`) {
		t.Errorf("the owner sees %s", r.Raw)
	}
}

func TestWalletSettingsAreOfOneKind(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 0)
	for _, settings := range []string{``, `lightningAddress: "a@b.example", nwc: "x"`, `lnbits: {url: "https://a.example", key: "12345678"}, lndRest: {url: "https://a.example", macaroon: "00"}`,
		`lightningAddress: ""`, `nwc: ""`, `lndGrpc: {address: "a:1", macaroon: "00"}`, `lndRest: {url: "", macaroon: ""}`, `lnbits: {url: "", key: ""}`} {
		if r := a.Do(owner, `mutation { walletSave(settings: {`+settings+`}) { id } }`, nil); r.code() != "INVALID_INPUT" {
			t.Errorf("%s: %s", settings, r.Raw)
		}
	}
}
