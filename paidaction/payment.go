package paidaction

import (
	"context"
	"errors"
	"time"
)

// What a node can answer about a payment that it sends or is asked to send.
var (
	// ErrBolt11: the node cannot read the invoice, it is for another network, or its signature is wrong.
	ErrBolt11 = errors.New("the node cannot read this invoice")
	// ErrPaymentExists: the node has been given this payment before; track it.
	ErrPaymentExists = errors.New("the node was given this payment before")
	// ErrPaymentNotFound: the node does not know the payment. It must never be taken for a failure (spec 01 §1.6).
	ErrPaymentNotFound = errors.New("the node does not know this payment")
	// ErrNotPermitted: this service may not ask the node for that.
	ErrNotPermitted = errors.New("the macaroon does not allow this")
	// ErrPaymentTooLate: the node refused the call, which came after its deadline by the node's clock. Nothing was
	// sent.
	ErrPaymentTooLate = errors.New("by the node's clock the call came after its deadline, and nothing was sent")
	// ErrNoRoute: the node finds no route to the receiver now.
	ErrNoRoute = errors.New("the node finds no route")
	// ErrProbeOpen: a route was probed, and the probe has not come back.
	ErrProbeOpen = errors.New("a probe has not come back")
	// ErrNotProbed: the node did not come to send a probe, so none is out.
	ErrNotProbed = errors.New("no probe was sent")
)

// OpenProbe is the ErrProbeOpen of a node that still listens.
type OpenProbe struct {
	// Back gets true once the probe has come back. It is closed without that where nobody will hear of it.
	Back <-chan bool
}

func (*OpenProbe) Error() string { return ErrProbeOpen.Error() }
func (*OpenProbe) Unwrap() error { return ErrProbeOpen }

// Bolt11 is what an invoice says (BOLT 11), as read by the node that is to pay it.
type Bolt11 struct {
	Hash            Hash
	Destination     string // public key in hex; if Blinded, of the ephemeral signer of the introduction
	Amount          Msat   // 0: the payer chooses
	Description     string
	DescriptionHash string // hex; empty if the invoice carries its description itself
	Created         time.Time
	Expires         time.Time
	CLTVDelta       uint32    // final CLTV in blocks
	HintsCLTV       uint32    // blocks that the longest of its hints adds to that
	HintsFee        Msat      // the highest fee of its hints for the amount; at most MaxMsat
	HintsNowhere    bool      // one of its hints names no channel
	Blinded         bool      // the receiver is hidden behind blinded paths
	Secretless      bool      // it has no payment secret (BOLT 11, field s): LND pays none without
	Features        []Feature // what the invoice requires of its payer, or offers
	Incomplete      bool      // Features lack payment secrets, or what others of them build on: LND finds no route
}

// Locks is the least number of blocks for which the receiver can lock a payment that does not come back. The receiver
// chooses it.
func (b Bolt11) Locks() uint64 { return uint64(b.CLTVDelta) + uint64(b.HintsCLTV) }

// Feature is one feature bit of an invoice (BOLT 9).
type Feature struct {
	Bit      uint32
	Required bool // even bits
	Known    bool // to the node that decoded the invoice
}

// PaymentRequest is a payment to send. It always carries the invoice, so that the node refuses an expired one, and
// takes destination, hash and final CLTV from what the receiver signed (spec 01 §1.6).
type PaymentRequest struct {
	Bolt11    string
	Amount    Msat          // only for an invoice that names no amount
	FeeLimit  Msat          // 0: only routes without a fee
	Timeout   time.Duration // no new attempt is made after it; whole seconds, above zero
	CLTVLimit uint32        // how many blocks the whole route may lock the money; 0: the node's default
}

// PaymentState is what a node says of a payment it sends.
type PaymentState string

// What a node can say. Only SUCCEEDED and FAILED are final.
const (
	PaymentInFlight  PaymentState = "IN_FLIGHT"
	PaymentSucceeded PaymentState = "SUCCEEDED"
	PaymentFailed    PaymentState = "FAILED"
)

// FailureReason is why a payment failed, according to the node that sent it.
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
	Created int64 // nanoseconds by the node's clock; new for a retried payment, unlike its index, which SQLite may reuse
	State   PaymentState
	Amount  Msat          // what the invoice asks for
	Paid    Msat          // what the settled parts carried, below Amount if others came back; book it only at SUCCEEDED
	Fee     Msat          // of the settled parts; book it only at SUCCEEDED
	Failure FailureReason // set if State is FAILED
	// Preimage is set as soon as any part is settled, even if others still hang and State is IN_FLIGHT. From then on
	// the receiver can be paid in full, so the incoming payment has to be taken. It is never all zeros, which is how
	// LND says "none" (spec 01 §1.6).
	Preimage *Preimage
}

