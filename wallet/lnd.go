package wallet

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// LNDREST is an LND that is reached by REST.
type LNDREST struct {
	URL         string `json:"url"`
	Macaroon    Secret `json:"macaroon"`              // in hex; LND's invoice.macaroon suffices
	Certificate string `json:"certificate,omitempty"` // PEM; empty: a publicly trusted certificate
}

// LNDGRPC is an LND that is reached by gRPC.
type LNDGRPC struct {
	Address     string `json:"address"` // host:port
	Macaroon    Secret `json:"macaroon"`
	Certificate string `json:"certificate,omitempty"`
}

// Kind is LND_REST.
func (LNDREST) Kind() Kind { return KindLNDREST }

// Kind is LND_GRPC.
func (LNDGRPC) Kind() Kind { return KindLNDGRPC }

func (s LNDREST) tidied(w *Wallets) (Settings, error) {
	var err error
	if s.URL, err = w.base(s.URL); err != nil {
		return nil, err
	}
	s.Macaroon, s.Certificate, err = tidiedNode(s.Macaroon, s.Certificate)
	return s, err
}

func (s LNDGRPC) tidied(w *Wallets) (Settings, error) {
	if w.AddInvoice == nil {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "This service reaches LND over REST: give its REST address.")
	}
	s.Address = strings.TrimSpace(s.Address)
	if host, port, err := net.SplitHostPort(s.Address); err != nil || host == "" || port == "" || strings.ContainsAny(s.Address, "/@ ") {
		return nil, paidaction.Errorf(paidaction.CodeInvalidInput, "LND's gRPC address is a host and a port, such as node.example:10009.")
	}
	var err error
	s.Macaroon, s.Certificate, err = tidiedNode(s.Macaroon, s.Certificate)
	return s, err
}

func tidiedNode(macaroon Secret, certificate string) (Secret, string, error) {
	macaroon, certificate = Secret(strings.TrimSpace(string(macaroon))), strings.TrimSpace(certificate)
	if raw, err := hex.DecodeString(string(macaroon)); err != nil || len(raw) == 0 || len(raw) > 4096 {
		return "", "", paidaction.Errorf(paidaction.CodeInvalidInput, "The macaroon must be in hex, as from: xxd -p -c 1000 invoice.macaroon.")
	}
	if certificate != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(certificate)) {
		return "", "", paidaction.Errorf(paidaction.CodeInvalidInput, "The certificate must be in PEM: the text of LND's tls.cert.")
	}
	return macaroon, certificate, nil
}

// base checks the base address of a server.
func (w *Wallets) base(text string) (string, error) {
	u, err := w.Outside.Parse(strings.TrimSpace(text))
	if errors.Is(err, outside.ErrOwn) {
		return "", errOwn
	}
	if err != nil || u.RawQuery != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", paidaction.Errorf(paidaction.CodeInvalidInput, "The address of the wallet's server must begin with https:// and contain neither a user name nor a query.")
	}
	return strings.TrimRight((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/"), nil
}

// issue adds an invoice that includes private channels: a node with no others could not be paid otherwise.
func (s LNDREST) issue(ctx context.Context, w *Wallets, r Request) (invoice, error) {
	var added struct {
		PaymentRequest string `json:"payment_request"`
	}
	var roots *x509.CertPool
	if s.Certificate != "" {
		roots = x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(s.Certificate))
	}
	err := w.post(ctx, s.URL+"/v1/invoices", "Grpc-Metadata-macaroon", s.Macaroon, roots, map[string]any{
		"memo": r.Memo, "value_msat": r.Amount.String(), "expiry": strconv.FormatInt(int64(r.Expiry.Seconds()), 10), "private": true,
	}, &added)
	return invoice{added.PaymentRequest, r.Amount}, err
}

func (s LNDGRPC) issue(ctx context.Context, w *Wallets, r Request) (invoice, error) {
	if w.AddInvoice == nil {
		return invoice{}, errDeclined
	}
	var refused atomic.Pointer[error] // gRPC keeps only the text of an error
	bolt11, err := w.AddInvoice(ctx, s, r, func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := w.Outside.Dial(ctx, address)
		if errors.Is(err, outside.ErrForbidden) || errors.Is(err, outside.ErrOwn) {
			refused.Store(&err)
		}
		return conn, err
	})
	if why := refused.Load(); err != nil && why != nil {
		err = *why
	}
	return invoice{bolt11, r.Amount}, err
}

// post sends JSON with a secret and reads JSON.
func (w *Wallets) post(ctx context.Context, target, header string, key Secret, roots *x509.CertPool, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := w.Outside.Do(ctx, outside.Request{URL: target, Body: text, Roots: roots,
		Header: http.Header{"Content-Type": {"application/json"}, header: {string(key)}}})
	if err != nil {
		return err
	}
	if err := ofStatus(answer.Status); err != nil {
		return err
	}
	if json.Unmarshal(answer.Body, into) != nil {
		return errBadAnswer // the error of encoding/json may quote the answer
	}
	return nil
}
