package devnet

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
)

// errNotWritten means that LND has created a macaroon's file but not yet written into it.
var errNotWritten = errors.New("the macaroon is still empty")

// dial prepares a connection to a node. It fails only if a file cannot be read; whether the node answers shows only in
// the calls.
func dial(address, tlsCert, macaroon string) (*grpc.ClientConn, error) {
	permit, err := os.ReadFile(macaroon)
	if err != nil {
		return nil, err
	}
	if len(permit) == 0 {
		return nil, fmt.Errorf("%s: %w", macaroon, errNotWritten)
	}
	transport, err := credentials.NewClientTLSFromFile(tlsCert, "")
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(address,
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(bearer(hex.EncodeToString(permit))),
		// A node that is restarted is back within seconds, but gRPC's default backoff grows to two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 2 * time.Second,
		}))
}

// bearer sends a macaroon with every call.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"macaroon": string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }
