package relay_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Simulated nodes live in one process; others reach them over a socket.

// Question is one call of a node's method.
type Question struct {
	Node     string
	Method   simnode.Method
	Bolt11   string
	Hash     paidaction.Hash
	Preimage paidaction.Preimage
	Payment  paidaction.PaymentRequest
	Left     time.Duration // until the caller's deadline; 0: there is none
}

// Answer is what came of it.
type Answer struct {
	Meaning int    // from 1: the error of meanings
	Error   string // empty: none
	Invoice paidaction.NodeInvoice
	Chain   paidaction.Chain
	Bolt11  paidaction.Bolt11
	Msat    paidaction.Msat
	Key     string
	Time    time.Time
	Updates []paidaction.PaymentUpdate
}

// meanings are the errors that callers tell apart.
var meanings = []error{paidaction.ErrInvoiceNotFound, paidaction.ErrPaymentNotFound, paidaction.ErrPaymentExists, simnode.ErrUnavailable}

// Counter answers questions. net/rpc wants it exported.
type Counter struct{ nodes simnode.Nodes }

// Ask is the one method.
func (c *Counter) Ask(q Question, a *Answer) error {
	n, err := c.nodes.Sender(q.Node)
	if err == nil {
		ctx, cancel := context.Background(), func() {}
		if q.Left > 0 {
			ctx, cancel = context.WithTimeout(ctx, q.Left)
		}
		err = a.from(ctx, n, q)
		cancel()
	}
	if err == nil {
		return nil
	}
	a.Error = err.Error()
	for i, m := range meanings {
		if errors.Is(err, m) {
			a.Meaning = i + 1
		}
	}
	return nil
}

// from asks the node.
func (a *Answer) from(ctx context.Context, n paidaction.SendingNode, q Question) (err error) {
	keep := func(u paidaction.PaymentUpdate) error { a.Updates = append(a.Updates, u); return nil }
	switch q.Method {
	case simnode.MethodLookup:
		a.Invoice, err = n.LookupInvoice(ctx, q.Hash)
	case simnode.MethodSettle:
		err = n.SettleInvoice(ctx, q.Preimage)
	case simnode.MethodCancel:
		err = n.CancelInvoice(ctx, q.Hash)
	case simnode.MethodChain:
		a.Chain, err = n.Chain(ctx)
	case simnode.MethodDecode:
		a.Bolt11, err = n.DecodeInvoice(ctx, q.Bolt11)
	case simnode.MethodSendable:
		a.Msat, err = n.Sendable(ctx)
	case simnode.MethodPublicKey:
		a.Key, err = n.PublicKey(ctx)
	case simnode.MethodTime:
		a.Time, err = n.Time(ctx)
	case simnode.MethodPay:
		err = n.Pay(ctx, q.Payment, keep)
	case simnode.MethodTrack: // the present state alone: who wants more asks again
		enough := errors.New("enough")
		err = n.TrackPayment(ctx, q.Hash, func(u paidaction.PaymentUpdate) error { return errors.Join(keep(u), enough) })
		if errors.Is(err, enough) {
			err = nil
		}
	default:
		err = fmt.Errorf("nobody asks for %s over the socket", q.Method)
	}
	return err
}

// serveNodes lets other processes reach the nodes, until the test ends.
func serveNodes(t *testing.T, nodes simnode.Nodes) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "nodes")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer()
	if err := server.Register(&Counter{nodes}); err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { server.ServeConn(conn) }) // until the other process ends
		}
	})
	t.Cleanup(func() { listener.Close(); open.Wait() })
	return socket
}

// farNodes are nodes behind a socket.
type farNodes struct {
	conn  *rpc.Client
	names []string
}

func (f farNodes) Names() []string                                 { return f.names }
func (f farNodes) Ours() []string                                  { return f.names }
func (f farNodes) Sender(n string) (paidaction.SendingNode, error) { return farNode{f.conn, n}, nil }
func (f farNodes) Node(n string) (paidaction.Node, error)          { return farNode{f.conn, n}, nil }
func (f farNodes) Issuer(context.Context) (string, error)          { return f.names[0], nil }

