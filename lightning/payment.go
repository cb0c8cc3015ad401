package lightning

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// PaymentRequest is a payment to send. It always carries the invoice: LND then refuses it once the invoice has expired, and
// takes destination, hash and final CLTV from what the receiver signed (spec 01 §1.6).
type PaymentRequest struct {
	Bolt11    string
	Amount    paidaction.Msat // only for an invoice that names no amount
	FeeLimit  paidaction.Msat // 0: only routes without a fee
	Timeout   time.Duration   // no new attempt is made after it; whole seconds, above zero
	MaxParts  uint32          // 0: LND's default (16)
	CLTVLimit uint32          // blocks the whole route may lock the money for; 0: LND's max-cltv-expiry
}

// PaymentState is what a node says of a payment it sends.
type PaymentState string

// What a node can say. Only SUCCEEDED and FAILED are final.
const (
	PaymentInFlight  PaymentState = "IN_FLIGHT"
	PaymentSucceeded PaymentState = "SUCCEEDED"
	PaymentFailed    PaymentState = "FAILED"
)

// PaymentUpdate is a node's present view of a payment it sends.
type PaymentUpdate struct {
	Hash    paidaction.Hash
	State   PaymentState
	Amount  paidaction.Msat
	Fee     paidaction.Msat // of the parts that were settled; to be booked at SUCCEEDED alone
	Failure string          // LND's reason where State is FAILED, as "NO_ROUTE"
	// Preimage is set as soon as any part was settled, though others may hang and State be IN_FLIGHT still: from then on the
	// receiver can be paid in full, and the incoming payment has to be taken. Never the all-zero preimage, with which LND
	// means "none" (spec 01 §1.6).
	Preimage *paidaction.Preimage
}

// Pay gives a payment to the node and hands every update to on, in order. It returns nil after a final state. Every error but
// the one of on leaves open what becomes of the payment, even if the context ends: the node goes on by itself, so the caller
// tracks it. ErrPaymentExists says that the node had it before this call.
func (c *Client) Pay(ctx context.Context, r PaymentRequest, on func(PaymentUpdate) error) error {
	if r.Timeout < time.Second || r.Timeout%time.Second != 0 {
		// LND would read 0 as a minute, in which a payment thought dead can still go out.
		return fmt.Errorf("payment timeout %v is not a whole number of seconds above zero", r.Timeout)
	}
	if r.Bolt11 == "" || r.FeeLimit < 0 || r.Amount < 0 {
		return errors.New("a payment needs an invoice, and no negative amounts")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.router.SendPaymentV2(ctx, &routerrpc.SendPaymentRequest{
		PaymentRequest: r.Bolt11, AmtMsat: int64(r.Amount), FeeLimitMsat: int64(r.FeeLimit),
		TimeoutSeconds: int32(r.Timeout / time.Second), MaxParts: r.MaxParts, CltvLimit: int32(r.CLTVLimit),
	})
	return receive(ctx, c, "SendPaymentV2", stream, err, paymentUpdates(on))
}

// TrackPayment hands a payment's present state and every update after it to on, and returns nil after a final state.
// ErrPaymentNotFound where the node does not know it; every other error but that of on says nothing about the payment.
func (c *Client) TrackPayment(ctx context.Context, h paidaction.Hash, on func(PaymentUpdate) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.router.TrackPaymentV2(ctx, &routerrpc.TrackPaymentRequest{PaymentHash: h[:]})
	return receive(ctx, c, "TrackPaymentV2", stream, err, paymentUpdates(on))
}

func paymentUpdates(on func(PaymentUpdate) error) func(*lnrpc.Payment) (bool, error) {
	return func(m *lnrpc.Payment) (bool, error) {
		update, err := paymentUpdate(m)
		if err != nil {
			return false, err
		}
		return update.State != PaymentInFlight, on(update)
	}
}

func paymentUpdate(m *lnrpc.Payment) (PaymentUpdate, error) {
	update := PaymentUpdate{Amount: paidaction.Msat(m.ValueMsat), Fee: paidaction.Msat(m.FeeMsat)}
	hash, err := hex.DecodeString(m.PaymentHash)
	if err != nil || copy(update.Hash[:], hash) != len(update.Hash) {
		return PaymentUpdate{}, fmt.Errorf("payment hash %q", m.PaymentHash)
	}
	switch m.Status {
	case lnrpc.Payment_SUCCEEDED:
		update.State = PaymentSucceeded
	case lnrpc.Payment_FAILED:
		update.State = PaymentFailed
		update.Failure = failures[m.FailureReason]
	default:
		// INITIATED and whatever a later LND adds: the payment may still go out, so it is under way.
		update.State = PaymentInFlight
	}
	if preimage, err := hex.DecodeString(m.PaymentPreimage); err == nil {
		update.learn(preimage)
	}
	for _, attempt := range m.Htlcs {
		if attempt.Status == lnrpc.HTLCAttempt_SUCCEEDED {
			update.learn(attempt.Preimage)
		}
	}
	return update, nil
}

// learn takes a preimage if it is one: of the right length, not the zero one, and of this very payment.
func (u *PaymentUpdate) learn(raw []byte) {
	var p paidaction.Preimage
	if copy(p[:], raw) == len(p) && len(raw) == len(p) && !p.IsZero() && p.Hash() == u.Hash {
		u.Preimage = &p
	}
}

var failures = map[lnrpc.PaymentFailureReason]string{
	lnrpc.PaymentFailureReason_FAILURE_REASON_NONE:                      "NONE",
	lnrpc.PaymentFailureReason_FAILURE_REASON_TIMEOUT:                   "TIMEOUT",
	lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE:                  "NO_ROUTE",
	lnrpc.PaymentFailureReason_FAILURE_REASON_ERROR:                     "ERROR",
	lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS: "INCORRECT_PAYMENT_DETAILS",
	lnrpc.PaymentFailureReason_FAILURE_REASON_INSUFFICIENT_BALANCE:      "INSUFFICIENT_BALANCE",
	lnrpc.PaymentFailureReason_FAILURE_REASON_CANCELED:                  "CANCELED",
}
