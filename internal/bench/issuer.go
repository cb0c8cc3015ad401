package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/fakenode"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// issuer is the node whose invoices are open while the service starts.
type issuer interface {
	// settings make a service use the node. Files that they name, and that the node does not have, are put into dir.
	settings(dir string) ([]string, error)
	// open makes invoices, and returns their bolt11s in the order of the requests.
	open(ctx context.Context, requests []paidaction.InvoiceRequest) ([]string, error)
	// watch is called before the service is started. It returns a function that waits until the service hears of this
	// many open invoices, and says since when.
	watch(ctx context.Context, s *service, invoices int) (heard func() (time.Time, error), err error)
	pay(ctx context.Context, invoices ...opened) error
	stop() error
}

// fakeIssuer knows itself when it is subscribed to.
type fakeIssuer struct{ *fakenode.Process }

// startFake starts a fake node that is killed when ctx ends.
func startFake(ctx context.Context, o Options) (issuer, error) {
	node, err := fakenode.Start(exec.CommandContext(ctx, o.FakeNode[0], o.FakeNode[1:]...))
	return fakeIssuer{node}, err
}

func (f fakeIssuer) settings(dir string) ([]string, error) { return nodeSettings(dir, f.Node) }

// opening is how many invoices the fake node is asked for at a time.
const opening = 1000

func (f fakeIssuer) open(_ context.Context, requests []paidaction.InvoiceRequest) (bolt11s []string, err error) {
	for some := range slices.Chunk(requests, opening) {
		made, err := f.Open(some)
		if err != nil {
			return nil, err
		}
		bolt11s = append(bolt11s, made...)
	}
	return bolt11s, nil
}

func (f fakeIssuer) watch(_ context.Context, _ *service, invoices int) (func() (time.Time, error), error) {
	return f.Watch(invoices)
}

func (f fakeIssuer) pay(_ context.Context, invoices ...opened) error {
	hashes := make([]paidaction.Hash, len(invoices))
	for i, invoice := range invoices {
		hashes[i] = invoice.hash
	}
	_, err := f.Pay(0, hashes...)
	return err
}

func (f fakeIssuer) stop() error { return f.Stop() }

func (l *lnd) open(ctx context.Context, requests []paidaction.InvoiceRequest) ([]string, error) {
	bolt11s := make([]string, len(requests))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(openers)
	for i, request := range requests {
		group.Go(func() (err error) {
			bolt11s[i], err = l.node.OpenInvoice(ctx, request)
			return err
		})
	}
	return bolt11s, group.Wait()
}

const (
	// hearPatience is how long a service may take until it hears of everything.
	hearPatience = 5 * time.Minute
	// hearPause is the pause between two looks at the service's metrics, which take time themselves.
	hearPause = 20 * time.Millisecond
)

// watch asks the service itself. LND does not say who is subscribed, but it first tells each subscriber the present
// state.
func (l *lnd) watch(ctx context.Context, s *service, invoices int) (func() (time.Time, error), error) {
	var at time.Time
	ctx, cancel := context.WithTimeout(ctx, hearPatience)
	var group errgroup.Group
	group.Go(func() error {
		defer cancel()
		again := time.NewTicker(hearPause)
		defer again.Stop()
		for {
			// It cannot be asked until it listens.
			heard, err := s.metric(ctx, `holdfast_node_hold_streams_heard{node="holdfast"}`)
			if at = time.Now(); err == nil && heard >= float64(invoices) {
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.Join(fmt.Errorf("%.0f invoices are heard of: %w", heard, context.Cause(ctx)), err)
			case <-again.C:
			}
		}
	})
	return func() (time.Time, error) { err := group.Wait(); return at, err }, nil
}

// pay pays from the payer's node, and returns once everything is settled.
func (l *lnd) pay(ctx context.Context, invoices ...opened) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, invoice := range invoices {
		group.Go(func() error {
			payment, err := l.network.Node(devnet.Payer).Pay(ctx, invoice.bolt11)
			if err == nil && !payment.Settled {
				err = fmt.Errorf("a payment failed: %s", payment.Failure)
			}
			return err
		})
	}
	return group.Wait()
}
