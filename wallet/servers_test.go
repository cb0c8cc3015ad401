package wallet_test

import (
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/nostr/nostrtest"
)

// server is one that speaks a wallet's protocol, as its public documents have it.
type server struct {
	*httptest.Server
	mint   *mint
	mu     sync.Mutex
	asked  []asked
	answer http.HandlerFunc // instead of the protocol's
}

// asked is an invoice that was asked for.
type asked struct {
	amount paidaction.Msat
	memo   string
	expiry int64
}

func (s *server) note(a asked) { s.mu.Lock(); defer s.mu.Unlock(); s.asked = append(s.asked, a) }

// last is the invoice that was asked for last.
func (s *server) last() asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 {
		return asked{}
	}
	return s.asked[len(s.asked)-1]
}

// count is how many were asked for.
func (s *server) count() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.asked) }

// breaks makes the server answer otherwise; nil: as it should again.
func (s *server) breaks(answer http.HandlerFunc) { s.mu.Lock(); defer s.mu.Unlock(); s.answer = answer }

func (s *server) handler(protocol http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		if answer == nil {
			answer = protocol
		}
		answer(w, r)
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// lnurlServer is a server of LUD-06, 12 and 16.
type lnurlServer struct {
	*server
	min, max, comment int
	wholeSats         bool
	capitals          bool // as in a QR code
	rounds            bool // to the nearest sat
	action            json.RawMessage
}

func newLNURL(t testing.TB, m *mint) *lnurlServer {
	s := &lnurlServer{server: &server{mint: m}, min: 1, max: 1_000_000_000, comment: 100}
	s.Server = httptest.NewServer(s.handler(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *lnurlServer) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/.well-known/lnurlp/") || r.URL.Path == "/pay" {
		reply(w, http.StatusOK, map[string]any{"tag": "payRequest", "callback": s.URL + "/callback?user=alice", "minSendable": s.min, "maxSendable": s.max,
			"metadata": `[["text/plain","sats for alice"],["text/identifier","alice@wallet.example"]]`, "commentAllowed": s.comment})
		return
	}
	msat, err := strconv.Atoi(r.URL.Query().Get("amount"))
	comment := r.URL.Query().Get("comment")
	if r.URL.Path != "/callback" || r.URL.Query().Get("user") != "alice" || err != nil || msat < s.min || msat > s.max || len(comment) > s.comment ||
		s.wholeSats && msat%1000 != 0 {
		reply(w, http.StatusOK, map[string]any{"status": "ERROR", "reason": "what was asked is wrong"})
		return
	}
	s.note(asked{paidaction.Msat(msat), comment, 0})
	if s.rounds {
		msat = (msat + 500) / 1000 * 1000
	}
	pr := s.mint.invoice(paidaction.Msat(msat), comment)
	if s.capitals {
		pr = strings.ToUpper(pr)
	}
	reply(w, http.StatusOK, map[string]any{"pr": pr, "routes": []any{}, "successAction": s.action})
}

// address is the lightning address.
func (s *lnurlServer) address() wallet.LightningAddress {
	u, _ := url.Parse(s.URL)
	return wallet.LightningAddress{Address: wallet.Secret("alice@" + u.Host)}
}

// lnbitsServer is LNbits' POST /api/v1/payments.
type lnbitsServer struct {
	*server
	old bool // before 1.0
}

const lnbitsKey = "0123456789abcdef0123456789abcdef"

func newLNbits(t testing.TB, m *mint) *lnbitsServer {
	s := &lnbitsServer{server: &server{mint: m}}
	s.Server = httptest.NewServer(s.handler(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *lnbitsServer) serve(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Out    *bool
		Amount int64
		Unit   string
		Memo   string
		Expiry int64
	}
	if r.Header.Get("X-Api-Key") != lnbitsKey {
		reply(w, http.StatusUnauthorized, map[string]any{"detail": "Invalid key: " + r.Header.Get("X-Api-Key")})
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/api/v1/payments" || json.NewDecoder(r.Body).Decode(&in) != nil ||
		in.Out == nil || *in.Out || in.Unit != "sat" || in.Amount < 1 {
		reply(w, http.StatusBadRequest, map[string]any{"detail": "bad request"})
		return
	}
	s.note(asked{paidaction.Msat(in.Amount * 1000), in.Memo, in.Expiry})
	name := "bolt11"
	if s.old {
		name = "payment_request"
	}
	reply(w, http.StatusCreated, map[string]any{"payment_hash": strings.Repeat("0", 64), name: s.mint.invoice(paidaction.Msat(in.Amount*1000), in.Memo)})
}

func (s *lnbitsServer) settings() wallet.LNbits { return wallet.LNbits{URL: s.URL, Key: lnbitsKey} }

// lndServer is the JSON that LND's gRPC gateway speaks: numbers of 64 bits are strings, errors have a status of 500 mostly.
type lndServer struct{ *server }

var lndMacaroon = hex.EncodeToString([]byte("a macaroon that may add invoices"))

func newLND(t testing.TB, m *mint) *lndServer {
	s := &lndServer{&server{mint: m}}
	s.Server = httptest.NewUnstartedServer(s.handler(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *lndServer) serve(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Memo      string `json:"memo"`
		ValueMsat string `json:"value_msat"`
		Expiry    string `json:"expiry"`
		Private   bool   `json:"private"`
	}
	failed := func(code int, message string) {
		reply(w, http.StatusInternalServerError, map[string]any{"code": code, "message": message, "details": []any{}})
	}
	if r.Header.Get("Grpc-Metadata-macaroon") != lndMacaroon {
		failed(2, "verification failed: signature mismatch after caveat verification of "+r.Header.Get("Grpc-Metadata-macaroon"))
		return
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if r.Method != http.MethodPost || r.URL.Path != "/v1/invoices" || decoder.Decode(&in) != nil || !in.Private {
		reply(w, http.StatusNotFound, map[string]any{"code": 5, "message": "Not Found", "details": []any{}})
		return
	}
	msat, errAmount := strconv.ParseInt(in.ValueMsat, 10, 64)
	expiry, errExpiry := strconv.ParseInt(in.Expiry, 10, 64)
	if errAmount != nil || errExpiry != nil {
		failed(3, "proto: syntax error")
		return
	}
	s.note(asked{paidaction.Msat(msat), in.Memo, expiry})
	reply(w, http.StatusOK, map[string]any{"r_hash": "", "payment_request": s.mint.invoice(paidaction.Msat(msat), in.Memo), "add_index": "1", "payment_addr": ""})
}

func (s *lndServer) settings() wallet.LNDREST {
	return wallet.LNDREST{URL: s.URL, Macaroon: wallet.Secret(lndMacaroon), Certificate: s.certificate()}
}

func (s *lndServer) certificate() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// newNWC is a wallet behind a relay.
func newNWC(t testing.TB, m *mint, encryption string) (*nostrtest.Wallet, *server) {
	s := &server{mint: m}
	w := nostrtest.NewWallet(t, nostrtest.NewRelay(t), nostrtest.Options{Info: "make_invoice lookup_invoice", Encryption: encryption,
		Answer: func(_ string, params json.RawMessage) string {
			var in struct {
				Amount      int64
				Description string
				Expiry      int64
			}
			if err := json.Unmarshal(params, &in); err != nil {
				t.Error(err)
			}
			s.note(asked{paidaction.Msat(in.Amount), in.Description, in.Expiry})
			return fmt.Sprintf(`{"result_type":"make_invoice","error":null,"result":{"type":"incoming","invoice":%q,"payment_hash":"00","amount":%d,"created_at":1}}`,
				m.invoice(paidaction.Msat(in.Amount), in.Description), in.Amount)
		}})
	return w, s
}
