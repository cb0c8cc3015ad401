// Package lndtest is an LND server for tests and benchmarks: the gRPC services that package lightning uses, over TLS
// and with macaroons, in front of a simulated node, in memory or on a port. It answers with LND's codes and texts
// (0.21), which tests the client's reading of them. The node's faults (calls that fail, streams that drop, repeat, wait
// and reorder) pass through.
package lndtest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"gopkg.in/macaroon.v2"

	"github.com/lightningnetwork/lnd/invoices"
	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/chainrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"github.com/lightningnetwork/lnd/lnrpc/verrpc"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Server is a fake LND. It is safe for concurrent use.
type Server struct {
	Node *simnode.Node

	t        testing.TB // nil if Listen made it
	address  string     // host and port; empty: in memory
	rootKey  []byte
	macaroon []byte

	mu        sync.Mutex
	listener  *bufconn.Listener // in memory; nil while stopped
	grpc      *grpc.Server
	version   string
	denied    []string
	hanging   []string
	starting  bool
	graphless bool // not synced to the graph
	chainless bool // its chain backend is away
	keysend   bool // it accepts payments that nobody has asked for
	answersAs string
	payments  map[paidaction.Hash]*payment
	routes    map[paidaction.Hash]*lnrpc.Payment
	routesTo  map[string]*lnrpc.Payment           // by public key
	breaksOff bool                                // the stream of a probe ends after its first update
	back      chan struct{}                       // closed when the probes that are out come back
	decoded   map[paidaction.Hash]paidaction.Hash // hash by the invoice's payment secret
	probes    []*routerrpc.SendPaymentRequest
	graph     map[string]bool // known nodes, by public key
	peer      *simnode.Node   // the node that unscripted payments reach
	local     paidaction.Msat // in channels
	unasked   map[paidaction.Hash]unasked
	mute      *mute                   // nil unless it is silent about payments
	bulk      int                     // bytes that come beside each invoice, and each payment in a list
	bulks     map[paidaction.Hash]int // the same for single invoices
	clock     func() time.Time
}

// New starts a server in memory in front of node, which writes real bolt11 for regtest from then on. The server stops
// with the test.
func New(t testing.TB, node *simnode.Node) *Server {
	t.Helper()
	s, err := newServer(node)
	if err != nil {
		t.Fatal(err)
	}
	s.t = t
	s.Restart()
	t.Cleanup(s.Stop)
	return s
}

// Listen starts a server like New, but for other programs, on a free port of this machine, until Stop.
func Listen(node *simnode.Node) (*Server, error) {
	s, err := newServer(node)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	s.address = net.JoinHostPort("localhost", port)
	s.serve(listener)
	return s, nil
}

func newServer(node *simnode.Node) (*Server, error) {
	s := &Server{
		Node: node, rootKey: []byte("root key of " + node.Name()), version: "0.21.3-beta commit=lndtest",
		payments: make(map[paidaction.Hash]*payment), routes: make(map[paidaction.Hash]*lnrpc.Payment), routesTo: make(map[string]*lnrpc.Payment), clock: time.Now,
		back: make(chan struct{}), unasked: make(map[paidaction.Hash]unasked), decoded: make(map[paidaction.Hash]paidaction.Hash), graph: make(map[string]bool), bulks: make(map[paidaction.Hash]int),
	}
	mac, err := macaroon.New(s.rootKey, []byte("0"), "lnd", macaroon.LatestVersion)
	if err != nil {
		return nil, err
	}
	if s.macaroon, err = mac.MarshalBinary(); err != nil {
		return nil, err
	}
	node.EncodeWith(encoder(node.Name()))
	return s, nil
}

// Config is how to reach the server.
func (s *Server) Config() lightning.Config {
	c := lightning.Config{
		Name: s.Node.Name(), Address: s.address, Network: "regtest", Sends: true,
		TLSCertPEM: certificate().pem, MacaroonHex: hex.EncodeToString(s.macaroon),
	}
	if c.Address == "" {
		c.Address, c.Dialer = "localhost", s.dial
	}
	return c
}

// Client is a client of a test's server; it closes when the test ends.
func (s *Server) Client() *lightning.Client {
	s.t.Helper()
	return s.Dial(s.Config())
}

