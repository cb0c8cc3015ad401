package graph

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// httpError is a refusal made before GraphQL begins.
type httpError struct {
	status  int
	refusal *paidaction.Error
}

func refused(status int, code paidaction.Code, message string) error {
	return &httpError{status, paidaction.Errorf(code, "%s", message)}
}

func (e *httpError) Error() string { return e.refusal.Error() }
func (e *httpError) Unwrap() error { return e.refusal }

// refuse answers a request that GraphQL does not see.
func (d *door) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var h *httpError
	if errors.As(err, &h) {
		status = h.status
	}
	w.Header().Set("Content-Type", "application/json")
	retryAfter(w.Header(), err)
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(graphql.Response{Errors: gqlerror.List{d.present(r.Context(), err)}})
}

// readBody reads the request up to the limit, and refuses what is not a GraphQL request. There are no mutations by GET:
// a link must not be able to pay.
func (d *door) readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return refused(http.StatusMethodNotAllowed, paidaction.CodeInvalidInput, "Send GraphQL by POST, or open a websocket.")
	}
	// A page of another site cannot send this type without a preflight request: so no site can act from its visitors'
	// addresses.
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return refused(http.StatusUnsupportedMediaType, paidaction.CodeInvalidInput, "Send GraphQL as application/json.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, d.Limits.Body))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return refused(http.StatusRequestEntityTooLarge, codeBodyLimit, "The request is too large.")
	}
	var request graphql.RawParams // gqlgen quotes what it cannot decode, in its answer and in its own log
	if err != nil || json.Unmarshal(body, &request) != nil {
		return refused(http.StatusBadRequest, paidaction.CodeInvalidInput,
			`The request is not GraphQL in JSON: {"query": "…", "variables": {…}}.`)
	}
	r.Body = &forgetful{bytes.NewReader(body)}
	return nil
}

// forgetful is a body that is not kept in memory once it was read: server-sent events can go on for long.
type forgetful struct{ *bytes.Reader }

// Read implements io.Reader.
func (f *forgetful) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err != nil {
		f.Reader = bytes.NewReader(nil)
	}
	return n, err
}

// Close implements io.Closer.
func (*forgetful) Close() error { return nil }

const subprotocol = "graphql-transport-ws"

// checkUpgrade lets in websockets that speak our one protocol: from pages of our own origin or of an allowed one, and
// from programs, which have no origin.
func (d *door) checkUpgrade(r *http.Request) error {
	if !isHandshake(r) {
		return refused(http.StatusBadRequest, paidaction.CodeInvalidInput,
			"This does not open a websocket. A proxy in front of this service has to speak HTTP/1.1 with it, and pass on Upgrade and Connection.")
	}
	if !lists(r.Header, "Sec-WebSocket-Protocol", subprotocol) {
		return refused(http.StatusBadRequest, paidaction.CodeInvalidInput, "Open a websocket with the protocol "+subprotocol+".")
	}
	r.Header.Set("Sec-WebSocket-Protocol", subprotocol)
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(d.Origins, origin) {
		return nil
	}
	if from, err := url.Parse(origin); err == nil && from.Host != "" && strings.EqualFold(from.Host, r.Host) {
		return nil
	}
	return refused(http.StatusForbidden, paidaction.CodeForbidden, "Pages from other sites may not open a websocket here.")
}

// isHandshake reports whether a request opens a websocket. What does not would get two answers: the library's, and
// gqlgen's without a code.
func isHandshake(r *http.Request) bool {
	keys := r.Header.Values("Sec-WebSocket-Key")
	if r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || !lists(r.Header, "Connection", "Upgrade") ||
		r.Header.Get("Sec-WebSocket-Version") != "13" || len(keys) != 1 {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0]))
	return err == nil && len(key) == 16
}

// lists reports whether a header that is a list has this value.
func lists(h http.Header, name, value string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(h.Values(name), ","), ","), func(v string) bool {
		return strings.EqualFold(strings.TrimSpace(v), value)
	})
}

// clientAddress is where a request comes from. Trusted proxies are believed, from the nearest outwards, up to the first
// address that is not one of them.
func clientAddress(r *http.Request, trusted []netip.Prefix) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	client := at.Addr().Unmap()
	isProxy := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil || !isProxy(client) {
			break
		}
		client = before.Unmap()
	}
	if client.Is6() {
		// Whoever has one such address has the whole /64 network.
		network, err := client.Prefix(64)
		if err == nil {
			return network.String()
		}
	}
	return client.String()
}
