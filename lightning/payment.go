package lightning

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Pay implements paidaction.SendingNode. The node itself refuses a request that reaches it after the deadline of ctx,
// since it checks the macaroon before anything else.
func (c *Client) Pay(ctx context.Context, r paidaction.PaymentRequest, on func(paidaction.PaymentUpdate) error) error {
	if r.Timeout < time.Second || r.Timeout%time.Second != 0 {
		// LND would read 0 as a minute, during which a payment believed dead can still go out.
		return fmt.Errorf("payment timeout %v is not a whole number of seconds above zero", r.Timeout)
	}
	if r.Bolt11 == "" || r.FeeLimit < 0 || r.Amount < 0 {
		return errors.New("a payment needs an invoice, and no negative amounts")
	}
	if r.CLTVLimit > math.MaxInt32 {
		return fmt.Errorf("a limit of %d blocks", r.CLTVLimit) // LND would read a negative number
	}
	ctx, cancel := context.WithCancel(withinDeadline(ctx))
	defer cancel()
	stream, err := c.router.SendPaymentV2(ctx, &routerrpc.SendPaymentRequest{
		PaymentRequest: r.Bolt11, AmtMsat: int64(r.Amount), FeeLimitMsat: int64(r.FeeLimit),
		TimeoutSeconds: int32(r.Timeout / time.Second), CltvLimit: int32(r.CLTVLimit),
	})
	told := false
	err = receive(ctx, c, "SendPaymentV2", stream, err, paymentUpdates(func(u paidaction.PaymentUpdate) error { told = true; return on(u) }))
	if errors.Is(err, ErrMacaroonExpired) && !told {
		err = fmt.Errorf("%w: %w", paidaction.ErrPaymentTooLate, err)
	}
	return err
}

// TrackPayment implements paidaction.SendingNode.
func (c *Client) TrackPayment(ctx context.Context, h paidaction.Hash, on func(paidaction.PaymentUpdate) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return c.answering(ctx, "TrackPaymentV2", func(told func()) error {
		stream, err := c.router.TrackPaymentV2(ctx, &routerrpc.TrackPaymentRequest{PaymentHash: h[:]})
		update := paymentUpdates(on)
		return receive(ctx, c, "TrackPaymentV2", stream, err, func(m *lnrpc.Payment) (bool, error) {
			told()
			return update(m)
		})
	})
}

// answering runs a stream whose first message says how a payment stands. stream calls told at that message; until then
// this is like any other call to a node that may be silent. A caller who gives up after half the time of a call also
// marks the node as silent; one who waits longer keeps nobody else from asking.
func (c *Client) answering(ctx context.Context, method string, stream func(told func()) error) (err error) {
	leave, ok := c.silence.enter()
	if !ok {
		return c.silent(method)
	}
	began, heard := time.Now(), false
	tooLong := sync.OnceFunc(func() { leave(false, true) })
	late := time.AfterFunc(c.cfg.CallTimeout, tooLong)
	defer func() {
		switch {
		case heard:
		case late.Stop():
			answered := ctx.Err() == nil && !errors.Is(err, ErrUnreachable)
			leave(answered, time.Since(began) >= c.cfg.CallTimeout/2)
		default:
			tooLong() // the timer may only just have begun: whoever asks next must find the node marked
		}
	}()
	return stream(func() {
		if !heard {
			heard = true
			if !late.Stop() {
				tooLong() // before the answer counts, lest it mark the node afterwards
			}
			leave(true, false)
		}
	})
}

// EachPayment implements paidaction.SendingNode.
func (c *Client) EachPayment(ctx context.Context, since time.Time, on func(u paidaction.PaymentUpdate, created time.Time) error) error {
	return inPages(func(after, most uint64, options ...grpc.CallOption) ([]*lnrpc.Payment, uint64, error) {
		page, err := call(ctx, c, "ListPayments", c.main.ListPayments, &lnrpc.ListPaymentsRequest{
			IncludeIncomplete: true, OmitHops: true, IndexOffset: after, MaxPayments: most, CreationDateStart: uint64(max(since.Unix(), 0)),
		}, options...)
		return page.GetPayments(), page.GetLastIndexOffset(), err
	}, func(m *lnrpc.Payment) error {
		u, err := paymentUpdate(m)
		if err != nil {
			return err
		}
		if u.State == paidaction.PaymentFailed || mayBeProbe(m, u) {
			return nil
		}
		u.Paid, u.Fee = 0, 0 // without its hops an attempt seems to have cost no fee, and the receiver to have got it
		return on(u, time.Unix(0, m.CreationTimeNs))
	})
}

