package paidaction

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// Preimage is the secret whose hash an invoice carries. Whoever knows it can claim the payment (BOLT 4).
type Preimage [32]byte

// Hash is a payment hash: the SHA-256 of a preimage.
type Hash [32]byte

// Hash is the payment hash of p.
func (p Preimage) Hash() Hash { return sha256.Sum256(p[:]) }

// IsZero reports whether p is all zeros, which is how nodes say "none" (spec 01 §1.6).
func (p Preimage) IsZero() bool { return p == Preimage{} }

// String is the hash in hex. A Preimage has no String on purpose: it must never reach a log.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ErrInvoiceNotFound says that a node does not know an invoice. It must never be taken for "the payment failed" (spec
// 01 §1.6, "never believe an absence").
var ErrInvoiceNotFound = errors.New("the node does not know this invoice")

// ErrAnotherNode says that the node that answers under a name is not the one that is known by it.
var ErrAnotherNode = errors.New("another node answers")

// What can be wrong with the invoice that a node has under a hash.
var (
	// ErrInvoiceDiffers: it is not the one asked for.
	ErrInvoiceDiffers = errors.New("the invoice with this hash is not the one asked for")
	// ErrInvoiceCanceled: it was cancelled, and any held payment was given back.
	ErrInvoiceCanceled = errors.New("the invoice is cancelled")
)

// InvoiceState is what a node says of an invoice.
type InvoiceState string

// What a node can say. Only hold invoices are ACCEPTED: the payment has arrived and waits for us to settle it.
const (
	InvoiceOpen     InvoiceState = "OPEN"
	InvoiceAccepted InvoiceState = "ACCEPTED"
	InvoiceSettled  InvoiceState = "SETTLED"
	InvoiceCanceled InvoiceState = "CANCELED"
)

// MaxInvoice is the largest amount of an invoice that a node makes: 100,000 bitcoin (LND,
// lnrpc/invoicesrpc/addinvoice.go).
const MaxInvoice Msat = 100_000 * 100_000_000 * 1000

// MaxMemo is how many bytes of description fit into a bolt11 (BOLT 11, field d: 1,023 groups of 5 bits). No node makes
// an invoice with more.
const MaxMemo = 639

// InvoiceRequest is an invoice to open at a node.
type InvoiceRequest struct {
	Hold      bool          // hold the payment until we settle it; otherwise the node settles at once
	Hash      Hash          // of Preimage, or of a receiver's invoice that this one wraps
	Preimage  Preimage      // required for a plain invoice; a hold invoice does not show it to the node yet
	Amount    Msat          // above zero
	Memo      string        // what the payer's wallet shows; at most MaxMemo bytes
	Expiry    time.Duration // whole seconds, above zero: LND reads 0 as a day
	CLTVDelta uint32        // final CLTV in blocks
	// DescriptionHash, unless zero, replaces Memo in the bolt11.
	DescriptionHash [32]byte
}

// NodeInvoice is a node's present view of an invoice.
type NodeInvoice struct {
	Hash         Hash
	State        InvoiceState
	Bolt11       string
	Memo         string // as it was asked for, also where a description hash replaces it in the bolt11
	CLTVDelta    uint32 // final CLTV in blocks, as it was asked for
	Keysend      Msat   // the part of Received that came by keysend, even after settling, from anybody who knows the preimage; without OnChain
	OnChain      Msat   // the part of Received that is SETTLED and that only the chain will show to arrive, or not (Awaits), however it came
	Amount       Msat   // what it asks for
	Holds        bool   // it is a hold invoice; once it is SETTLED this can no longer be told
	Received     Msat   // total of the accepted or settled HTLCs; the node sets no upper limit
	ExpiryHeight uint32 // lowest expiry height of the HTLCs held now (cancelled parts ignored); 0 if there are none
}

// paid is what counts as paid for something that costs this much: not what came by keysend besides, which nobody asked
// for, nor what the chain has yet to pay.
func (v NodeInvoice) paid(cost Msat) Msat {
	return max(v.Received-v.Keysend-v.OnChain, min(v.Received, cost))
}

// Awaits says whether a plain invoice is SETTLED by a payment of this much which may never arrive.
//
// LND looks at the blocks that an HTLC has left when a channel offers it. What it finds offered in a channel that was
// closed by force it takes without looking, and notes 0 as the height: also what had expired before, and what it had
// refused. The payer takes that back on the chain, and a receiver who pays themselves would have our sats for it. A hold
// invoice needs no such question: what it holds is looked at before anything is done for it.
func (v NodeInvoice) Awaits(cost Msat) bool {
	return v.State == InvoiceSettled && v.OnChain > 0 && v.Received-v.OnChain < cost
}

