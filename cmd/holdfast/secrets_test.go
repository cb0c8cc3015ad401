package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
)

// planted are the secrets of a service, by description, and texts that are no secrets, which show that the search
// works.
type planted map[string]string

// in lists which of them a text contains, in whatever form they may be written.
func (p planted) in(text string) (found []string) {
	text = strings.ToLower(text)
	for name, secret := range p {
		forms := []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret)}
		if raw, err := hex.DecodeString(secret); err == nil {
			forms = append(forms, base64.StdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw), fmt.Sprint(raw))
		}
		for _, form := range forms {
			if form = strings.ToLower(form); strings.Contains(text, form) {
				found = append(found, name)
				break
			}
		}
	}
	return found
}

// A service with its most verbose log, among wallets that send back everything they are sent, with a node and a
// database that go away. What opens anything is in no log, no metric, no refusal, and in the database only where it
// belongs.
func TestSecretsAreNeverSaid(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	node, setting := newNode(t)
	stranger, at := newNode(t)
	setting = strings.Replace(setting, "NODES=sim=", "NODES=thecanary=", 1) // the name of a node is no secret, and is logged
	config := node.Config()
	password := pool.Config().ConnConfig.Password
	secrets := planted{
		"the database's password": password, "the service's secret": strings.Repeat("5ec2e7aa", 8), "our node's macaroon": config.MacaroonHex,
		"a wallet's macaroon": hex.EncodeToString([]byte("macaroon of a wallet")), "an LNbits key": "lnbitskey0123456789abcdef", "a token in an address": "tokeninanaddress",
		"an NWC secret": strings.Repeat("1f", 32),
	}
	s := serve(t, settings(pool, setting, "HOLDFAST_SECRET="+secrets["the service's secret"], "HOLDFAST_LOG_LEVEL=debug"))
	s.awaitReady(http.StatusOK)
	if password == "" {
		t.Fatal("the database has no password that could be told")
	}

	var said strings.Builder // what people are told
	ask := func(key, query string, variables map[string]any) (data map[string]any) {
		t.Helper()
		body := s.graphql(bearer(key), query, variables)
		var answer struct {
			Data   map[string]any
			Errors []json.RawMessage
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, e := range answer.Errors {
			said.Write(e)
		}
		return answer.Data
	}
	text := func(data map[string]any, path ...string) string {
		t.Helper()
		var v any = data
		for _, name := range path {
			m, _ := v.(map[string]any)
			v = m[name]
		}
		got, _ := v.(string)
		if got == "" {
			t.Fatalf("no %v in %v\n%s", path, data, said.String())
		}
		return got
	}
	key := text(ask("", `mutation { signUp(name: "owner") { key } }`, nil), "signUp", "key")
	secrets["an API key"] = key

	// Wallets: one that works until it is broken, and one of each kind whose server sends back what it gets.
	const save = `mutation($s: WalletSettings!) { walletSave(label: "thecanary", settings: $s) { id log { nodes { message } } } }`
	ask(key, save, map[string]any{"s": ofNode(stranger, at)})
	secrets["the macaroon of a wallet that was saved"] = stranger.Config().MacaroonHex
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		all := fmt.Sprint(r.Header, r.URL, string(body))
		w.Header().Set("X-Echo", fmt.Sprintf("%q", all))
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "ERROR", "reason": all, "detail": all, "message": all, "pr": all, "payment_request": all})
	}))
	t.Cleanup(echo.Close)
	for _, wallet := range []map[string]any{
		{"lightningAddress": echo.URL + "/pay?token=" + secrets["a token in an address"]},
		{"lndRest": map[string]any{"url": echo.URL, "macaroon": secrets["a wallet's macaroon"]}},
		{"lndGrpc": map[string]any{"address": strings.TrimPrefix(echo.URL, "http://"), "macaroon": secrets["a wallet's macaroon"]}},
		{"lndRest": map[string]any{"url": echo.URL, "macaroon": "zz" + secrets["a wallet's macaroon"]}},
		{"lnbits": map[string]any{"url": echo.URL, "key": secrets["an LNbits key"]}},
		{"lnbits": map[string]any{"url": "https://" + secrets["an LNbits key"] + "@" + strings.TrimPrefix(echo.URL, "http://"), "key": secrets["an LNbits key"]}},
		{"nwc": "nostr+walletconnect://" + strings.Repeat("ab", 32) + "?relay=" + url.QueryEscape(strings.Replace(echo.URL, "http", "ws", 1)) + "&secret=" + secrets["an NWC secret"]},
		{"nwc": "nostr+walletconnect://broken?secret=" + secrets["an NWC secret"]},
	} {
		ask(key, save, map[string]any{"s": wallet})
	}

	// Anonymous payments: we alone have the preimage, they have the secret, and the text of the invoice contains what
	// opens it.
	const post = `mutation($t: String!) { createPost(title: $t) { id secret invoice { bolt11 } } }`
	pay := func(title string) (id, secret string) {
		t.Helper()
		made := ask("", post, map[string]any{"t": title})
		id, secret = text(made, "createPost", "id"), text(made, "createPost", "secret")
		secrets["the secret of "+title], secrets["the invoice of "+title] = secret, text(made, "createPost", "invoice", "bolt11")
		return id, secret
	}
	_, _ = pay("unpaid")
	paid, secret := pay("paid")
	if err := node.Node.PayBolt11(secrets["the invoice of paid"], simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	s.await("the payment", func() bool {
		return strings.Contains(fmt.Sprint(ask("", `query($i: ID!, $s: String) { paidAction(id: $i, secret: $s) { state } }`, map[string]any{"i": paid, "s": secret})), "PAID")
	})
	for _, hash := range preimages(t, pool) {
		secrets["preimage "+hash[:8]] = hash
	}
	ask("", `mutation($i: ID!, $s: String) { cancelInvoice(id: $i, secret: $s) { id } }`, map[string]any{"i": paid, "s": secret})
	ask("", `mutation($i: ID!, $s: String) { retryPaidAction(id: $i, secret: $s) { id } }`, map[string]any{"i": paid, "s": secret + "x"})
	ask(key+"x", `{ me { user { name } } }`, nil)
	s.graphql(bearer(key), `query { me { `+key+` } }`, nil) // who sends it as a name is told that there is no such field, and nobody else is
	s.knock(key)

	// The servers that it needs go away, one after the other.
	node.Stop()
	ask("", post, map[string]any{"t": "without a node"})
	ask(key, save, map[string]any{"s": map[string]any{"lnbits": map[string]any{"url": echo.URL, "key": secrets["an LNbits key"]}}})
	s.awaitReady(http.StatusServiceUnavailable)
	_, metrics := s.get("/metrics")
	stored := everything(t, pool)
	if _, err := pool.Exec(t.Context(), `ALTER TABLE invoice RENAME TO away; ALTER TABLE receiver_wallet RENAME TO away2; ALTER TABLE api_key RENAME TO away3`); err != nil {
		t.Fatal(err)
	}
	ask(key, `{ wallets { id } }`, nil)
	ask("", post, map[string]any{"t": "without a table"})
	ask("", `query($i: ID!, $s: String) { paidAction(id: $i, secret: $s) { state } }`, map[string]any{"i": paid, "s": secret})
	pgtest.Cut(t, pool)
	ask("", post, map[string]any{"t": "without a connection"})
	s.stop()

	for where, text := range map[string]string{"the log": s.said(), "the metrics": metrics, "a refusal": said.String()} {
		for _, name := range secrets.in(text) {
			t.Errorf("%s holds %s:\n%s", where, name, text)
		}
	}
	for _, name := range secrets.in(stored) {
		if !strings.HasPrefix(name, "preimage") && !strings.HasPrefix(name, "the invoice of") { // the database is where these belong
			t.Errorf("the database holds %s", name)
		}
	}
	// The search finds what is there.
	canary := planted{"the canary": "thecanary"}
	if len(canary.in(s.said())) == 0 || len(canary.in(metrics)) == 0 || len(canary.in(stored)) == 0 || len(secrets.in(stored)) == 0 {
		t.Error("the search does not find what is there")
	}
	if !strings.Contains(said.String(), "WALLET_") || !strings.Contains(said.String(), "INTERNAL") || !strings.Contains(s.said(), `"level":"DEBUG"`) {
		t.Errorf("not everything was provoked: %s", said.String())
	}
}

