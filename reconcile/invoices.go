package reconcile

import (
	"context"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// everyTaken looks for payments that a node has taken and that we know nothing of: their payers have nothing for them.
// A database that was restored, or failed over to a copy that lagged behind, has forgotten their invoices, and no event
// of a stream says whose they were. A node that also serves somebody else shows that party's payments here. Only a full
// run asks: a row is committed before its node has the invoice, so only such a loss can cause this.
func (r *run) everyTaken(ctx context.Context) error {
	if !r.Changed.IsZero() {
		return nil
	}
	for _, name := range r.Issuers {
		node, err := r.Nodes.Node(name)
		if err != nil || r.silent[name] != nil {
			continue // reported with what the node was asked before
		}
		if err := r.takenBy(ctx, name, node); err != nil {
			return err
		}
	}
	return nil
}

// takenBy checks what one node has taken, a page at a time.
func (r *run) takenBy(ctx context.Context, name string, node paidaction.Node) error {
	taken := make([]paidaction.NodeInvoice, 0, page)
	var ours error // what failed here rather than at the node
	err := node.EachSettled(ctx, r.Now().Add(-r.Since), func(inv paidaction.NodeInvoice) error {
		if taken = append(taken, inv); len(taken) < page {
			return nil
		}
		ours = r.issued(ctx, name, taken)
		taken = taken[:0]
		return ours
	})
	switch {
	case ours != nil:
		return ours
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("ask node %s for its invoices: %w", name, err)
	case err != nil:
		r.silent[name] = err
	}
	return r.issued(ctx, name, taken)
}

// issued compares the invoices whose payments a node has taken with those that we gave it.
func (r *run) issued(ctx context.Context, node string, taken []paidaction.NodeInvoice) error {
	if len(taken) == 0 {
		return nil
	}
	r.look(9, int64(len(taken)))
	hashes := make([][]byte, len(taken))
	for i, inv := range taken {
		hashes[i] = inv.Hash[:]
	}
	names, err := r.namesOf(ctx, node)
	if err != nil {
		return err
	}
	rows, err := db.New(r.Pool).KnownInvoices(ctx, db.KnownInvoicesParams{Hashes: hashes, Names: names})
	if err != nil {
		return fmt.Errorf("look up invoices: %w", err)
	}
	known := map[paidaction.Hash]bool{}
	for _, row := range rows {
		known[paidaction.Hash(row.PaymentHash)] = true
		r.renamed(node, row.Node)
	}
	for _, inv := range taken {
		if !known[inv.Hash] {
			r.found(unissued.broken(at{node: node, hash: inv.Hash.String()}, "node %s has taken %d msat for an invoice with the hash %s that is not recorded",
				node, inv.Received, inv.Hash))
		}
	}
	return nil
}

// namesOf returns the names under which a node is known, or was, by its key. What it was given under another name is its
// own, and known here.
func (r *run) namesOf(ctx context.Context, node string) ([]string, error) {
	names, err := db.New(r.Pool).NamesOfNode(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("look up the names of node %s: %w", node, err)
	}
	return append(names, node), nil
}

// renamed records that a node was given something under another name: what is open under that name may be asked of
// nobody.
func (r *run) renamed(node, former string) {
	if former != "" && former != node {
		r.found(twoNames.broken(at{node: node}, "node %s has the public key of node %s: it is one node under two names", node, former))
	}
}