// IsFor checks that the invoice is the one that was asked for and can still be handed to a payer: ErrInvoiceDiffers if
// its amount or kind is different, ErrInvoiceCanceled if nobody can pay it any more. A plain invoice in place of a hold
// invoice would break the promise of spec 01 §1.5. One with another memo or CLTV may be of another program at the same
// node, under the hash of a receiver who has asked both for an invoice: its payment is not our payer's.
func (v NodeInvoice) IsFor(r InvoiceRequest) error {
	switch {
	case v.Hash != r.Hash || v.Amount != r.Amount || v.Bolt11 == "", v.Holds != r.Hold && v.State != InvoiceSettled,
		v.Memo != r.Memo || v.CLTVDelta != r.CLTVDelta && r.CLTVDelta != 0: // 0: as the node likes
		return ErrInvoiceDiffers
	case v.State == InvoiceCanceled:
		return ErrInvoiceCanceled
	}
	return nil
}

// Chain is a node's view of the block chain.
type Chain struct {
	Height uint32 // of the best block the node knows
	Synced bool   // false while the node is behind: it is then given nothing new (spec 01 §1.6)
}

// Node is what the engine, and reconcile, ask of one Lightning node. Every call has its own deadline and may be
// repeated: "already exists", "already settled" and "already cancelled" are successes here, not errors (spec 01 §1.6).
type Node interface {
	// OpenInvoice makes the invoice and returns its bolt11. If the node already has an invoice with this hash, it
	// returns the bolt11 of that one, or the error of NodeInvoice.IsFor.
	OpenInvoice(ctx context.Context, r InvoiceRequest) (bolt11 string, err error)
	// LookupInvoice returns the node's view, or ErrInvoiceNotFound.
	LookupInvoice(ctx context.Context, h Hash) (NodeInvoice, error)
	// SettleInvoice reveals the preimage and so takes the held payment.
	SettleInvoice(ctx context.Context, p Preimage) error
	// CancelInvoice gives a held payment back, or closes an open invoice. It also returns nil if the node has settled
	// the invoice meanwhile: the caller must look up what became of it. ErrInvoiceNotFound where the node does not know
	// it.
	CancelInvoice(ctx context.Context, h Hash) error
	// EachSettled calls on for every invoice that was added to the node since that time and that it has settled.
	// Payments without an invoice (keysend, AMP) are not included.
	EachSettled(ctx context.Context, since time.Time, on func(NodeInvoice) error) error
	// Chain returns the node's view of the chain.
	Chain(ctx context.Context) (Chain, error)
}

// Nodes finds nodes by name. Every invoice remembers the name of the node that issued it.
type Nodes interface {
	// Node returns the node with this name; LIGHTNING_UNAVAILABLE if none is configured under it.
	Node(name string) (Node, error)
	// Issuer picks the node that opens the next invoice.
	Issuer(ctx context.Context) (name string, err error)
}

// InvoiceEvent is one message of a node's stream of invoices. It is a hint to look, never a decision.
type InvoiceEvent struct {
	Hash        Hash
	State       InvoiceState
	AddIndex    uint64 // the node's running number of invoices added; 0 in streams of a single invoice
	SettleIndex uint64 // the node's running number of invoices settled; 0 unless State is SETTLED
}

// NodeEvents are a node's streams. Each call blocks, calls on for every message in turn, and returns when the stream
// ends, with the error of on, of the context, or of the stream. The end of a stream says nothing about any invoice.
type NodeEvents interface {
	// WatchInvoices follows every invoice: first those added after addIndex and settled after settleIndex (an index of 0
	// replays nothing), then new ones. It reports neither ACCEPTED nor CANCELED.
	WatchInvoices(ctx context.Context, addIndex, settleIndex uint64, on func(InvoiceEvent) error) error
	// WatchInvoice follows one invoice: its present state first, then each change. It returns nil after a final state.
	WatchInvoice(ctx context.Context, h Hash, on func(InvoiceEvent) error) error
	// WatchBlocks reports the height of the best block, the present one first.
	WatchBlocks(ctx context.Context, on func(height uint32) error) error
}
