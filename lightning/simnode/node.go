// Package simnode is a Lightning node in memory that behaves towards the engine as LND 0.21 does: the same states,
// indices, refusals and silences, in a network that is simulated too. It does nothing on its own: no goroutines, no
// clock but the one it is given, no randomness. A test says when time passes (Tick), blocks arrive (Mine) and payers
// pay (PayHash), what the node's payees do (Receiver), and when things break (the methods in fault.go).
package simnode

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Numbers of blocks in LND: see lncfg.DefaultHoldInvoiceExpiryDelta, lncfg.DefaultFinalCltvRejectDelta,
// routing.MinCLTVDelta and chainreg.DefaultBitcoinTimeLockDelta of 0.21.
const (
	HoldExpiryDelta = 18 // an accepted hold invoice is cancelled this many blocks before its first HTLC expires
	rejectDelta     = 19 // an HTLC that expires sooner than this is refused
	minCLTVDelta    = 24 // the smallest final CLTV an invoice may ask for
	defaultCLTV     = 80 // the final CLTV of an invoice that asks for none
)

// senderPadding is how many blocks senders add to the final CLTV, so that blocks found during the payment do no harm.
const senderPadding = 3

// What the node answers, besides paidaction.ErrInvoiceNotFound. The methods of paidaction.Node return answers for those
// of these errors that are answers.
var (
	ErrDuplicate       = errors.New("invoice with payment hash already exists")
	ErrStillOpen       = errors.New("invoice still open")
	ErrAlreadySettled  = errors.New("invoice already settled")
	ErrAlreadyCanceled = errors.New("invoice already canceled")
)

// Node is one simulated node. It is safe for concurrent use.
type Node struct {
	name string
	net  *Network
	mu   *sync.Mutex // the network's

	key      string // public, in hex
	invoices map[paidaction.Hash]*invoice
	added    []*invoice // by add index, from 1
	settled  []*invoice // by settle index, from 1
	live     []*invoice // OPEN or ACCEPTED, by add index; final ones are dropped from time to time
	parts    uint64     // HTLCs seen, so that each has its own PartID
	payments map[paidaction.Hash]*payment
	probes   map[paidaction.Hash]paidaction.PaymentUpdate
	given    uint64 // number of all payments, so that each has its own id
	balance  paidaction.Msat
	reserved paidaction.Msat // part of the balance
	slots    int64           // of its channel
	route    Route
	height   uint32
	encode   Encoder

	faults         faults
	calls          []Call
	invoiceStreams []*stream[paidaction.InvoiceEvent]
	blockStreams   []*stream[uint32]
	paymentStreams []*stream[paidaction.PaymentUpdate]
	changed        chan struct{} // closed and replaced whenever a stream opens or ends
}

var (
	_ paidaction.SendingNode = (*Node)(nil)
	_ paidaction.NodeEvents  = (*Node)(nil)
)

// New returns a node in its own network, at height 100, synced, without invoices. The clock decides when invoices
// expire.
func New(name string, clock func() time.Time) *Node { return NewNetwork(clock).AddNode(name) }

// AddNode adds a synced node without invoices that can send 10,000,000 sats. Names are unique in a network, among nodes
// and receivers.
func (net *Network) AddNode(name string) *Node {
	n := &Node{
		name:     name,
		net:      net,
		mu:       &net.mu,
		key:      publicKey(name),
		invoices: make(map[paidaction.Hash]*invoice),
		payments: make(map[paidaction.Hash]*payment),
		probes:   make(map[paidaction.Hash]paidaction.PaymentUpdate),
		balance:  10_000_000_000,
		slots:    maxAcceptedHTLCs,
		route:    standardRoute,
		faults:   newFaults(),
		changed:  make(chan struct{}),
	}
	n.encode = n.encodeOwn
	net.mu.Lock()
	defer net.mu.Unlock()
	n.height = net.height
	net.nodes = append(net.nodes, n)
	net.join(n.key, n)
	return n
}

// Network is the network that the node belongs to.
func (n *Node) Network() *Network { return n.net }

// Name is the name the node was given.
func (n *Node) Name() string { return n.name }

// OpenInvoice implements paidaction.Node.
func (n *Node) OpenInvoice(ctx context.Context, r paidaction.InvoiceRequest) (string, error) {
	inv, err := n.Add(ctx, r)
	if errors.Is(err, ErrDuplicate) {
		err = inv.NodeInvoice().IsFor(r)
	}
	if err != nil {
		return "", err
	}
	return inv.Bolt11, nil
}

// LookupInvoice implements paidaction.Node.
func (n *Node) LookupInvoice(ctx context.Context, h paidaction.Hash) (paidaction.NodeInvoice, error) {
	inv, err := n.Lookup(ctx, h)
	if err != nil {
		return paidaction.NodeInvoice{}, err
	}
	return inv.NodeInvoice(), nil
}

// SettleInvoice implements paidaction.Node. It returns ErrStillOpen while nothing is held, ErrAlreadyCanceled once the
// held payment was given back, and paidaction.ErrInvoiceNotFound.
func (n *Node) SettleInvoice(ctx context.Context, p paidaction.Preimage) error {
	err := n.Settle(ctx, p)
	if errors.Is(err, ErrAlreadySettled) {
		return nil
	}
	return err
}

// CancelInvoice implements paidaction.Node.
func (n *Node) CancelInvoice(ctx context.Context, h paidaction.Hash) error {
	err := n.Cancel(ctx, h)
	if errors.Is(err, ErrAlreadySettled) {
		return nil
	}
	return err
}

// EachSettled implements paidaction.Node.
func (n *Node) EachSettled(ctx context.Context, since time.Time, on func(paidaction.NodeInvoice) error) error {
	var settled []Invoice
	err := n.call(ctx, MethodEachSettled, paidaction.Hash{}, func() error {
		for _, inv := range n.added {
			if inv.State == paidaction.InvoiceSettled && !inv.Created.Before(since) {
				settled = append(settled, inv.copy())
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, inv := range settled {
		if err := on(inv.NodeInvoice()); err != nil {
			return err
		}
	}
	return nil
}

// Chain implements paidaction.Node.
func (n *Node) Chain(ctx context.Context) (c paidaction.Chain, err error) {
	err = n.call(ctx, MethodChain, paidaction.Hash{}, func() error {
		c = paidaction.Chain{Height: n.height, Synced: !n.faults.unsynced}
		return nil
	})
	return c, err
}
