package worker

import (
	"context"
	"fmt"
	"sync"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// holds are the streams of single hold invoices: the stream of all invoices tells neither that one is held nor that one was
// given back (spec 01 §1.6).
type holds struct {
	mu      sync.Mutex
	open    map[paidaction.Hash]hold
	started uint64
	group   sync.WaitGroup
}

type hold struct {
	end    context.CancelFunc
	number uint64 // in the order of their start
}

func newHolds() *holds { return &holds{open: map[paidaction.Hash]hold{}} }

func (h *holds) wait() { h.group.Wait() }

// begin claims the stream of an invoice; ok is false where there is one.
func (h *holds) begin(ctx context.Context, hash paidaction.Hash) (own context.Context, number uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, exists := h.open[hash]; exists || ctx.Err() != nil {
		return nil, 0, false
	}
	own, end := context.WithCancel(ctx)
	h.started++
	h.open[hash] = hold{end, h.started}
	h.group.Add(1)
	return own, h.started, true
}

func (h *holds) end(hash paidaction.Hash, number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if own, ok := h.open[hash]; ok && own.number == number {
		own.end()
		delete(h.open, hash)
	}
	h.group.Done()
}

// mark is the number of the last stream that was started.
func (h *holds) mark() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started
}

// count is how many streams are open.
func (h *holds) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// keep ends the streams up to mark whose invoice is not in wanted.
func (h *holds) keep(wanted map[paidaction.Hash]bool, mark uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for hash, own := range h.open {
		if own.number <= mark && !wanted[hash] {
			own.end()
			delete(h.open, hash)
		}
	}
}

// CheckHolds sees to it that every open hold invoice of this node has a stream, and nothing else has: also those whose
// opening the node never told of, and those from before a restart.
func (l *Listener) CheckHolds(ctx context.Context) error {
	mark := l.holds.mark()
	rows, err := db.New(l.Pool).OpenHoldInvoices(ctx, l.node)
	if err != nil {
		return fmt.Errorf("read open hold invoices: %w", err)
	}
	wanted := make(map[paidaction.Hash]bool, len(rows))
	for _, row := range rows {
		hash := paidaction.Hash(row.PaymentHash)
		wanted[hash] = true
		l.watch(ctx, hash)
	}
	l.holds.keep(wanted, mark)
	l.Metrics.holdStreams.WithLabelValues(l.node).Set(float64(l.holds.count()))
	return nil
}

// watch follows one hold invoice until its state is final, in a goroutine that ends with ctx at the latest. A node that does
// not know the invoice yet is asked again.
func (l *Listener) watch(ctx context.Context, hash paidaction.Hash) {
	ctx, number, ok := l.holds.begin(ctx, hash)
	if !ok {
		return
	}
	put, heard := l.put(ctx), l.Metrics.holdsHeard.WithLabelValues(l.node)
	go func() {
		defer l.holds.end(hash, number)
		for failures := 0; ; failures++ {
			first := true
			err := l.events.WatchInvoice(ctx, hash, func(e paidaction.InvoiceEvent) error {
				if first {
					heard.Inc()
				}
				first, failures = false, 0
				if e.State != paidaction.InvoiceAccepted && e.State != paidaction.InvoiceCanceled {
					return nil // the stream of all invoices tells it, and again after a break
				}
				// The indices belong to the stream of all invoices, which brings this event as well: were they noted here, the
				// cursor could pass events that are still on their way there.
				e.AddIndex, e.SettleIndex = 0, 0
				return put(e)
			})
			if !first {
				heard.Dec()
			}
			if err == nil || ctx.Err() != nil {
				return
			}
			l.Metrics.reconnects.WithLabelValues(l.node, "invoice").Inc()
			l.Log.DebugContext(ctx, "the stream of a hold invoice ended and is opened again", "node", l.node, "hash", hash, "error", err)
			if l.Clock.Wait(ctx, l.Clock.Jitter(pause(failures))) != nil {
				return
			}
		}
	}()
}