// knock opens websockets and sends nonsense that contains a key.
func (s *server) knock(key string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	for _, said := range []string{`{"type":"connection_init","payload":{"Authorization":"Bearer ` + key + `x"}}`, `{"type":"connection_init","payload":"` + key + `"}`, key,
		`{"type":"subscribe","id":"` + key + `","payload":{"query":5}}`} {
		conn, _, err := websocket.Dial(ctx, strings.Replace(s.url, "http", "ws", 1)+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		if err != nil {
			s.t.Fatal(err)
		}
		err = conn.Write(ctx, websocket.MessageText, []byte(said))
		for err == nil {
			_, _, err = conn.Read(ctx) // until it is closed
		}
		_ = conn.CloseNow()
	}
}

// preimages are those of all invoices, in hex.
func preimages(t *testing.T, pool *pgxpool.Pool) (all []string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(encode(preimage, 'hex')) FROM invoice WHERE preimage IS NOT NULL`).Scan(&all); err != nil || len(all) == 0 {
		t.Fatalf("%d preimages, error %v", len(all), err)
	}
	return all
}

// everything is the contents of the tables, as text; bytes also as they are.
func everything(t *testing.T, pool *pgxpool.Pool) (text string) {
	t.Helper()
	var query string
	err := pool.QueryRow(t.Context(), `SELECT 'SELECT concat_ws(''|'', ' || string_agg(format('(SELECT string_agg(t::text, ''|'') FROM %I AS t)', tablename), ', ') || ') ||
		(SELECT coalesce(string_agg(encode(settings, ''escape''), ''|''), '''') FROM receiver_wallet)' FROM pg_tables WHERE schemaname = 'public'`).Scan(&query)
	if err == nil {
		err = pool.QueryRow(t.Context(), query).Scan(&text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}
