// Package nodetest states what the engine relies on in a Lightning node, as tests that every implementation of
// paidaction.Node and paidaction.NodeEvents must pass: the simulated node, the LND client with a fake server, and the
// client with a real LND.
package nodetest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Env is a node under test with the world around it. Tests share only the node, and each uses a fresh hash, so that all
// may run against one real node at once.
type Env interface {
	Node() paidaction.Node
	Events() paidaction.NodeEvents
	// Pay starts to pay an invoice of the node from elsewhere. It returns once the payment is in flight: the outcome is
	// read at the node.
	Pay(ctx context.Context, bolt11 string) error
	// PayTotal pays another total than the invoice may ask for, in equal parts. It returns once the node has taken the
	// payment, which is then held or settled, or has refused it.
	PayTotal(ctx context.Context, bolt11 string, total paidaction.Msat, parts int) (taken bool, err error)
	// Restart stops the node, and starts it again. It returns once the node can pay and be paid.
	Restart(ctx context.Context) error
	// MineBlocks adds blocks to the chain. It does not wait until the node sees them.
	MineBlocks(ctx context.Context, blocks uint32) error
	// Advance advances the node's clock by d. With a real node it does nothing: the tests wait.
	Advance(d time.Duration)
}

// patience limits every wait of a test. Only a broken node uses it up.
const patience = 2 * time.Minute

const (
	amount    = 21_000
	cltvDelta = 80
)

// Run runs the whole suite, each test against the Env that env makes for it.
func Run(t *testing.T, env func(*testing.T) Env) {
	// The group ends before the node is restarted, and before the chain grows: blocks that one test needs would end what
	// another one holds.
	t.Run("node", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *world){
			"a plain invoice is paid":                 plainPaid,
			"a plain invoice cannot be settled by us": plainOpen,
			"a held payment is settled":               heldSettled,
			"a held payment is given back":            heldCanceled,
			"an open invoice is cancelled":            openCanceled,
			"an open invoice expires":                 openExpires,
			"a held payment outlives its invoice":     heldForLonger,
			"a payment in parts is one":               inParts,
			"what is not the amount asked for":        otherTotal,
			"an invoice is watched before it is open": watchedBefore,
			"the same invoice twice is one":           openedTwice,
			"the longest memo":                        longestMemo,
			"invoices that were taken are listed":     settledListed,
			"unknown invoices":                        unknown,
			"refused requests":                        refused,
			"the present state comes first":           presentState,
			"all invoices are followed":               allInvoices,
			"streams end with the caller's error":     streamsEnd,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newWorld(t, env(t)))
			})
		}
	})
	t.Run("a held payment outlasts a restart", func(t *testing.T) {
		heldOverRestart(t, newWorld(t, env(t)))
	})
	t.Run("blocks take a held payment away", func(t *testing.T) {
		blocks(t, newWorld(t, env(t)))
	})
}

// world is an Env with the checks that tests share.
type world struct {
	Env
	t   *testing.T
	ctx context.Context
}

func newWorld(t *testing.T, env Env) *world {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &world{Env: env, t: t, ctx: ctx}
}

func (w *world) request(hold bool) paidaction.InvoiceRequest {
	var p paidaction.Preimage
	if _, err := rand.Read(p[:]); err != nil {
		w.t.Fatal(err)
	}
	return paidaction.InvoiceRequest{
		Hold: hold, Preimage: p, Hash: p.Hash(), Amount: amount, Memo: "nodetest", Expiry: time.Hour, CLTVDelta: cltvDelta,
	}
}

func (w *world) open(r paidaction.InvoiceRequest) string {
	w.t.Helper()
	bolt11, err := w.Node().OpenInvoice(w.ctx, r)
	if err != nil {
		w.t.Fatal(err)
	}
	if bolt11 == "" {
		w.t.Fatal("an invoice without bolt11")
	}
	return bolt11
}

func (w *world) pay(bolt11 string) {
	w.t.Helper()
	if err := w.Pay(w.ctx, bolt11); err != nil {
		w.t.Fatal(err)
	}
}

// await follows the invoice until it is in this state, and then looks it up.
func (w *world) await(h paidaction.Hash, state paidaction.InvoiceState) paidaction.NodeInvoice {
	w.t.Helper()
	reached := errors.New("reached")
	err := w.Events().WatchInvoice(w.ctx, h, func(e paidaction.InvoiceEvent) error {
		if e.State == state {
			return reached
		}
		return nil
	})
	if !errors.Is(err, reached) {
		w.t.Fatalf("waiting for %s: %v", state, err)
	}
	return w.lookup(h, state)
}

func (w *world) lookup(h paidaction.Hash, state paidaction.InvoiceState) paidaction.NodeInvoice {
	w.t.Helper()
	view, err := w.Node().LookupInvoice(w.ctx, h)
	if err != nil {
		w.t.Fatal(err)
	}
	if view.State != state || view.Hash != h {
		w.t.Fatalf("the node says %+v, want %s", view, state)
	}
	return view
}

// must and mustNot are for calls that must not fail, or must not succeed.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mustNot(what string, err error) {
	w.t.Helper()
	if err == nil {
		w.t.Fatalf("%s succeeded", what)
	}
	if errors.Is(err, paidaction.ErrInvoiceNotFound) {
		w.t.Fatalf("%s: %v", what, err)
	}
}
