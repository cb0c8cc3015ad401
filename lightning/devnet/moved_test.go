package devnet_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// movedToNativeSQL: a node whose invoices move from buckets into tables counts the settled ones from 1 again. A client
// that goes on from its old index is still told of the next payment, and what was held before can be taken.
func movedToNativeSQL(t *testing.T, c *lightning.Client, network *devnet.Network) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	issue := func(hold bool) (paidaction.Preimage, string) {
		var p paidaction.Preimage
		rand.Read(p[:]) // never fails
		bolt11, err := c.OpenInvoice(ctx, paidaction.InvoiceRequest{Hash: p.Hash(), Preimage: p, Amount: 50_000, Expiry: time.Hour, Hold: hold, CLTVDelta: 100})
		if err != nil {
			t.Fatal(err)
		}
		return p, bolt11
	}
	// paid pays an invoice, and returns what a stream from these indices reports. LND does not say when a stream has
	// begun, and what was paid before is not reported: then it pays another one.
	const most = 3
	paid := func(addIndex, settleIndex uint64) (told paidaction.InvoiceEvent) {
		events := make(chan paidaction.InvoiceEvent, 1000)
		following, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			_ = c.WatchInvoices(following, addIndex, settleIndex, func(e paidaction.InvoiceEvent) error { events <- e; return nil })
		}()
		for range most {
			p, bolt11 := issue(false)
			if p, err := network.Node(devnet.Payer).Pay(ctx, bolt11); err != nil || !p.Settled {
				t.Fatalf("%+v, %v", p, err)
			}
			for late := time.After(5 * time.Second); ; {
				select {
				case e := <-events:
					if e.Hash == p.Hash() && e.State == paidaction.InvoiceSettled {
						return e
					}
					continue
				case <-late:
				}
				break
			}
		}
		t.Fatalf("from %d, %d nothing is told of %d payments", addIndex, settleIndex, most)
		return told
	}
	before := paid(0, 0)
	for before.SettleIndex <= most { // what is paid after the move must not come to where it was
		before = paid(0, 0)
	}
	held, bolt11 := issue(true)
	outcome := make(chan devnet.Payment, 1)
	go func() {
		p, _ := network.Node(devnet.Payer).Pay(ctx, bolt11)
		outcome <- p
	}()
	awaitState(t, c, held.Hash(), paidaction.InvoiceAccepted)

	network.StopNode(devnet.Holdfast)
	path := filepath.Join(filepath.Dir(network.Node(devnet.Holdfast).TLSCert()), "lnd.conf")
	settings, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendln(settings, "db.use-native-sql=1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := network.StartNode(ctx, devnet.Holdfast); err != nil {
		t.Fatal(err)
	}
	if after := paid(before.AddIndex, before.SettleIndex); after.SettleIndex > before.SettleIndex {
		t.Errorf("LND goes on counting now, from %d to %d: the second stream is in vain", before.SettleIndex, after.SettleIndex)
	}
	if err := c.SettleInvoice(ctx, held); err != nil {
		t.Error(err)
	}
	if p := <-outcome; !p.Settled {
		t.Errorf("what was held before: %+v", p)
	}
}
