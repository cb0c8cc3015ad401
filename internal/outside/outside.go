// Package outside calls servers whose addresses were given by strangers: receivers' wallets, lightning addresses. It
// never connects to an address outside the public internet, follows few redirects, reads little, and ends in time. Its
// errors contain no part of an address, a header or an answer.
package outside

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// Bounds of every call.
const (
	Timeout      = 20 * time.Second // in all, including redirects
	MaxRedirects = 2
	MaxBody      = 64 << 10 // bytes
	// maxRead is the most that one connection reads, whatever the protocol: a body, its headers, and the TLS handshake.
	maxRead    = MaxBody + 64<<10
	maxHeaders = 16 << 10
)

// Why a call failed.
var (
	ErrAddress     = errors.New("outside: the address is not one that is called")
	ErrOwn         = errors.New("outside: the address is our own")
	ErrForbidden   = errors.New("outside: the address is not of the public internet")
	ErrUnreachable = errors.New("outside: the server cannot be reached")
	ErrCertificate = errors.New("outside: the server's certificate is not trusted")
	ErrTimeout     = errors.New("outside: the server did not answer in time")
	ErrTooLarge    = errors.New("outside: the answer is too large")
	ErrRedirected  = errors.New("outside: redirected too often, or with a secret to another server")
)

// Config says what is allowed.
type Config struct {
	AllowPrivate bool           // in development: private addresses too, and without TLS
	Own          *url.URL       // our own address: never called, or an invoice that we ask of ourselves would make us ask again without end
	Resolver     *net.Resolver  // nil: the system's
	Roots        *x509.CertPool // nil: the system's
}

// Client is safe for concurrent use. It keeps no connection open.
type Client struct {
	Config
	timeout   time.Duration           // Timeout, except in tests
	permitted map[netip.AddrPort]bool // the tests' own servers, although on loopback
}

// New makes a client.
func New(c Config) *Client { return &Client{Config: c, timeout: Timeout} }

// Request is one HTTP call.
type Request struct {
	URL    string
	Header http.Header    // may hold secrets
	Body   []byte         // nil: GET, else POST
	Roots  *x509.CertPool // instead of the client's; nil: the client's
	Stays  bool           // a redirect is returned as the answer, and not followed
	// StatusOnly says that an answer is known with its status: whatever is wrong with its body does not matter, and it
	// is not returned. It is read all the same, since a server may give up what it is doing when we hang up.
	StatusOnly bool
}

// Answer is what a server said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // whole
}

// Do makes the call. A GET follows redirects to any server, but another server gets none of the request's headers,
// which are secrets. A POST follows redirects only within its own server. Do returns only errors of this package.
func (c *Client) Do(ctx context.Context, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	target, err := c.Parse(r.URL)
	if err != nil {
		return Answer{}, err
	}
	method := http.MethodGet
	if r.Body != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, ErrAddress
	}
	if r.Header != nil {
		request.Header = r.Header.Clone()
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", userAgent)
	client := c.http(r.Roots)
	if r.Stays {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, explain(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		// Nobody asked for another protocol. From here on the connection would be ours, and reading from it would not end
		// with ctx, nor with anything else but the server's will.
		return Answer{Status: response.StatusCode, Header: response.Header}, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxBody+1))
	if r.StatusOnly {
		return Answer{Status: response.StatusCode, Header: response.Header}, nil
	}
	// A server that hears us hang up may still end its answer properly, in the middle.
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return Answer{}, explain(ctx, err)
	}
	if len(body) > MaxBody {
		return Answer{}, ErrTooLarge
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

const userAgent = "Holdfast"

// Parse parses a URL, and refuses one that must not be called: it must be https or wss, with a host and without a user.
func (c *Client) Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, ErrAddress // the error of url.Parse quotes the URL
	}
	return u, c.check(u)
}

func (c *Client) check(u *url.URL) error {
	plain := u.Scheme == "http" || u.Scheme == "ws"
	secure := u.Scheme == "https" || u.Scheme == "wss"
	if u.Hostname() == "" || u.User != nil || !secure && !(plain && c.AllowPrivate) {
		return ErrAddress
	}
	if c.Own != nil && origin(u) == origin(c.Own) {
		return ErrOwn
	}
	return nil
}

// origin is the server that a URL leads to, in canonical form.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" || u.Scheme == "ws" {
			port = "80"
		}
	}
	return place(net.JoinHostPort(u.Hostname(), port))
}

// place is host:port in canonical form.
func place(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(host), "."), strings.TrimLeft(port, "0"))
}

// http is a client for one call. It ignores proxies of the environment: a proxy would connect for us, unguarded.
func (c *Client) http(roots *x509.CertPool) *http.Client {
	if roots == nil {
		roots = c.Roots
	}
	return &http.Client{CheckRedirect: c.redirect, Transport: &http.Transport{
		DialContext:            func(ctx context.Context, _, address string) (net.Conn, error) { return c.connect(ctx, address) },
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    c.timeout,
		MaxResponseHeaderBytes: maxHeaders,
		DisableKeepAlives:      true, // each call resolves its address anew
		DisableCompression:     true,
	}}
}

// redirect decides whether a redirect is followed. When the server changes, Go removes only a few headers that it
// knows; the credentials of a wallet are in others.
func (c *Client) redirect(r *http.Request, via []*http.Request) error {
	if err := c.check(r.URL); err != nil {
		return err
	}
	first := via[0]
	elsewhere := r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host
	if len(via) > MaxRedirects || elsewhere && first.Method != http.MethodGet {
		return ErrRedirected
	}
	r.Header.Del("Referer") // the previous address may hold a secret
	if elsewhere {
		for name := range r.Header {
			if name != "Accept" && name != "User-Agent" && !websocketHeader(name) {
				r.Header.Del(name)
			}
		}
	}
	return nil
}

// Dial connects to host:port, for protocols other than HTTP. What the connection may read is bounded.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := c.connect(ctx, address)
	if err != nil {
		return nil, explain(ctx, err)
	}
	return conn, nil
}

func (c *Client) connect(ctx context.Context, address string) (net.Conn, error) {
	// The name compared here is the one that is looked up: net/http has already converted other letters, for example
	// full-width ones, to ASCII.
	if c.Own != nil && place(address) == origin(c.Own) {
		return nil, ErrOwn
	}
	dialer := net.Dialer{Timeout: c.timeout, Resolver: c.Resolver, Control: c.guard}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	bounded := &boundedConn{Conn: conn}
	bounded.left.Store(maxRead)
	return bounded, nil
}

// boundedConn reads no more than maxRead bytes.
type boundedConn struct {
	net.Conn
	left atomic.Int64
}

func (c *boundedConn) Read(p []byte) (int, error) {
	left := c.left.Load()
	if left <= 0 {
		return 0, ErrTooLarge
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), left)])
	c.left.Add(-int64(n))
	return n, err
}

// explain removes from an error everything that comes from the server or the address.
func explain(ctx context.Context, err error) error {
	for _, own := range []error{ErrAddress, ErrOwn, ErrForbidden, ErrTooLarge, ErrRedirected} {
		if errors.Is(err, own) {
			return own
		}
	}
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return ErrTooLarge
	}
	var untrusted *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &untrusted):
		return ErrCertificate
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled // the caller gave up
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return ErrTimeout
	}
	return ErrUnreachable
}
