// Package fakenode is a Lightning node for benchmarks, in a separate process. It speaks LND's gRPC on a port, with TLS
// and a macaroon, in front of a simulated node, and also plays its payers. So its cost is not attributed to the
// service. It records when each payment came.
package fakenode

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/lndtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Place is how to reach a node.
type Place struct {
	Address     string
	Certificate string // PEM
	Macaroon    string // hex
}

// Places are the first output of the process: the service's node, and one that issues receivers' invoices. The first
// reaches the second.
type Places struct{ Node, Receiver Place }

// Order says which invoices of the service's node to pay, to make, or to watch: one of these.
type Order struct {
	Hashes  []paidaction.Hash
	Rate    float64 // payments a second, each at its moment; 0: as fast as the node takes them
	Open    []paidaction.InvoiceRequest
	Watched int // answer once this many invoices have a subscription each; an earlier, empty answer comes once none has
}

// Done is the outcome of an order.
type Done struct {
	Paid    []time.Time // when each was paid, which is when the node reports it; in the order of the hashes
	Bolt11s []string    // of the invoices that were made, in the order of the requests
	Watched time.Time   // when the last invoice was subscribed to
	Failed  string      // why the first failure happened; nothing more was done after it
}

// plenty is what the node can send, in msat.
const plenty = 1_000_000_000_000

// Serve is the process: it writes where its nodes are, and carries out orders until there are no more. Both are lines
// of JSON.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	net := simnode.NewNetwork(time.Now)
	node, receiver := net.AddNode("holdfast"), net.AddNode("receiver")
	ours, err := lndtest.Listen(node)
	if err != nil {
		return fmt.Errorf("serve the node: %w", err)
	}
	defer ours.Stop()
	theirs, err := lndtest.Listen(receiver)
	if err != nil {
		return fmt.Errorf("serve the receivers' node: %w", err)
	}
	defer theirs.Stop()
	ours.SetLocalBalance(plenty)
	ours.Reaches(theirs)
	say := json.NewEncoder(out)
	if err := say.Encode(Places{place(ours), place(theirs)}); err != nil {
		return err
	}
	for orders := json.NewDecoder(bufio.NewReader(in)); ; {
		var o Order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		var done Done
		switch {
		case o.Watched > 0:
			if done = forgotten(ctx, node); done.Failed != "" {
				break
			}
			if err := say.Encode(done); err != nil {
				return err
			}
			done = watched(ctx, node, o.Watched)
		case len(o.Open) > 0:
			done = open(ctx, node, o)
		default:
			done = pay(ctx, node, o)
		}
		node.ForgetCalls() // otherwise it would remember every call
		if err := say.Encode(done); err != nil {
			return err
		}
	}
}

func place(s *lndtest.Server) Place {
	c := s.Config()
	return Place{Address: c.Address, Certificate: string(c.TLSCertPEM), Macaroon: c.MacaroonHex}
}

// open makes invoices that the service was not asked for.
func open(ctx context.Context, node *simnode.Node, o Order) (done Done) {
	for _, r := range o.Open {
		bolt11, err := node.OpenInvoice(ctx, r)
		if err != nil {
			done.Failed = err.Error()
			return done
		}
		done.Bolt11s = append(done.Bolt11s, bolt11)
	}
	return done
}

// pay pays the invoices; no payment waits for the outcome of earlier ones.
func pay(ctx context.Context, node *simnode.Node, o Order) (done Done) {
	begun := time.Now()
	for i, h := range o.Hashes {
		if o.Rate > 0 {
			time.Sleep(time.Until(begun.Add(time.Duration(float64(i) / o.Rate * float64(time.Second)))))
		}
		at := time.Now()
		err := ctx.Err()
		if err == nil {
			err = node.PayHash(h, simnode.Payment{})
		}
		if err != nil {
			done.Failed = err.Error()
			return done
		}
		done.Paid = append(done.Paid, at)
	}
	return done
}
