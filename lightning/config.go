package lightning

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"gopkg.in/macaroon.v2"
)

// Config says where a node is and how to get access.
type Config struct {
	Name         string // the name that rows remember: never reuse it for another node
	Address      string // host:port of LND's gRPC
	Network      string // mainnet, testnet, testnet4, signet, regtest or simnet; Check compares. Empty: not compared
	TLSCertPath  string // LND's tls.cert, or
	TLSCertPEM   []byte // its contents
	MacaroonPath string // a macaroon with the permissions that Check requires, or
	MacaroonHex  string // its contents. A secret: never logged
	Sends        bool   // the node also pays: Check requires the permissions of a paidaction.SendingNode

	Log *slog.Logger // logs each call at level DEBUG; nil: nothing is logged

	Traces trace.TracerProvider // traces each call with its name and its end; nil: no traces

	CallTimeout time.Duration // for every call that is not a stream, but for Channels; 0: 10 s

	// Dialer replaces TCP in tests; nil: TCP.
	Dialer func(ctx context.Context, address string) (net.Conn, error)
}

const (
	defaultCallTimeout = 10 * time.Second
	maxReconnectDelay  = time.Second
	// The list of channels of a large node exceeds gRPC's 4 MiB. What is larger than this is read alone (unlimited).
	maxMessageBytes = 64 << 20
)

// Dial prepares the connection. It reads the certificate and the macaroon, and fails only if these are unusable. The
// node is contacted only at the first call: a node that is down does not keep the service from starting, and is found
// again within about a second of its return.
func Dial(cfg Config) (*Client, error) {
	if cfg.Name == "" || cfg.Address == "" {
		return nil, errors.New("a lightning node needs a name and an address")
	}
	tlsCreds, err := cfg.tls()
	if err != nil {
		return nil, fmt.Errorf("lightning node %s: %w", cfg.Name, err)
	}
	mac, err := cfg.macaroon()
	if err != nil {
		return nil, fmt.Errorf("lightning node %s: %w", cfg.Name, err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = defaultCallTimeout
	}
	target := cfg.Address
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(tlsCreds),
		grpc.WithPerRPCCredentials(mac),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
		// A connection that died silently is noticed within 30 s, so that streams end rather than stay silent. Without
		// open streams LND refuses pings by default (grpc.client-allow-ping-without-stream) and would hang up on us.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnectDelay},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if cfg.Traces != nil {
		// The trace is not passed to the node, which may belong to somebody else or serve others.
		options = append(options, grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(cfg.Traces),
			otelgrpc.WithPropagators(propagation.NewCompositeTextMapPropagator()))))
	}
	if cfg.Dialer != nil {
		target = "passthrough:///" + cfg.Address
		options = append(options, grpc.WithContextDialer(cfg.Dialer))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fmt.Errorf("lightning node %s: %w", cfg.Name, err)
	}
	return newClient(cfg, conn, mac), nil
}

func (cfg Config) tls() (credentials.TransportCredentials, error) {
	pem := cfg.TLSCertPEM
	if len(pem) == 0 {
		var err error
		if pem, err = os.ReadFile(cfg.TLSCertPath); err != nil {
			return nil, fmt.Errorf("TLS certificate: %w", err)
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("TLS certificate: not in PEM format")
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}), nil
}

func (cfg Config) macaroon() (macaroonCredentials, error) {
	var raw []byte
	var err error
	if cfg.MacaroonHex != "" {
		raw, err = hex.DecodeString(strings.TrimSpace(cfg.MacaroonHex))
	} else {
		raw, err = os.ReadFile(cfg.MacaroonPath)
	}
	if err != nil {
		return nil, fmt.Errorf("macaroon: %w", err)
	}
	// Better found here than by a refusal of every call.
	if err := new(macaroon.Macaroon).UnmarshalBinary(raw); err != nil {
		return nil, fmt.Errorf("macaroon: %w", err)
	}
	return raw, nil
}
