package devnet

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What LND refuses is told in LND's words alone; other errors stay what they are.
func TestARefusalIsToldInTheNodesWords(t *testing.T) {
	t.Parallel()
	if said := refusal(status.Error(codes.Unknown, "invoice expired. Valid until yesterday")).Error(); said != "it does not pay this: invoice expired. Valid until yesterday" {
		t.Error(said)
	}
	if err := refusal(status.FromContextError(context.Canceled).Err()); status.Code(errors.Unwrap(err)) != codes.Canceled {
		t.Error(err)
	}
}
