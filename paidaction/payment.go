package paidaction

import (
	"context"
	"errors"
	"time"
)

// What a node can answer about a payment that it sends, or is to send.
var (
	// ErrBolt11: the node cannot read the invoice, or it is of another network, or its signature is wrong.
	ErrBolt11 = errors.New("the node cannot read this invoice")
	// ErrPaymentExists: the node was given this payment before: track it.
	ErrPaymentExists = errors.New("the node was given this payment before")
	// ErrPaymentNotFound: the node does not know the payment. Never taken for a failure (spec 01 §1.6).
	ErrPaymentNotFound = errors.New("the node does not know this payment")
	// ErrPaymentTooLate: the node has refused the call, which came after its deadline by the node's clock. Nothing was sent.
	ErrPaymentTooLate = errors.New("by the node's clock the call came after its deadline, and nothing was sent")
	// ErrNoRoute: the node finds no way to the receiver now.
	ErrNoRoute = errors.New("the node finds no route")
	// ErrProbeOpen: a route was tried, and what was sent for that has not come back.
	ErrProbeOpen = errors.New("a probe has not come back")
)

// Bolt11 is what an invoice says (BOLT 11), as the node reads it that is to pay it.
type Bolt11 struct {
	Hash            Hash
	Destination     string // public key in hex; of the introduction's ephemeral signer if Blinded
	Amount          Msat   // 0: the payer chooses
	Description     string
	DescriptionHash string // hex; empty if the invoice carries its description itself
	Created         time.Time
	Expires         time.Time
	CLTVDelta       uint32    // final CLTV in blocks
	HintsCLTV       uint32    // blocks that the longest of its hints adds before it
	HintsFee        Msat      // what the dearest of its hints takes for the amount; at most MaxMsat
	HintsNowhere    bool      // one of its hints names no channel
	Blinded         bool      // the receiver is hidden behind blinded paths
	Secretless      bool      // it has no payment secret (BOLT 11, field s): LND pays nobody without
	Features        []Feature // what the invoice asks of its payer, or offers
}

// Locks is for how many blocks, at least, the receiver has a payment locked that does not come back: their own choice.
func (b Bolt11) Locks() uint64 { return uint64(b.CLTVDelta) + uint64(b.HintsCLTV) }

// Feature is one feature bit of an invoice (BOLT 9).
type Feature struct {
	Bit      uint32
	Required bool // even bits
	Known    bool // to the node that decoded the invoice
}

// PaymentRequest is a payment to send. It always carries the invoice: the node then refuses it once the invoice has expired, and
// takes destination, hash and final CLTV from what the receiver signed (spec 01 §1.6).
type PaymentRequest struct {
	Bolt11    string
	Amount    Msat          // only for an invoice that names no amount
	FeeLimit  Msat          // 0: only routes without a fee
	Timeout   time.Duration // no new attempt is made after it; whole seconds, above zero
	MaxParts  uint32        // 0: the node's default
	CLTVLimit uint32        // blocks the whole route may lock the money for; 0: the node's default
}

// PaymentState is what a node says of a payment it sends.
type PaymentState string

// What a node can say. Only SUCCEEDED and FAILED are final.
const (
	PaymentInFlight  PaymentState = "IN_FLIGHT"
	PaymentSucceeded PaymentState = "SUCCEEDED"
	PaymentFailed    PaymentState = "FAILED"
)

// FailureReason is why a payment failed, as the node that sent it says.
type FailureReason string

// The reasons, as LND names them.
const (
	ReasonNone                FailureReason = "NONE"
	ReasonTimeout             FailureReason = "TIMEOUT"
	ReasonNoRoute             FailureReason = "NO_ROUTE"
	ReasonError               FailureReason = "ERROR"                     // also where a receiver gives an odd answer
	ReasonIncorrectDetails    FailureReason = "INCORRECT_PAYMENT_DETAILS" // the receiver refused it
	ReasonInsufficientBalance FailureReason = "INSUFFICIENT_BALANCE"
	ReasonCanceled            FailureReason = "CANCELED"
)