// mayBeProbe reports whether a payment is under way without an invoice and nobody has claimed any of it. Probes for
// routes are like that: nobody has the preimage of their hash. They fail, unless LND dies in the middle of one: then it
// may report the probe as under way for good.
func mayBeProbe(m *lnrpc.Payment, u paidaction.PaymentUpdate) bool {
	return m.PaymentRequest == "" && u.State == paidaction.PaymentInFlight && u.Preimage == nil
}

func paymentUpdates(on func(paidaction.PaymentUpdate) error) func(*lnrpc.Payment) (bool, error) {
	return func(m *lnrpc.Payment) (bool, error) {
		update, err := paymentUpdate(m)
		if err != nil {
			return false, err
		}
		return update.State != paidaction.PaymentInFlight, on(update)
	}
}

func paymentUpdate(m *lnrpc.Payment) (paidaction.PaymentUpdate, error) {
	update := paidaction.PaymentUpdate{Created: m.CreationTimeNs, Amount: paidaction.Msat(m.ValueMsat)}
	hash, err := hex.DecodeString(m.PaymentHash)
	if err != nil || copy(update.Hash[:], hash) != len(update.Hash) {
		return paidaction.PaymentUpdate{}, fmt.Errorf("payment hash %q", m.PaymentHash)
	}
	switch m.Status {
	case lnrpc.Payment_SUCCEEDED:
		update.State = paidaction.PaymentSucceeded
	case lnrpc.Payment_FAILED:
		update.State = paidaction.PaymentFailed
		update.Failure = failures[m.FailureReason]
	default:
		// INITIATED, and whatever a later LND adds: the payment may still go out, so it is under way.
		update.State = paidaction.PaymentInFlight
	}
	if preimage, err := hex.DecodeString(m.PaymentPreimage); err == nil {
		learn(&update, preimage)
	}
	// LND's own fee_msat covers all attempts that have not failed. But parts under way may still come back, and a
	// receiver who settles one part may give the others back; the payment has succeeded all the same.
	for _, attempt := range m.Htlcs {
		if attempt.Status == lnrpc.HTLCAttempt_SUCCEEDED {
			learn(&update, attempt.Preimage)
			fee := attempt.GetRoute().GetTotalFeesMsat()
			update.Fee += paidaction.Msat(fee)
			update.Paid += paidaction.Msat(attempt.GetRoute().GetTotalAmtMsat() - fee)
		}
	}
	if update.State == paidaction.PaymentSucceeded && update.Paid == 0 {
		update.Paid, update.Fee = paidaction.Msat(m.ValueMsat), paidaction.Msat(m.FeeMsat) // its attempts were deleted
	}
	return update, nil
}

// learn takes a preimage only if it has the right length, is not zero, and belongs to this very payment.
func learn(u *paidaction.PaymentUpdate, raw []byte) {
	var p paidaction.Preimage
	if copy(p[:], raw) == len(p) && len(raw) == len(p) && !p.IsZero() && p.Hash() == u.Hash {
		u.Preimage = &p
	}
}

var failures = map[lnrpc.PaymentFailureReason]paidaction.FailureReason{
	lnrpc.PaymentFailureReason_FAILURE_REASON_NONE:                      paidaction.ReasonNone,
	lnrpc.PaymentFailureReason_FAILURE_REASON_TIMEOUT:                   paidaction.ReasonTimeout,
	lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE:                  paidaction.ReasonNoRoute,
	lnrpc.PaymentFailureReason_FAILURE_REASON_ERROR:                     paidaction.ReasonError,
	lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS: paidaction.ReasonIncorrectDetails,
	lnrpc.PaymentFailureReason_FAILURE_REASON_INSUFFICIENT_BALANCE:      paidaction.ReasonInsufficientBalance,
	lnrpc.PaymentFailureReason_FAILURE_REASON_CANCELED:                  paidaction.ReasonCanceled,
}
