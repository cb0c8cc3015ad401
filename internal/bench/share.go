package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const (
	// realPayments is how many payments are made in each flow, one after the other.
	realPayments = 30
	// goalShare is the greatest share of a payment's time that may be ours, at the median.
	goalShare = 0.05
)

// Share compares two times: Whole, from when the payer's node is told to pay until PAID is committed, and the part of
// it after our node has first told us of the payment (Ours). For a hold invoice Ours includes the node's own settling.
type Share struct {
	flow
	Ours, Whole, Part figure // for each payment, in milliseconds; Part is Ours divided by Whole
}

// shares makes payments over the real network.
func (r *realRun) shares(ctx context.Context, report *RealReport) error {
	for _, way := range flows {
		if way.name == wrapped {
			continue // its time is that of two payments
		}
		// In the first payments the nodes and the database learn what they then remember.
		if _, err := r.share(ctx, way, 5); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		s, err := r.share(ctx, way, realPayments)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		r.say("  %-12s %d payments: %s", way.name, realPayments, s)
		report.Shares = append(report.Shares, s)
	}
	return nil
}

func (r *realRun) share(ctx context.Context, way flow, n int) (s Share, err error) {
	b, err := openBooks(ctx, r.database.DSN(holdfastDB))
	if err != nil {
		return s, err
	}
	defer b.close(context.WithoutCancel(ctx))
	before, err := b.flushes(ctx)
	if err != nil {
		return s, err
	}
	hashes, sent, told := make([]paidaction.Hash, n), make([]time.Time, n), make([]time.Time, n)
	for i := range n {
		o, err := r.zap(ctx, r.next, way.method)
		if err != nil {
			return s, err
		}
		r.next++
		hashes[i] = o.hash
		if sent[i], told[i], err = r.pay(ctx, o); err != nil {
			return s, err
		}
	}
	if err := b.settle(ctx); err != nil {
		return s, err
	}
	after, err := b.flushes(ctx)
	if err != nil {
		return s, err
	}
	moments, err := b.moments(ctx, hashes, told)
	if err != nil {
		return s, err
	}
	s.flow = way
	flush := after.since(before)
	for i, m := range moments {
		ours, whole := m.to.Sub(m.from)+flush, m.to.Sub(sent[i])+flush
		s.Ours, s.Whole, s.Part = append(s.Ours, ms(ours)), append(s.Whole, ms(whole)), append(s.Part, ours.Seconds()/whole.Seconds())
	}
	return s, nil
}

// pay pays an invoice from the payer's node. It returns when that node was told to, and when ours first told of the
// payment.
func (r *realRun) pay(ctx context.Context, o opened) (sent, told time.Time, err error) {
	group, watching := errgroup.WithContext(ctx)
	ready := make(chan struct{})
	begun := sync.OnceFunc(func() { close(ready) })
	group.Go(func() error {
		return r.node.WatchInvoice(watching, o.hash, func(e paidaction.InvoiceEvent) error {
			switch {
			case e.State == paidaction.InvoiceOpen:
				begun() // the first event of a stream; an open invoice may be reported twice
			case told.IsZero():
				told = time.Now()
			}
			return nil
		})
	})
	group.Go(func() error {
		select {
		case <-ready:
		case <-watching.Done():
			return context.Cause(watching)
		}
		sent = time.Now()
		return r.lnd.pay(watching, o)
	})
	if err := group.Wait(); err != nil {
		return sent, told, err
	}
	if told.IsZero() {
		return sent, told, fmt.Errorf("the node told nothing of payment %s", o.hash)
	}
	return sent, told, nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func (s Share) String() string {
	return fmt.Sprintf("%s ms from the node's word to PAID, of %s ms in all: a part of %s", s.Ours.text("%.1f"), s.Whole.text("%.0f"), s.Part.text("%.3f"))
}
