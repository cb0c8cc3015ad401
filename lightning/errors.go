package lightning

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightningnetwork/lnd/invoices"
	paymentsdb "github.com/lightningnetwork/lnd/payments/db"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What an error of a node means; check it with errors.Is. An error that is none of these is an answer that this package
// does not know. Like ErrUnreachable, it proves nothing about money (spec 01 §1.6).
var (
	// ErrUnreachable: the call or its answer did not arrive. What the node did is unknown.
	ErrUnreachable = errors.New("the node cannot be reached, and what it did is unknown")
	// ErrLocked and ErrUntrusted are ErrUnreachable for a reason that does not pass by itself.
	ErrLocked    = fmt.Errorf("%w: its wallet is locked", ErrUnreachable)
	ErrUntrusted = fmt.Errorf("%w: its certificate is not the one that is trusted", ErrUnreachable)
	// ErrStreamEnded: the node or the network ended a stream. It says nothing about any invoice or payment.
	ErrStreamEnded = errors.New("the stream ended")
	// ErrInvoiceExists: there is an invoice with this hash.
	ErrInvoiceExists = errors.New("the invoice exists")
	// ErrInvoiceOpen: nothing is held that could be settled.
	ErrInvoiceOpen = errors.New("the invoice is still open")
	// ErrInvoiceSettled: the payment was taken.
	ErrInvoiceSettled = errors.New("the invoice is settled")
	// ErrMacaroonExpired: the macaroon has expired by the node's clock, or the call came after its deadline. It did
	// nothing.
	ErrMacaroonExpired = errors.New("the macaroon has expired, or the call came too late")
	// ErrNotPermitted: the macaroon does not allow the call.
	ErrNotPermitted = paidaction.ErrNotPermitted
	// ErrUnfit: the node, or its configuration here, must be changed before it can serve. Only Check returns it.
	ErrUnfit = errors.New("the node cannot serve as it is")
)

// meaningOf is the only place that tells LND's errors apart. Most handlers of LND return plain Go errors, which gRPC
// turns into code Unknown with the error's text, so only the text tells them apart. If lnd exports the error, the text
// is taken from there and follows the version in go.mod. meaningOf returns nil for an answer it does not know.
func meaningOf(err error) error {
	answer := status.Convert(err)
	if answer.Code() == codes.Unavailable && strings.Contains(answer.Message(), "tls: failed to verify certificate") {
		return ErrUntrusted // crypto/tls says so, and gRPC keeps only its text
	}
	switch answer.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.Internal, codes.ResourceExhausted:
		return ErrUnreachable
	case codes.AlreadyExists: // only SendPaymentV2
		return paidaction.ErrPaymentExists
	case codes.NotFound: // LookupInvoice and TrackPaymentV2: told apart below
		if strings.Contains(answer.Message(), paymentsdb.ErrPaymentNotInitiated.Error()) {
			return paidaction.ErrPaymentNotFound
		}
		return paidaction.ErrInvoiceNotFound
	case codes.PermissionDenied, codes.Unauthenticated:
		return ErrNotPermitted
	case codes.Unknown, codes.InvalidArgument: // CheckMacaroonPermissions returns InvalidArgument with the text
		for _, known := range texts {
			if strings.Contains(answer.Message(), known.text) {
				return known.meaning
			}
		}
	}
	return nil
}

var texts = []struct {
	text    string
	meaning error
}{
	{invoices.ErrDuplicateInvoice.Error(), ErrInvoiceExists},             // AddInvoice, AddHoldInvoice
	{invoices.ErrInvoiceNotFound.Error(), paidaction.ErrInvoiceNotFound}, // SettleInvoice, CancelInvoice
	{invoices.ErrNoInvoicesCreated.Error(), paidaction.ErrInvoiceNotFound},
	{invoices.ErrInvoiceStillOpen.Error(), ErrInvoiceOpen},                      // SettleInvoice
	{invoices.ErrInvoiceAlreadyCanceled.Error(), paidaction.ErrInvoiceCanceled}, // SettleInvoice
	{invoices.ErrInvoiceAlreadySettled.Error(), ErrInvoiceSettled},              // CancelInvoice
	{invoices.ErrShuttingDown.Error(), ErrUnreachable},
	// package rpcperms: LND answers this while it starts, before any of its parts sees the call.
	{"waiting to start, RPC services not available", ErrUnreachable},
	{"wallet not created, create one to enable full RPC access", ErrUnreachable},
	{"wallet locked, unlock it to enable full RPC access", ErrLocked},
	{"the RPC server is in the process of starting up, but not yet ready to accept calls", ErrUnreachable},
	{"server is still in the process of starting", ErrUnreachable},
	{"currently not registered, not allowing any RPC calls", ErrUnreachable}, // a middleware that must be there is away
	{"macaroon has expired", ErrMacaroonExpired},
	// from the macaroon bakery under LND, through its interceptor.
	{"permission denied", ErrNotPermitted},
	{"verification failed: signature mismatch", ErrNotPermitted},
	{"cannot get macaroon", ErrNotPermitted},
}
