package nodetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func presentState(t *testing.T, w *world) {
	r := w.request(false)
	w.pay(w.open(r))
	w.await(r.Hash, paidaction.InvoiceSettled)
	var states []paidaction.InvoiceState
	err := w.Events().WatchInvoice(w.ctx, r.Hash, func(e paidaction.InvoiceEvent) error {
		if e.Hash != r.Hash || e.AddIndex != 0 || e.SettleIndex == 0 {
			t.Errorf("%+v", e)
		}
		states = append(states, e.State)
		return nil
	})
	if err != nil || !slices.Equal(states, []paidaction.InvoiceState{paidaction.InvoiceSettled}) {
		t.Fatalf("%v %v", err, states)
	}
}

// watchedBefore: the stream of an invoice that the node does not know yet waits for it.
func watchedBefore(t *testing.T, w *world) {
	r := w.request(true)
	short, cancel := context.WithCancel(w.ctx)
	defer time.AfterFunc(200*time.Millisecond, cancel).Stop() // a deadline would go to the node, which can be the first to see it pass
	err := w.Events().WatchInvoice(short, r.Hash, func(e paidaction.InvoiceEvent) error {
		t.Errorf("%+v", e)
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("an invoice that does not exist: %v", err)
	}
	told := make(chan paidaction.InvoiceEvent, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- w.Events().WatchInvoice(w.ctx, r.Hash, func(e paidaction.InvoiceEvent) error { told <- e; return nil })
	}()
	w.pay(w.open(r))
	w.await(r.Hash, paidaction.InvoiceAccepted)
	w.must(w.Node().CancelInvoice(w.ctx, r.Hash))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	close(told)
	var last paidaction.InvoiceState
	for e := range told {
		if e.Hash != r.Hash || e.State == last {
			t.Errorf("%+v after %s", e, last)
		}
		last = e.State
	}
	if last != paidaction.InvoiceCanceled {
		t.Errorf("the last event was %s", last)
	}
}

// follow runs WatchInvoices in the background and returns its events. They end with the test.
func (w *world) follow(addIndex, settleIndex uint64) <-chan paidaction.InvoiceEvent {
	ctx, cancel := context.WithCancel(w.ctx)
	events := make(chan paidaction.InvoiceEvent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := w.Events().WatchInvoices(ctx, addIndex, settleIndex, func(e paidaction.InvoiceEvent) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if !errors.Is(err, context.Canceled) {
			w.t.Errorf("the stream of invoices ended: %v", err)
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	return events
}

// next waits for an event of one of the hashes; events of others belong to other tests.
func (w *world) next(events <-chan paidaction.InvoiceEvent, of ...paidaction.Hash) paidaction.InvoiceEvent {
	w.t.Helper()
	for {
		select {
		case e := <-events:
			if slices.Contains(of, e.Hash) {
				return e
			}
		case <-w.ctx.Done():
			w.t.Fatal("no event came")
		}
	}
}

// joined opens invoices until one shows up in events, so that the stream is known to be open, and returns that
// invoice's event. Nothing may be told of the earlier one.
func (w *world) joined(events <-chan paidaction.InvoiceEvent, earlier paidaction.Hash) paidaction.InvoiceEvent {
	w.t.Helper()
	var mine []paidaction.Hash
	for {
		r := w.request(false)
		mine = append(mine, r.Hash)
		w.open(r)
		select {
		case e := <-events:
			if e.Hash == earlier {
				w.t.Fatalf("replayed %+v", e)
			}
			if slices.Contains(mine, e.Hash) {
				return e
			}
		case <-w.ctx.Done():
			w.t.Fatal("no event came")
		default:
		}
	}
}

func allInvoices(t *testing.T, w *world) {
	before := w.request(false)
	w.pay(w.open(before))
	w.await(before.Hash, paidaction.InvoiceSettled)

	// From index 0 nothing is replayed.
	live := w.follow(0, 0)
	first := w.joined(live, before.Hash)
	if first.State != paidaction.InvoiceOpen || first.AddIndex == 0 || first.SettleIndex != 0 {
		t.Fatalf("the first event: %+v", first)
	}

	// A held payment and its return are not reported; a settled one is.
	held, paid, last, still := w.request(true), w.request(false), w.request(false), w.request(true)
	w.pay(w.open(still))
	w.await(still.Hash, paidaction.InvoiceAccepted)
	w.pay(w.open(held))
	w.await(held.Hash, paidaction.InvoiceAccepted)
	w.must(w.Node().CancelInvoice(w.ctx, held.Hash))
	w.pay(w.open(paid))
	w.await(paid.Hash, paidaction.InvoiceSettled)
	w.open(last)
	all := []paidaction.Hash{before.Hash, still.Hash, held.Hash, paid.Hash, last.Hash}
	var settled paidaction.InvoiceEvent
	index := first.AddIndex
	for _, want := range []struct {
		hash  paidaction.Hash
		state paidaction.InvoiceState
	}{
		{still.Hash, paidaction.InvoiceOpen},
		{held.Hash, paidaction.InvoiceOpen},
		{paid.Hash, paidaction.InvoiceOpen},
		{paid.Hash, paidaction.InvoiceSettled},
		{last.Hash, paidaction.InvoiceOpen},
	} {
		e := w.next(live, all...)
		if e.Hash != want.hash || e.State != want.state {
			t.Fatalf("got %+v, want %s %s", e, want.hash, want.state)
		}
		if e.State == paidaction.InvoiceSettled {
			settled = e
			continue
		}
		if e.AddIndex <= index {
			t.Fatalf("add index %d after %d", e.AddIndex, index)
		}
		index = e.AddIndex
	}
	if settled.SettleIndex == 0 {
		t.Fatalf("settled without an index: %+v", settled)
	}

	// From an index on, everything is replayed in its present state, except what is held or was cancelled.
	replay := w.follow(first.AddIndex, 0)
	if e := w.next(replay, all...); e.Hash != paid.Hash || e.State != paidaction.InvoiceSettled {
		t.Fatalf("replayed %+v", e)
	}
	if e := w.next(replay, all...); e.Hash != last.Hash || e.State != paidaction.InvoiceOpen {
		t.Fatalf("replayed %+v", e)
	}
	w.pay(w.lookup(last.Hash, paidaction.InvoiceOpen).Bolt11)
	w.await(last.Hash, paidaction.InvoiceSettled)
	if e := w.next(w.follow(0, settled.SettleIndex), all...); e.Hash != last.Hash || e.SettleIndex <= settled.SettleIndex {
		t.Fatalf("replayed %+v", e)
	}
	w.must(w.Node().CancelInvoice(w.ctx, still.Hash))
}

func streamsEnd(t *testing.T, w *world) {
	r := w.request(true)
	w.open(r)
	mine := errors.New("mine")
	if err := w.Events().WatchInvoice(w.ctx, r.Hash, func(paidaction.InvoiceEvent) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("one invoice: %v", err)
	}
	if err := w.Events().WatchBlocks(w.ctx, func(uint32) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("blocks: %v", err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	err := w.Events().WatchInvoice(ctx, r.Hash, func(paidaction.InvoiceEvent) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// blocks holds a payment, and mines until LND gives it back 18 blocks before the HTLC expires.
func blocks(t *testing.T, w *world) {
	chain, err := w.Node().Chain(w.ctx)
	w.must(err)
	if !chain.Synced {
		t.Fatal("the node is behind the chain")
	}
	r := w.request(true)
	w.pay(w.open(r))
	held := w.await(r.Hash, paidaction.InvoiceAccepted)
	last := held.ExpiryHeight - 18
	if last <= chain.Height {
		t.Fatalf("held until %d at height %d", last, chain.Height)
	}
	mined, reached := false, errors.New("reached")
	err = w.Events().WatchBlocks(w.ctx, func(height uint32) error {
		if !mined {
			if height < chain.Height {
				t.Errorf("height %d after %d", height, chain.Height)
			}
			mined = true
			return w.MineBlocks(w.ctx, last-1-height)
		}
		switch {
		case height == last-1:
			w.lookup(r.Hash, paidaction.InvoiceAccepted)
			return w.MineBlocks(w.ctx, 1)
		case height >= last:
			return reached
		}
		return nil
	})
	if !errors.Is(err, reached) {
		t.Fatal(err)
	}
	if v := w.await(r.Hash, paidaction.InvoiceCanceled); v.Received != 0 {
		t.Fatalf("given back: %+v", v)
	}
	w.mustNot("settling what the chain took", w.Node().SettleInvoice(w.ctx, r.Preimage))
}