type farNode struct {
	conn *rpc.Client
	name string
}

func (n farNode) ask(ctx context.Context, q Question) (*Answer, error) {
	q.Node = n.name
	if end, ok := ctx.Deadline(); ok {
		q.Left = max(time.Until(end), 1)
	}
	a := &Answer{}
	select {
	case call := <-n.conn.Go("Counter.Ask", q, a, make(chan *rpc.Call, 1)).Done:
		switch {
		case call.Error != nil:
			return &Answer{}, call.Error
		case a.Meaning > 0:
			return a, fmt.Errorf("%w: %s", meanings[a.Meaning-1], a.Error)
		case a.Error != "":
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return &Answer{}, ctx.Err() // the other one may still be written to
	}
}

func (n farNode) LookupInvoice(ctx context.Context, h paidaction.Hash) (paidaction.NodeInvoice, error) {
	a, err := n.ask(ctx, Question{Method: simnode.MethodLookup, Hash: h})
	return a.Invoice, err
}

func (n farNode) SettleInvoice(ctx context.Context, p paidaction.Preimage) error {
	_, err := n.ask(ctx, Question{Method: simnode.MethodSettle, Preimage: p})
	return err
}

func (n farNode) CancelInvoice(ctx context.Context, h paidaction.Hash) error {
	_, err := n.ask(ctx, Question{Method: simnode.MethodCancel, Hash: h})
	return err
}

func (n farNode) Chain(ctx context.Context) (paidaction.Chain, error) {
	a, err := n.ask(ctx, Question{Method: simnode.MethodChain})
	return a.Chain, err
}

func (n farNode) DecodeInvoice(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	a, err := n.ask(ctx, Question{Method: simnode.MethodDecode, Bolt11: bolt11})
	return a.Bolt11, err
}

func (n farNode) Sendable(ctx context.Context) (paidaction.Msat, error) {
	a, err := n.ask(ctx, Question{Method: simnode.MethodSendable})
	return a.Msat, err
}

func (n farNode) PublicKey(ctx context.Context) (string, error) {
	a, err := n.ask(ctx, Question{Method: simnode.MethodPublicKey})
	return a.Key, err
}

func (n farNode) Time(ctx context.Context) (time.Time, error) {
	a, err := n.ask(ctx, Question{Method: simnode.MethodTime})
	return a.Time, err
}

func (n farNode) Pay(ctx context.Context, r paidaction.PaymentRequest, on func(paidaction.PaymentUpdate) error) error {
	a, err := n.ask(ctx, Question{Method: simnode.MethodPay, Payment: r})
	return errors.Join(each(a.Updates, on), err)
}

func (n farNode) TrackPayment(ctx context.Context, h paidaction.Hash, on func(paidaction.PaymentUpdate) error) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		a, err := n.ask(ctx, Question{Method: simnode.MethodTrack, Hash: h})
		if err != nil {
			return err
		}
		if err := each(a.Updates, on); err != nil || a.Updates[len(a.Updates)-1].State != paidaction.PaymentInFlight {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func each(updates []paidaction.PaymentUpdate, on func(paidaction.PaymentUpdate) error) error {
	for _, u := range updates {
		if err := on(u); err != nil {
			return err
		}
	}
	return nil
}

// Nobody in the pipeline opens invoices, looks for routes or lists payments.
var errNotHere = errors.New("not over the socket")

func (farNode) OpenInvoice(context.Context, paidaction.InvoiceRequest) (string, error) {
	return "", errNotHere
}

func (farNode) Channels(context.Context) ([]paidaction.Channel, error) { return nil, errNotHere }

func (farNode) EstimateRoute(context.Context, paidaction.RouteRequest) (paidaction.Route, error) {
	return paidaction.Route{}, errNotHere
}

func (farNode) EachSettled(context.Context, time.Time, func(paidaction.NodeInvoice) error) error {
	return errNotHere
}

func (farNode) EachPayment(context.Context, time.Time, func(paidaction.PaymentUpdate, time.Time) error) error {
	return errNotHere
}
