package simnode

import (
	"context"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// stream is one reader's queue of events. It has no limit, so a slow reader holds up nobody. The node's mutex guards
// it.
type stream[T any] struct {
	wants func(T) bool
	queue []T
	ended error
	one   bool          // for one invoice
	wake  chan struct{} // holds a token when there may be something new
}

func newStream[T any](wants func(T) bool) *stream[T] {
	return &stream[T]{wants: wants, wake: make(chan struct{}, 1)}
}

func (s *stream[T]) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func publish[T any](to []*stream[T], event T, repeat int) {
	for _, s := range to {
		if !s.wants(event) {
			continue
		}
		for range 1 + repeat {
			s.queue = append(s.queue, event)
		}
		s.signal()
	}
}

func drop[T any](all []*stream[T]) {
	for _, s := range all {
		s.queue, s.ended = nil, ErrStreamLost
		s.signal()
	}
}

func release[T any](all []*stream[T], shuffle func(n int, swap func(i, j int))) {
	for _, s := range all {
		if shuffle != nil {
			shuffle(len(s.queue), func(i, j int) { s.queue[i], s.queue[j] = s.queue[j], s.queue[i] })
		}
		s.signal()
	}
}

// follow passes the stream's events to on, in the caller's goroutine, until on says stop or fails, or the stream ends.
func follow[T any](ctx context.Context, n *Node, s *stream[T], on func(T) (stop bool, err error)) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		event, ok, err := take(n, s)
		if err != nil {
			return err
		}
		if !ok {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			continue
		}
		if stop, err := on(event); err != nil || stop {
			return err
		}
	}
}

func take[T any](n *Node, s *stream[T]) (event T, ok bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.ended != nil {
		return event, false, s.ended
	}
	if n.faults.holding || n.faults.hung != nil || len(s.queue) == 0 {
		return event, false, nil
	}
	event, s.queue = s.queue[0], s.queue[1:]
	return event, true, nil
}

// WatchInvoices implements paidaction.NodeEvents with LND's habits. Two of these deserve a warning. The replay of added
// invoices shows each in its present state and omits those now ACCEPTED or CANCELED, so its add indices have gaps. And
// an index above the node's own, as after Wipe, silences the stream until the node has caught up with it.
func (n *Node) WatchInvoices(ctx context.Context, addIndex, settleIndex uint64, on func(paidaction.InvoiceEvent) error) error {
	s := newStream(func(e paidaction.InvoiceEvent) bool {
		switch e.State {
		case paidaction.InvoiceOpen:
			return e.AddIndex > addIndex
		case paidaction.InvoiceSettled:
			return e.SettleIndex > settleIndex
		}
		return false
	})
	err := n.call(ctx, MethodWatchInvoices, paidaction.Hash{}, func() error {
		if addIndex > 0 {
			for _, inv := range after(n.added, addIndex) {
				if inv.State == paidaction.InvoiceOpen || inv.State == paidaction.InvoiceSettled {
					s.queue = append(s.queue, inv.event())
				}
			}
		}
		if settleIndex > 0 {
			for _, inv := range after(n.settled, settleIndex) {
				s.queue = append(s.queue, inv.event())
			}
		}
		n.invoiceStreams = append(n.invoiceStreams, s)
		n.streamsChanged()
		return nil
	})
	defer n.leave(func() { n.invoiceStreams = without(n.invoiceStreams, s) })
	if err != nil {
		return err
	}
	return follow(ctx, n, s, func(e paidaction.InvoiceEvent) (bool, error) { return false, on(e) })
}

// WatchInvoice implements paidaction.NodeEvents. If the node does not know the invoice, it waits until there is one, as
// LND does.
func (n *Node) WatchInvoice(ctx context.Context, h paidaction.Hash, on func(paidaction.InvoiceEvent) error) error {
	s := newStream(func(e paidaction.InvoiceEvent) bool { return e.Hash == h })
	s.one = true
	err := n.call(ctx, MethodWatchInvoice, h, func() error {
		if inv, ok := n.invoices[h]; ok {
			s.queue = append(s.queue, inv.event())
		}
		n.invoiceStreams = append(n.invoiceStreams, s)
		n.streamsChanged()
		return nil
	})
	defer n.leave(func() { n.invoiceStreams = without(n.invoiceStreams, s) })
	if err != nil {
		return err
	}
	return follow(ctx, n, s, func(e paidaction.InvoiceEvent) (bool, error) {
		e.AddIndex = 0
		final := e.State == paidaction.InvoiceSettled || e.State == paidaction.InvoiceCanceled
		return final, on(e)
	})
}

// WatchBlocks implements paidaction.NodeEvents.
func (n *Node) WatchBlocks(ctx context.Context, on func(height uint32) error) error {
	s := newStream(func(uint32) bool { return true })
	err := n.call(ctx, MethodWatchBlocks, paidaction.Hash{}, func() error {
		s.queue = append(s.queue, n.height)
		n.blockStreams = append(n.blockStreams, s)
		n.streamsChanged()
		return nil
	})
	defer n.leave(func() { n.blockStreams = without(n.blockStreams, s) })
	if err != nil {
		return err
	}
	return follow(ctx, n, s, func(height uint32) (bool, error) { return false, on(height) })
}

// Watched is how many streams of single invoices are open.
func (n *Node) Watched() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := 0
	for _, s := range n.invoiceStreams {
		if s.one && s.ended == nil {
			open++
		}
	}
	return open
}

// AwaitStreams waits until at least count streams are open.
func (n *Node) AwaitStreams(ctx context.Context, count int) error {
	for {
		n.mu.Lock()
		open, changed := 0, n.changed
		for _, s := range n.invoiceStreams {
			if s.ended == nil {
				open++
			}
		}
		for _, s := range n.blockStreams {
			if s.ended == nil {
				open++
			}
		}
		n.mu.Unlock()
		if open >= count {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (i *invoice) event() paidaction.InvoiceEvent {
	return paidaction.InvoiceEvent{
		Hash: i.Request.Hash, State: i.State, AddIndex: i.AddIndex, SettleIndex: i.SettleIndex,
	}
}

// publish tells every stream that the invoice has changed its state. n.mu is held.
func (n *Node) publish(inv *invoice) { publish(n.invoiceStreams, inv.event(), n.faults.repeat) }

// leave removes a stream whose reader has gone.
func (n *Node) leave(remove func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	remove()
	n.streamsChanged()
}

func (n *Node) streamsChanged() {
	close(n.changed)
	n.changed = make(chan struct{})
}

func without[T any](all []*stream[T], s *stream[T]) []*stream[T] {
	return slices.DeleteFunc(all, func(other *stream[T]) bool { return other == s })
}

// after are the invoices above an index; indices count from 1.
func after(all []*invoice, index uint64) []*invoice {
	if index >= uint64(len(all)) {
		return nil
	}
	return all[index:]
}
