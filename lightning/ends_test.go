package lightning_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A node may answer what is asked and write nothing, while its database waits. Whoever comes back to an invoice that is
// still to be settled or cancelled begins no second call and is refused at once, and other invoices have theirs.
func TestANodeThatWritesNothingHasOneCallOfAKind(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]simnode.Method{"settle": simnode.MethodSettle, "cancel": simnode.MethodCancel} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _, node := fixture(t)
			stuck, other := request(1, true), request(2, true)
			for _, r := range []paidaction.InvoiceRequest{stuck, other} {
				if _, err := node.Add(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
					t.Fatal(err)
				}
			}
			do := func(ctx context.Context, r paidaction.InvoiceRequest) error {
				if m == simnode.MethodCancel {
					return c.CancelInvoice(ctx, r.Hash)
				}
				return c.SettleInvoice(ctx, r.Preimage)
			}
			came, stands := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(stands) })
			defer release()
			node.Before(m, func(paidaction.Hash) { close(came); <-stands })
			ctx, giveUp := context.WithCancel(t.Context())
			first := make(chan error, 1)
			go func() { first <- do(ctx, stuck) }()
			<-came
			giveUp()
			if err := <-first; !errors.Is(err, lightning.ErrUnreachable) {
				t.Error(err)
			}
			again, done := context.WithTimeout(t.Context(), 5*time.Second)
			defer done()
			if err := do(again, stuck); !errors.Is(err, lightning.ErrUnreachable) || again.Err() != nil {
				t.Errorf("again: %v, and %v waited", err, again.Err())
			}
			if err := do(t.Context(), other); err != nil {
				t.Errorf("another invoice: %v", err)
			}
			release()
			if err := eventually(t, func() error { return do(t.Context(), stuck) }); err != nil {
				t.Errorf("when the node writes: %v", err)
			}
			if n := node.Count(m, stuck.Hash); n != 2 {
				t.Errorf("%d calls reached the node", n)
			}
		})
	}
}
