package lightning

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"gopkg.in/macaroon.v2"
)

// macaroonCredentials sends a macaroon with every call, in hex, as LND expects it.
type macaroonCredentials []byte

func (m macaroonCredentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if end, ok := ctx.Value(voidAfter{}).(time.Time); ok {
		var err error
		if m, err = m.until(end); err != nil {
			return nil, err
		}
	}
	return map[string]string{"macaroon": hex.EncodeToString(m)}, nil
}

func (macaroonCredentials) RequireTransportSecurity() bool { return true }

// voidAfter is the context key of the last moment at which a call may reach the node.
type voidAfter struct{}

// withinDeadline makes the node itself, by its own clock, refuse a call that reaches it after the deadline of ctx. gRPC
// tells the node how long a call may take, but not when it began. Without this a process that is stopped in between and
// continued an hour later would still be heard (spec 05.16d).
func withinDeadline(ctx context.Context) context.Context {
	if end, ok := ctx.Deadline(); ok {
		return context.WithValue(ctx, voidAfter{}, end)
	}
	return ctx
}

// until is the same macaroon, but void from that moment on. Anyone with a macaroon can narrow it; nobody can widen it
// again.
func (m macaroonCredentials) until(end time.Time) (macaroonCredentials, error) {
	var mac macaroon.Macaroon
	if err := mac.UnmarshalBinary(m); err != nil {
		return nil, fmt.Errorf("macaroon: %w", err)
	}
	if err := mac.AddFirstPartyCaveat([]byte("time-before " + end.UTC().Format(time.RFC3339Nano))); err != nil {
		return nil, fmt.Errorf("macaroon: %w", err)
	}
	return mac.MarshalBinary()
}
