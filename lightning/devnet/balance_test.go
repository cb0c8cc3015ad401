package devnet_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// lacks: a node cannot send all of what it counts as its own. A larger payment fails for lack of balance, although the
// node said that it could send as much.
func lacks(t *testing.T, network *devnet.Network) {
	ours := clientOf(t, network.Node(devnet.Holdfast2))
	counted, err := ours.Sendable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	amount := counted - 100_000 // beside the reserve of one channel, of 160,000 sats, a fee of 100 sats fits
	bolt11, err := network.Node(devnet.Receiver).Invoice(t.Context(), int64(amount), "too much")
	if err != nil {
		t.Fatal(err)
	}
	var last paidaction.PaymentUpdate
	err = ours.Pay(t.Context(), paidaction.PaymentRequest{Bolt11: bolt11, FeeLimit: 100_000, Timeout: 30 * time.Second},
		func(u paidaction.PaymentUpdate) error { last = u; return nil })
	if err != nil || last.State != paidaction.PaymentFailed || last.Failure != "INSUFFICIENT_BALANCE" {
		t.Errorf("%d msat of %d: %+v (%v)", amount, counted, last, err)
	}
}
