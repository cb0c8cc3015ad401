package wallet

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/lnurl"
	"github.com/a-seed-a7aed72f/holdfast/wallet/internal/nostr"
)

// Codes of what can be wrong with a wallet, in its owner's log and in refusals. They keep their meaning for ever.
const (
	CodeUnreachable   paidaction.Code = "WALLET_UNREACHABLE"
	CodeTimeout       paidaction.Code = "WALLET_TIMEOUT"
	CodeForbidden     paidaction.Code = "WALLET_ADDRESS_FORBIDDEN" // not on the public internet, or not to be called
	CodeCertificate   paidaction.Code = "WALLET_CERTIFICATE"
	CodeKeyRefused    paidaction.Code = "WALLET_KEY_REFUSED" // the key or macaroon does not permit this
	CodeDeclined      paidaction.Code = "WALLET_DECLINED"    // it issues no such invoice
	CodeBadAnswer     paidaction.Code = "WALLET_BAD_ANSWER"  // not what the protocol says
	CodeAmount        paidaction.Code = "WALLET_AMOUNT"      // more or less than the wallet takes
	CodeBadInvoice    paidaction.Code = "WALLET_BAD_INVOICE" // our node cannot read it, or it is for another amount
	CodeUnopened      paidaction.Code = "WALLET_UNOPENED"    // its settings cannot be decrypted any more
	CodeTooMany       paidaction.Code = "WALLET_TOO_MANY"
	CodeInvoiceIssued paidaction.Code = "INVOICE_ISSUED" // not a failure
)

// ErrNoWallet says that no wallet of the receiver gives an invoice that can be used.
var ErrNoWallet = fmt.Errorf("%w: none gives an invoice", paidaction.ErrNoReceiver)

// What may be said about a wallet. Only these sentences leave this package: they contain nothing of an answer, an
// address or a key.
var (
	ErrUnreachable = paidaction.Errorf(CodeUnreachable, "The wallet's server could not be reached. Check its address, and that it is running.")
	ErrCertificate = paidaction.Errorf(CodeCertificate, "The certificate of the wallet's server is not trusted. If the node made its own certificate, send that too.")
	ErrKeyRefused  = paidaction.Errorf(CodeKeyRefused, "The wallet refuses the key. Check that it is right and allows making invoices.")

	errTimeout     = paidaction.Errorf(CodeTimeout, "The wallet did not answer in time.")
	errForbidden   = paidaction.Errorf(CodeForbidden, "The wallet's address leads into a private network, which cannot be reached from here. Give one that is open to the internet.")
	errAddress     = paidaction.Errorf(CodeForbidden, "The wallet leads to an address that is not allowed: it must begin with https:// and contain no user name.")
	errOwn         = paidaction.Errorf(CodeForbidden, "The wallet's address leads back to this service. Give the address of a wallet elsewhere.")
	errDeclined    = paidaction.Errorf(CodeDeclined, "The wallet declined to issue an invoice.")
	errBadAnswer   = paidaction.Errorf(CodeBadAnswer, "The wallet answered with something that is not an invoice. Check that the address is that of the wallet itself.")
	errTooLarge    = paidaction.Errorf(CodeBadAnswer, "The wallet's answer is too large to be an invoice. Check that the address is that of the wallet itself.")
	errRedirected  = paidaction.Errorf(CodeBadAnswer, "The wallet redirects too often, or elsewhere. Give the address that it redirects to.")
	errUnopened    = paidaction.Errorf(CodeUnopened, "The wallet's settings cannot be read any more. Save the wallet again.")
	errUnsupported = paidaction.Errorf(CodeDeclined, "The wallet does not issue invoices over this connection. Allow it to make invoices.")
	errBusy        = paidaction.Errorf(CodeDeclined, "The wallet is asked too often. Try again later.")
	errRelay       = paidaction.Errorf(CodeUnreachable, "The wallet's relay refuses to forward messages. Connect the wallet through another relay.")
)

// refusals maps errors of the protocols to sentences.
var refusals = []struct {
	err error
	say *paidaction.Error
}{
	{outside.ErrAddress, errAddress},
	{outside.ErrOwn, errOwn},
	{outside.ErrForbidden, errForbidden},
	{outside.ErrUnreachable, ErrUnreachable},
	{outside.ErrCertificate, ErrCertificate},
	{outside.ErrTimeout, errTimeout},
	{outside.ErrTooLarge, errTooLarge},
	{outside.ErrRedirected, errRedirected},
	{lnurl.ErrAddress, errAddress},
	{lnurl.ErrDeclined, errDeclined},
	{lnurl.ErrMalformed, errBadAnswer},
	{nostr.ErrRefused, errRelay},
	{nostr.ErrUnsupported, errUnsupported},
	{nostr.ErrMalformed, errBadAnswer},
}

// explain turns an error of a protocol's client into what may be said about it. It returns only a refusal, or the end
// of ctx.
func explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return errTimeout
	}
	if refusal, ok := paidaction.AsRefusal(err); ok {
		return refusal
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.say
		}
	}
	if said := new(nostr.WalletError); errors.As(err, &said) {
		return ofNWC(said.Code)
	}
	return errDeclined
}

// ofNWC is the refusal for an error code of NIP-47.
func ofNWC(code string) *paidaction.Error {
	switch code {
	case "RATE_LIMITED":
		return errBusy
	case "NOT_IMPLEMENTED":
		return errUnsupported
	case "RESTRICTED", "UNAUTHORIZED":
		return ErrKeyRefused
	}
	return errDeclined
}

// ofStatus is the refusal for an HTTP status; nil for a success.
func ofStatus(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ErrKeyRefused
	}
	return paidaction.Errorf(CodeBadAnswer, "The wallet's server answered with status %d. Check the address, and that the key allows making invoices.", status)
}

// ofPayment is what a node's reason for a failed payment means to the wallet's owner. False: the wallet is not at
// fault.
func ofPayment(reason paidaction.FailureReason) (*paidaction.Error, bool) {
	switch reason {
	case paidaction.ReasonInsufficientBalance, paidaction.ReasonCanceled:
		return nil, false
	case paidaction.ReasonNoRoute:
		return paidaction.Errorf("PAYMENT_NO_ROUTE", "No route to the wallet's node was found for this amount. It may lack inbound liquidity."), true
	case paidaction.ReasonTimeout:
		return paidaction.Errorf("PAYMENT_TIMEOUT", "The payment did not reach the wallet's node in time."), true
	case paidaction.ReasonIncorrectDetails:
		return paidaction.Errorf("PAYMENT_REFUSED", "The wallet's node refused the payment of its own invoice."), true
	}
	return paidaction.Errorf("PAYMENT_FAILED", "The payment of the wallet's invoice failed."), true
}
