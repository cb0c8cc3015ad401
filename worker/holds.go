package worker

import (
	"context"
	"fmt"
	"sync"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// holds are the streams of single hold invoices. They are needed because the stream of all invoices reports neither
// that an invoice is held nor that it was cancelled (spec 01 §1.6).
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

// begin reserves the stream of an invoice; ok is false if there is one already.
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

// mark is the number of the stream that was started last.
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

// CheckHolds ensures that exactly the open hold invoices of this node have a stream, including those whose opening the
// node never reported and those from before a restart.
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

// watch follows one hold invoice until its state is final, in a goroutine that ends with ctx at the latest. It asks
// again while the node does not know the invoice yet.
func (l *Listener) watch(ctx context.Context, hash paidaction.Hash) {
	ctx, number, ok := l.holds.begin(ctx, hash)
	if !ok {
		return
	}
	go func() {
		defer l.holds.end(hash, number)
		for failures := 0; ; failures++ {
			heard, err := l.hear(ctx, hash)
			if err == nil || ctx.Err() != nil {
				return
			}
			if heard {
				failures = 0
			}
			l.Metrics.reconnects.WithLabelValues(l.node, "invoice").Inc()
			l.Log.DebugContext(ctx, "the stream of a hold invoice ended and is opened again", "node", l.node, "hash", hash, "error", err)
			if l.Clock.Wait(ctx, l.Clock.Jitter(pause(failures))) != nil {
				return
			}
		}
	}()
}

// hear follows one hold invoice for as long as its stream lasts, and reports whether the stream said anything. It
// returns nil after a final state.
func (l *Listener) hear(ctx context.Context, hash paidaction.Hash) (heard bool, err error) {
	put, streams := l.put(ctx), l.Metrics.holdsHeard.WithLabelValues(l.node)
	err = l.events.WatchInvoice(ctx, hash, func(e paidaction.InvoiceEvent) error {
		if !heard {
			heard = true
			streams.Inc()
		}
		if e.State != paidaction.InvoiceAccepted && e.State != paidaction.InvoiceCanceled {
			return nil // the stream of all invoices reports it, and again after a break
		}
		// The indices belong to the stream of all invoices, which brings this event as well. If they were noted here,
		// the cursor could pass events that are still on their way there.
		e.AddIndex, e.SettleIndex = 0, 0
		return put(e)
	})
	if heard {
		streams.Dec()
	}
	return heard, err
}