// IsEarlier reports whether a node speaks of a payment that had failed before a send, where failed is when the newest of
// those was created, by the node's clock. A node that was restored from a backup may show an even older failure.
func (u PaymentUpdate) IsEarlier(failed *int64) bool {
	return failed != nil && (u.Created == *failed || u.Created < *failed && u.State == PaymentFailed)
}

// RouteRequest asks for a route to the receiver of an invoice. To find one, a node sends the amount as a probe, so what
// that may lock is bounded as it is for a payment.
type RouteRequest struct {
	Bolt11    string
	Probe     Hash   // of what is sent, one after another: random, so that nobody has its preimage; TrackPayment tells what became of it
	FeeLimit  Msat   // what the route may cost
	CLTVLimit uint32 // for how many blocks the money may be locked, with the invoice's final CLTV; above zero
}

// Route is what a node expects it to take to pay an invoice.
type Route struct {
	Fee    Msat
	Height uint32 // the absolute block height until which the money would be locked, with the invoice's final CLTV
}

// Channel is a channel by which a node can send now, and what is leaving by it: payments of ours and of others, in
// parts, that have neither arrived nor come back.
type Channel struct {
	Local       Msat  // what is left on the node's side, reserves included
	Leaving     int64 // how many parts are leaving
	Locked      Msat  // what these come to
	MostLeaving int64 // how many its peer lets leave at a time
	MostLocked  Msat  // and what these may come to
}

// SendingNode is all that is asked of a node through which payments leave. Every call has its own deadline or ends with
// its context.
type SendingNode interface {
	Node
	// DecodeInvoice reads and verifies a bolt11. Only the node that is to pay it decides what it says. ErrBolt11 where
	// the node cannot read it; any other error says nothing about the invoice.
	DecodeInvoice(ctx context.Context, bolt11 string) (Bolt11, error)
	// EstimateRoute asks for a route to the receiver of an invoice. ErrNoRoute where the node finds none within the
	// limits: a failed probe says so only in its failure reason, and the zeros beside it are no estimate (spec 03
	// §3.2). ErrProbeOpen where the receiver does not answer in time: the probe may lock money until its HTLC expires.
	// An OpenProbe tells when it has come back. ErrNotProbed where what is asked before took too long, or failed.
	EstimateRoute(ctx context.Context, r RouteRequest) (Route, error)
	// Pay gives a payment to the node and passes every update to on, in order. It returns nil after a final state.
	// After any error but that of on, the outcome of the payment is open, even if the context ended: the node goes on
	// by itself, so the caller must track it. ErrPaymentExists says that the node had the payment before this call. An
	// ended context sends nothing; ErrPaymentTooLate says that the call reached the node after the context's deadline
	// and was refused.
	Pay(ctx context.Context, r PaymentRequest, on func(PaymentUpdate) error) error
	// TrackPayment passes a payment's present state and every later update to on, and returns nil after a final state.
	// ErrPaymentNotFound where the node does not know it; any other error but that of on says nothing about the
	// payment.
	TrackPayment(ctx context.Context, h Hash, on func(PaymentUpdate) error) error
	// EachPayment passes to on every payment that the node was given since a time, with the time when it was given. It
	// leaves out payments that failed, and those that nobody can claim so far because they are, or may be, probes. Paid
	// and Fee are left out, too: only TrackPayment says them.
	EachPayment(ctx context.Context, since time.Time, on func(u PaymentUpdate, created time.Time) error) error
	// Sendable is the most that the node's channels can send together.
	Sendable(ctx context.Context) (Msat, error)
	// Channels are the channels by which the node can send now, private ones included. A node that has many of them
	// takes long to list them, so no payment should wait for this.
	Channels(ctx context.Context) ([]Channel, error)
	// PublicKey is the node's identity, in hex.
	PublicKey(ctx context.Context) (string, error)
	// Time is the latest moment that the node's clock is known to have reached. Invoices expire by that clock: the node
	// refuses one that expired before this moment.
	Time(ctx context.Context) (time.Time, error)
}

var errSeen = errors.New("seen")

// PresentPayment is what a node says of a payment at this moment: the first update of TrackPayment, or its error.
func PresentPayment(ctx context.Context, node SendingNode, h Hash) (now PaymentUpdate, err error) {
	err = node.TrackPayment(ctx, h, func(u PaymentUpdate) error { now = u; return errSeen })
	if errors.Is(err, errSeen) {
		err = nil
	}
	return now, err
}
