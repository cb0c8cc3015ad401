package lightning

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/invoices"
	"github.com/lightningnetwork/lnd/rpcperms"
)

// Spec 01 §1.6: a node that starts or stops, or that is asked for too much, says nothing about money. What it answers then is
// neither that an invoice is settled or canceled, nor that there is no such invoice or payment.
func TestANodeThatStartsOrStopsSaysNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"waiting to start":    status.Error(codes.Unknown, rpcperms.ErrWaitingToStart.Error()),
		"without a wallet":    status.Error(codes.Unknown, rpcperms.ErrNoWallet.Error()),
		"its wallet locked":   status.Error(codes.Unknown, rpcperms.ErrWalletLocked.Error()),
		"starting":            status.Error(codes.Unknown, rpcperms.ErrRPCStarting.Error()),
		"a part of it starts": status.Error(codes.Unknown, "server is still in the process of starting"),
		"middleware is missing": status.Error(codes.Unknown,
			"mandatory middleware 'accounts' is currently not registered, not allowing any RPC calls"),
		"shutting down": status.Error(codes.Unknown, invoices.ErrShuttingDown.Error()),
		"away":          status.Error(codes.Unavailable, ""),
		"too late":      status.Error(codes.DeadlineExceeded, ""),
		"given up":      status.Error(codes.Canceled, ""),
		"busy":          status.Error(codes.ResourceExhausted, ""),
		"broken":        status.Error(codes.Internal, ""),
		"broken off":    status.Error(codes.Aborted, ""),
	} {
		meaning := meaningOf(answer)
		if !errors.Is(meaning, ErrUnreachable) {
			t.Errorf("%s: %v means %v", name, answer, meaning)
		}
		if locked := name == "its wallet locked"; errors.Is(meaning, ErrLocked) != locked { // somebody has to unlock it
			t.Errorf("%s: %v means %v", name, answer, meaning)
		}
	}
}