// Dial is Client with other settings.
func (s *Server) Dial(cfg lightning.Config) *lightning.Client {
	s.t.Helper()
	c, err := lightning.Dial(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return c
}

// Stop ends the server process: connections break, streams end, new connections are refused. The node behind it lives
// on.
func (s *Server) Stop() {
	s.mu.Lock()
	server := s.grpc
	s.listener, s.grpc = nil, nil
	s.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Restart starts a test's server again after Stop.
func (s *Server) Restart() {
	listener := bufconn.Listen(1 << 20)
	s.set(func() { s.listener = listener })
	s.serve(listener)
}

func (s *Server) serve(listener net.Listener) {
	server := grpc.NewServer(
		grpc.Creds(credentials.NewServerTLSFromCert(&certificate().pair)),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := s.admit(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			if s.hangs(info.FullMethod) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := s.admit(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, stream)
		}),
		grpc.WaitForHandlers(true),
	)
	lnrpc.RegisterLightningServer(server, &mainServer{Server: s})
	invoicesrpc.RegisterInvoicesServer(server, &invoicesServer{Server: s})
	routerrpc.RegisterRouterServer(server, &routerServer{Server: s})
	chainrpc.RegisterChainNotifierServer(server, &chainServer{Server: s})
	verrpc.RegisterVersionerServer(server, &versionServer{Server: s})
	s.set(func() { s.grpc = server })
	// Serve ends with Stop, which waits until Serve has closed everything.
	go func() { _ = server.Serve(listener) }()
}

// SetVersion changes the version in GetInfo, and whether macaroons are checked as before 0.20.
func (s *Server) SetVersion(version string) { s.set(func() { s.version = version }) }

// SetStarting makes every call fail as in an LND that is starting.
func (s *Server) SetStarting(starting bool) { s.set(func() { s.starting = starting }) }

// SetClock changes the server's clock, by which macaroons and the invoices that it is to pay expire.
func (s *Server) SetClock(clock func() time.Time) { s.set(func() { s.clock = clock }) }

// SetLocalBalance sets what the node can send.
func (s *Server) SetLocalBalance(m paidaction.Msat) { s.set(func() { s.local = m }) }

// Deny makes the macaroon lack the permission for these methods ("/lnrpc.Lightning/AddInvoice").
func (s *Server) Deny(methods ...string) { s.set(func() { s.denied = methods }) }

// Hang leaves these calls without an answer; "/lnrpc.Lightning/GetInfo" is one.
func (s *Server) Hang(methods ...string) { s.set(func() { s.hanging = methods }) }

func (s *Server) hangs(method string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.hanging, method)
}

// SetChainless makes the node answer as LND does while its chain backend is away.
func (s *Server) SetChainless(chainless bool) { s.set(func() { s.chainless = chainless }) }

// AnswerAs makes the node say that it is the one of this name.
func (s *Server) AnswerAs(name string) { s.set(func() { s.answersAs = name }) }

// SetKeysend sets whether the node announces that it accepts payments that nobody has asked for.
func (s *Server) SetKeysend(takes bool) { s.set(func() { s.keysend = takes }) }

// unasked is how a payment came that nobody had asked for; LND makes an invoice of each.
type unasked int

const (
	byAMP unasked = iota + 1
	byKeysend
)

// ShowAsAMP makes the node report an invoice as LND reports a spontaneous AMP payment: without a hash.
func (s *Server) ShowAsAMP(h paidaction.Hash) { s.set(func() { s.unasked[h] = byAMP }) }

// ShowAsKeysend makes the node report an invoice as LND reports a keysend payment: with the hash that its payer chose.
func (s *Server) ShowAsKeysend(h paidaction.Hash) { s.set(func() { s.unasked[h] = byKeysend }) }

// SetGraph sets whether the node has synced to the graph of channels; at first it has.
func (s *Server) SetGraph(synced bool) { s.set(func() { s.graphless = !synced }) }

func (s *Server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *Server) dial(ctx context.Context, _ string) (net.Conn, error) {
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	if listener == nil {
		return nil, errors.New("connection refused")
	}
	return listener.DialContext(ctx)
}

// errPermission and errStarting are what LND's interceptors return (package rpcperms, and the bakery below it).
var (
	errPermission = errors.New("permission denied")
	errStarting   = errors.New("the RPC server is in the process of starting up, but not yet ready to accept calls")
)

// admit is LND's chain of interceptors: is LND up, and is the macaroon valid?
func (s *Server) admit(ctx context.Context, method string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting {
		return errStarting
	}
	md, _ := metadata.FromIncomingContext(ctx)
	shown := md.Get("macaroon")
	if len(shown) != 1 {
		return errors.New("expected 1 macaroon, got 0")
	}
	raw, err := hex.DecodeString(shown[0])
	if err != nil {
		return err
	}
	return s.permits(raw, method)
}

// permits checks a macaroon. s.mu is held.
func (s *Server) permits(raw []byte, method string) error {
	var mac macaroon.Macaroon
	if err := mac.UnmarshalBinary(raw); err != nil {
		return err
	}
	var void error
	err := mac.Verify(s.rootKey, func(caveat string) error {
		end, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(caveat, "time-before "))
		if err == nil && !s.clock().Before(end) {
			void = fmt.Errorf("caveat %q not satisfied: macaroon has expired", caveat)
		}
		return err
	}, nil)
	if err != nil {
		return errors.New("verification failed: signature mismatch after caveat verification")
	}
	if void != nil {
		return void
	}
	if slices.Contains(s.denied, method) {
		return errPermission
	}
	return nil
}

// answer turns what the node returned into what LND's handlers return: plain errors, which gRPC sends as code Unknown
// with their text. A fault of the simulation looks like a network error.
func answer(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, simnode.ErrUnavailable), errors.Is(err, simnode.ErrAnswerLost), errors.Is(err, simnode.ErrStreamLost):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, simnode.ErrDuplicate):
		return invoices.ErrDuplicateInvoice
	case errors.Is(err, simnode.ErrStillOpen):
		return invoices.ErrInvoiceStillOpen
	case errors.Is(err, simnode.ErrAlreadySettled):
		return invoices.ErrInvoiceAlreadySettled
	case errors.Is(err, simnode.ErrAlreadyCanceled):
		return invoices.ErrInvoiceAlreadyCanceled
	case errors.Is(err, paidaction.ErrInvoiceNotFound):
		return invoices.ErrInvoiceNotFound
	case errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