// PaymentUpdate is a node's present view of a payment it sends.
type PaymentUpdate struct {
	Hash    Hash
	Created int64 // nanoseconds, by the node's clock: a failed payment that is tried again has another. Its number need not be: SQLite gives it again
	State   PaymentState
	Amount  Msat          // that the invoice asks for
	Paid    Msat          // what the settled parts carried to the receiver; less than Amount where others came back. To be booked at SUCCEEDED alone
	Fee     Msat          // of the parts that were settled; to be booked at SUCCEEDED alone
	Failure FailureReason // where State is FAILED
	// Preimage is set as soon as any part was settled, though others may hang and State be IN_FLIGHT still: from then on the
	// receiver can be paid in full, and the incoming payment has to be taken. Never the all-zero preimage, with which LND
	// means "none" (spec 01 §1.6).
	Preimage *Preimage
}

// RouteRequest asks for a way to the receiver of an invoice. To find one a node sends the amount on its way, so what may be locked by that is bounded as it is
// for a payment.
type RouteRequest struct {
	Bolt11    string
	FeeLimit  Msat   // what the way may cost
	CLTVLimit uint32 // blocks that the money may be locked for, the invoice's final CLTV included; above zero
}

// Route is what a node thinks it would take to pay an invoice.
type Route struct {
	Fee    Msat
	Height uint32 // until which block the money would be locked: absolute, the invoice's final CLTV included
}

// SendingNode is all that is asked of a node that payments leave through. Every call has a deadline of its own or ends with its
// context.
type SendingNode interface {
	Node
	// DecodeInvoice reads and verifies a bolt11: the node that is to pay it is the only authority on what it says. ErrBolt11 where it cannot read
	// it; any other error says nothing about the invoice.
	DecodeInvoice(ctx context.Context, bolt11 string) (Bolt11, error)
	// EstimateRoute asks for a way to the receiver of an invoice. ErrNoRoute where the node finds none within the limits: a failed probe says
	// so in its reason alone, and its zeros are no estimate (spec 03 §3.2). ErrProbeOpen where the receiver does not answer in time: the probe
	// may lock money until its HTLC expires.
	EstimateRoute(ctx context.Context, r RouteRequest) (Route, error)
	// Pay gives a payment to the node and hands every update to on, in order. It returns nil after a final state. Every error but
	// the one of on leaves open what becomes of the payment, even if the context ends: the node goes on by itself, so the caller
	// tracks it. ErrPaymentExists says that the node had it before this call. A context that is over sends nothing, and the
	// node refuses what reaches it after the context's deadline: ErrPaymentTooLate says that it did.
	Pay(ctx context.Context, r PaymentRequest, on func(PaymentUpdate) error) error
	// TrackPayment hands a payment's present state and every update after it to on, and returns nil after a final state.
	// ErrPaymentNotFound where the node does not know it; every other error but that of on says nothing about the payment.
	TrackPayment(ctx context.Context, h Hash, on func(PaymentUpdate) error) error
	// EachPayment hands every payment that the node was given since a moment to on, with when it was given: except what failed, and what nobody
	// can take so far since it is, or may be, a probe.
	EachPayment(ctx context.Context, since time.Time, on func(u PaymentUpdate, created time.Time) error) error
	// Sendable is at most what the node's channels can send together.
	Sendable(ctx context.Context) (Msat, error)
	// PublicKey is the node's identity, in hex.
	PublicKey(ctx context.Context) (string, error)
	// Time is a moment that the node's own clock has reached, as late as it can be told: invoices expire by that clock, so one
	// that expired before it is refused by the node.
	Time(ctx context.Context) (time.Time, error)
}

var errSeen = errors.New("seen")

// PresentPayment is what a node says of a payment at this moment: the first word of TrackPayment, and its error where there is none.
func PresentPayment(ctx context.Context, node SendingNode, h Hash) (now PaymentUpdate, err error) {
	err = node.TrackPayment(ctx, h, func(u PaymentUpdate) error { now = u; return errSeen })
	if errors.Is(err, errSeen) {
		err = nil
	}
	return now, err
}
