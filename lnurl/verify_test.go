package lnurl_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/lnurl"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A verify URL is good only for the invoice that it came with. The hash of a payment alone opens nothing.
func TestVerifyKnowsItsOwnAlone(t *testing.T) {
	t.Parallel()
	h := serve(t, graph.Rates{})
	alice := h.User("alice", 0, 0)
	a := h.Order("alice", url.Values{"amount": {"1000"}})
	parts := strings.Split(a.Verify, "/")
	hash, proof := parts[len(parts)-2], parts[len(parts)-1]
	elsewhere := h.Pay(0, community.KindReceive, community.ReceiveArgs{User: alice, Msat: 1000}, paidaction.Pessimistic).Invoice.Hash.String()
	for name, path := range map[string]string{
		"another's hash": elsewhere + "/" + proof, "no proof": hash + "/" + strings.Repeat("0", len(proof)), "half a proof": hash + "/" + proof[:len(proof)/2],
		"capitals": strings.ToUpper(hash) + "/" + proof, "more hash": hash + "00/" + proof, "nonsense": "x/y", "no hex": strings.Repeat("z", 64) + "/" + proof,
	} {
		if v := h.Get(h.URL + "/lnurlp/verify/" + path); v.HTTP != http.StatusNotFound || v.Status != "ERROR" || v.Settled != nil || v.Bolt11 != "" {
			t.Errorf("%s: %d %s", name, v.HTTP, v.Raw)
		}
	}
	if v := h.Get(h.URL + "/lnurlp/verify/" + hash); v.HTTP != http.StatusNotFound {
		t.Errorf("the hash alone: %d %s", v.HTTP, v.Raw)
	}
}

// Each process of the service knows the verify URLs of the others, and nobody without its secret can make one: not from
// the hash, which everybody knows who forwards the payment.
func TestAVerifyURLIsMadeWithTheSecret(t *testing.T) {
	t.Parallel()
	answers := map[string]http.Handler{}
	h := serve(t, graph.Rates{}, func(c *lnurl.Config) {
		for what, secret := range map[string][]byte{"another process": c.Secret, "another service": bytes.Repeat([]byte{8}, 32)} {
			other := *c
			other.Secret = secret
			var err error
			if answers[what], err = lnurl.NewHandler(other); err != nil {
				t.Fatal(err)
			}
		}
		short := *c
		short.Secret = c.Secret[:31]
		if _, err := lnurl.NewHandler(short); err == nil {
			t.Error("a secret of 31 bytes was taken")
		}
	})
	h.User("alice", 0, 0)
	a := h.Order("alice", url.Values{"amount": {"1000"}})
	for what, status := range map[string]int{"another process": http.StatusOK, "another service": http.StatusNotFound} {
		said := httptest.NewRecorder()
		answers[what].ServeHTTP(said, httptest.NewRequestWithContext(h.Ctx, http.MethodGet, a.Verify, nil))
		if said.Code != status {
			t.Errorf("%s: %d %s", what, said.Code, said.Body)
		}
	}
}
