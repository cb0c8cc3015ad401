package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/benchdb"
	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// creators are the numbers of clients that ask for invoices in parallel.
var creators = []int{1, 8}

const (
	// goalRatio is the least ratio of the rate through the service to the node's own.
	goalRatio = 0.8
	// goalAdded is how much the service may add to the median, in milliseconds.
	goalAdded = 3
)

// Creation is how fast this many clients make invoices: at the node alone, and through the service.
type Creation struct {
	Clients    int
	Bare, Ours made
	Ratio      figure // of the rates, round by round
	AddedP50ms figure
	AddedP99ms figure
	Invoices   int // made through the service, in all rounds
}

// made is the speed of making invoices.
type made struct{ PerSecond, P50ms, P99ms figure }

func (m *made) add(d done) {
	slices.Sort(d.took)
	m.PerSecond = append(m.PerSecond, float64(len(d.took))/d.lasted.Seconds())
	m.P50ms, m.P99ms = append(m.P50ms, load.Quantile(d.took, 0.5)), append(m.P99ms, load.Quantile(d.took, 0.99))
}

// creations measures the node and the service in turns.
func (r *realRun) creations(ctx context.Context, report *RealReport) error {
	b, err := openBooks(ctx, r.database.DSN(holdfastDB))
	if err != nil {
		return err
	}
	defer b.close(context.WithoutCancel(ctx))
	var payers atomic.Int64
	ours := func(ctx context.Context) error {
		_, err := r.zap(ctx, int(payers.Add(1)), "PESSIMISTIC")
		return err
	}
	if _, err := repeat(ctx, openers, time.Second, ours); err != nil {
		return err
	}
	for _, clients := range creators {
		report.Creations = append(report.Creations, Creation{Clients: clients})
	}
	for range r.Rounds {
		report.begin()
		for i := range report.Creations {
			c := &report.Creations[i]
			alone, err := quietly(&report.watch, r.Options, func() (done, error) { return repeat(ctx, c.Clients, r.Takes, r.bare) })
			if err != nil {
				return fmt.Errorf("the node alone: %w", err)
			}
			c.Bare.add(alone)
			through, err := quietly(&report.watch, r.Options, func() (done, error) { return repeat(ctx, c.Clients, r.Takes, ours) })
			if err != nil {
				return fmt.Errorf("through the service: %w", err)
			}
			c.Ours.add(through)
			c.Invoices += len(through.took)
			c.Ratio = c.Ours.PerSecond.over(c.Bare.PerSecond)
			c.AddedP50ms, c.AddedP99ms = c.Ours.P50ms.minus(c.Bare.P50ms), c.Ours.P99ms.minus(c.Bare.P99ms)
			r.say("  invoices, %d clients: %s", c.Clients, c)
		}
	}
	zaps, err := benchdb.New(b.connection).ZapsSince(ctx, b.LastAction)
	if err == nil && (zaps.Others != payers.Load() || zaps.Paid != 0) {
		err = fmt.Errorf("%d invoices were made, and there are %d open actions and %d that are PAID", payers.Load(), zaps.Others, zaps.Paid)
	}
	return err
}

// bare has the node alone make a hold invoice with the parameters that the service uses.
func (r *realRun) bare(ctx context.Context) error {
	var preimage paidaction.Preimage
	_, _ = rand.Read(preimage[:]) // it never fails
	_, err := r.node.OpenInvoice(ctx, paidaction.InvoiceRequest{Hold: true, Hash: preimage.Hash(), Amount: sats * 1000,
		Memo: fmt.Sprintf("zap %d sats to #%d", sats, hotItem), Expiry: 10 * time.Minute, CLTVDelta: 80})
	return err
}

// done is the outcome of repeat: how long each call took, and all of it.
type done struct {
	took   []time.Duration
	lasted time.Duration
}

// repeat has clients do something again and again for this long.
func repeat(ctx context.Context, clients int, takes time.Duration, do func(context.Context) error) (done, error) {
	each := make([][]time.Duration, clients)
	begun := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range each {
		group.Go(func() error {
			for {
				from := time.Now()
				if from.Sub(begun) >= takes {
					return nil
				}
				if err := do(ctx); err != nil {
					return err
				}
				each[i] = append(each[i], time.Since(from))
			}
		})
	}
	err := group.Wait()
	return done{slices.Concat(each...), time.Since(begun)}, err
}

func (c *Creation) String() string {
	return fmt.Sprintf("the node %.0f/s (p50 %.1f, p99 %.1f ms), through the service %.0f/s (p50 %.1f, p99 %.1f ms): %s of the rate, %s ms more at the median",
		c.Bare.PerSecond.median(), c.Bare.P50ms.median(), c.Bare.P99ms.median(), c.Ours.PerSecond.median(), c.Ours.P50ms.median(), c.Ours.P99ms.median(),
		c.Ratio.text("%.2f"), c.AddedP50ms.text("%.1f"))
}
