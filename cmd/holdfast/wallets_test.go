package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
)

// saveWallet saves a wallet through the API, and returns the answer.
func (s *server) saveWallet(key string, settings map[string]any) string {
	s.t.Helper()
	return s.graphql(bearer(key), `mutation($s: WalletSettings!) { walletSave(settings: $s) { kind log { nodes { code } } } }`, map[string]any{"s": settings})
}

// ofNode are the settings of a wallet that is this node, at the address in the setting that newNode returned.
func ofNode(node *lndtest.Server, setting string) map[string]any {
	address, _, _ := strings.Cut(strings.TrimPrefix(setting, "HOLDFAST_NODES=sim="), ";")
	config := node.Config()
	return map[string]any{"lndGrpc": map[string]any{"address": address, "macaroon": config.MacaroonHex, "certificate": string(config.TLSCertPEM)}}
}

// The whole way: a receiver's own LND issues a real invoice over gRPC, and our node reads it.
func TestAWalletIsSaved(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, ours := newNode(t)
	stranger, at := newNode(t)
	s := serve(t, settings(pool, ours))
	s.awaitReady(http.StatusOK)
	key := keyOf(t, settings(pool), "receiver")
	if answer := s.saveWallet(key, ofNode(stranger, at)); !strings.Contains(answer, `"kind":"LND_GRPC"`) || !strings.Contains(answer, "INVOICE_ISSUED") {
		t.Errorf("saving a stranger's LND: %s", answer)
	}
	stranger.Deny("/lnrpc.Lightning/AddInvoice")
	if answer := s.saveWallet(key, ofNode(stranger, at)); !strings.Contains(answer, "WALLET_KEY_REFUSED") {
		t.Errorf("saving one whose macaroon does not suffice: %s", answer)
	}
	other := ofNode(stranger, at)
	delete(other["lndGrpc"].(map[string]any), "certificate")
	if answer := s.saveWallet(key, other); !strings.Contains(answer, "WALLET_CERTIFICATE") {
		t.Errorf("saving one whose certificate nobody vouches for: %s", answer)
	}
	mainnet := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"bolt11": "lnbc2500u1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpuaztrnwngzn3kdzw5hydlzf03qdgm2hdq27cqv3agm2awhz5se903vruatfhq77w3ls4evs3ch9zw97j25emudupq63nyw24cg27h2rspfj9srp"}`))
	}))
	t.Cleanup(mainnet.Close)
	if answer := s.saveWallet(key, map[string]any{"lnbits": map[string]any{"url": mainnet.URL, "key": "12345678"}}); !strings.Contains(answer, "WALLET_BAD_INVOICE") {
		t.Errorf("saving a wallet of another network: %s", answer)
	}
}

// A node that only receives needs no permission to read an invoice, and may be named first: the one that sends reads it.
func TestANodeThatMayReadNoInvoiceIsPassedOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	issuer, first := newNode(t)
	_, second := newNode(t)
	stranger, at := newNode(t)
	s := serve(t, settings(pool, strings.Replace(first, "=sim=", "=issuer=", 1)+";send=no,"+strings.TrimPrefix(second, "HOLDFAST_NODES=")))
	s.awaitReady(http.StatusOK)
	issuer.Deny("/lnrpc.Lightning/DecodePayReq")
	if answer := s.saveWallet(keyOf(t, settings(pool), "receiver"), ofNode(stranger, at)); !strings.Contains(answer, "INVOICE_ISSUED") {
		t.Errorf("%s", answer)
	}
}

// Without a node nobody can check a wallet's invoice; and outside development nothing private is called. No wallet is
// the service itself.
func TestAWalletIsNotSaved(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	stranger, at := newNode(t)
	secret := "HOLDFAST_SECRET=" + strings.Repeat("ab", 32)
	key := keyOf(t, settings(pool), "receiver")
	if answer := serve(t, settings(pool, secret)).saveWallet(key, ofNode(stranger, at)); !strings.Contains(answer, "LIGHTNING_UNAVAILABLE") {
		t.Errorf("without a node: %s", answer)
	}
	_, ours := newNode(t)
	production := serve(t, settings(pool, ours, "HOLDFAST_DEVELOPMENT=0", secret, "HOLDFAST_PUBLIC_URL=https://holdfast.example",
		"HOLDFAST_DATABASE_URL="+pool.Config().ConnString()+"&synchronous_commit=on"))
	if answer := production.saveWallet(key, ofNode(stranger, at)); !strings.Contains(answer, "WALLET_ADDRESS_FORBIDDEN") {
		t.Errorf("on loopback, in production: %s", answer)
	}
	// An invoice that we ask of ourselves would make us ask again without end.
	if answer := production.saveWallet(key, map[string]any{"lightningAddress": "alice@holdfast.example"}); !strings.Contains(answer, "leads back to this service") {
		t.Errorf("a wallet that is this service: %s", answer)
	}
}
