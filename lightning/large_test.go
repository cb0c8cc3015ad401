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

// large is more than what is read beside other answers.
const large = 65 << 20

// Whoever has an invoice can make it as large as they like, by parts that cost nothing, since they go back. It is seen
// like any other, and hides none.
func TestAnInvoiceOfAnySizeIsSeen(t *testing.T) {
	t.Parallel()
	_, server, node := fixture(t)
	cfg := server.Config()
	cfg.CallTimeout = 2 * time.Minute // a busy machine takes long for that much
	c := server.Dial(cfg)
	all := []paidaction.InvoiceRequest{request(1, false), request(2, false), request(3, false)}
	big := all[1]
	server.BulkOf(big.Hash, large)
	for _, r := range all {
		if _, err := node.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.LookupInvoice(t.Context(), big.Hash); err != nil || got.State != paidaction.InvoiceSettled || got.Received != big.Amount {
		t.Errorf("looked up: %s with %d msat, %v", got.State, got.Received, err)
	}
	told, enough := map[paidaction.Hash]bool{}, errors.New("both are told")
	err := c.WatchInvoices(t.Context(), 1, 1, func(e paidaction.InvoiceEvent) error { // from the first on
		if told[e.Hash] = true; len(told) == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("the stream told of %d of 2: %v", len(told), err)
	}
	listed := map[paidaction.Hash]bool{}
	err = c.EachSettled(t.Context(), time.Unix(0, 0), func(v paidaction.NodeInvoice) error { listed[v.Hash] = true; return nil })
	if err != nil || len(listed) != len(all) {
		t.Errorf("%d of %d are listed, %v", len(listed), len(all), err)
	}
}

// One large answer at a time is read, lest they take all memory. Who comes second is not kept waiting, and gets it
// later; a stream keeps nobody from reading once it has told how its invoice stands.
func TestOneReadsALargeAnswer(t *testing.T) {
	t.Parallel()
	_, server, node := fixture(t)
	cfg := server.Config()
	cfg.CallTimeout = 2 * time.Minute
	c := server.Dial(cfg)
	r := request(1, true)
	server.BulkOf(r.Hash, large)
	if _, err := node.Add(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	states := make(chan paidaction.InvoiceState, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- c.WatchInvoice(ctx, r.Hash, func(e paidaction.InvoiceEvent) error { states <- e.State; return nil })
	}()
	tells := func(want paidaction.InvoiceState) {
		t.Helper()
		select {
		case s := <-states:
			if s != want {
				t.Errorf("the stream told of %s, not %s", s, want)
			}
		case err := <-ended:
			t.Fatal(err)
		}
	}
	tells(paidaction.InvoiceOpen)
	came, stands := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(stands) })
	defer release() // the server waits for its calls when it is stopped
	reads := 0
	var hold func(paidaction.Hash)
	hold = func(paidaction.Hash) {
		if reads++; reads == 1 { // the one that turns out to be too large
			node.Before(simnode.MethodLookup, hold)
			return
		}
		close(came)
		<-stands
	}
	node.Before(simnode.MethodLookup, hold)
	looked := make(chan error, 1)
	go func() { _, err := c.LookupInvoice(t.Context(), r.Hash); looked <- err }()
	select {
	case <-came:
	case err := <-looked:
		t.Fatal(err)
	}
	if _, err := c.LookupInvoice(t.Context(), r.Hash); !errors.Is(err, lightning.ErrUnreachable) {
		t.Errorf("a second one beside it: %v", err)
	}
	release()
	if err := <-looked; err != nil {
		t.Error(err)
	}
	if err := node.PayHash(r.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	tells(paidaction.InvoiceAccepted)
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
