package lightning

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"gopkg.in/macaroon.v2"
)

// macaroonCredentials shows a macaroon with every call, in hex, as LND expects it.
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

// voidAfter is the key of a context under which a call's last moment is kept.
type voidAfter struct{}

// withinDeadline makes the node itself refuse a call that reaches it after the deadline of ctx, by its own clock. gRPC tells the
// node how long a call may take, but not when it began: a process that is stopped between the two and continued an hour later
// would still be heard (spec 05.16d).
func withinDeadline(ctx context.Context) context.Context {
	if end, ok := ctx.Deadline(); ok {
		return context.WithValue(ctx, voidAfter{}, end)
	}
	return ctx
}

// until is the same macaroon, void from a moment on. Anyone who has a macaroon can narrow it; nobody can widen it again.
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
