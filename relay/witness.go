package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A node is the only witness of what has become of a payment, and not all that it says counts. It may speak of an
// earlier payment of the same hash, or before the payment reaches it. It may have lost its data, and be another node by
// now. And whoever heard it may conclude something only much later.

// present is what a node says of a payment at this moment. A stream has no deadline of its own, so this sets one: a
// hanging node must hold up nothing but itself.
func (r *Relay) present(ctx context.Context, node paidaction.SendingNode,
	h paidaction.Hash) (paidaction.PaymentUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Settings.AskTimeout)
	defer cancel()
	return paidaction.PresentPayment(ctx, node, h)
}

// unknown reports whether a node says that it does not know the payment of a claim, or knows only an earlier one.
func unknown(attempt db.RelayAttempt, now paidaction.PaymentUpdate, err error) bool {
	return errors.Is(err, paidaction.ErrPaymentNotFound) || (err == nil && now.IsEarlier(attempt.Earlier))
}

// failed reports whether a node says that a payment has failed.
func failed(now paidaction.PaymentUpdate, err error) bool {
	return err == nil && now.State == paidaction.PaymentFailed && now.Preimage == nil
}

// lost counts that what the node of a claim says is no word of its payment.
func (r *Relay) lost(attempt db.RelayAttempt, format string, args ...any) error {
	r.Metrics.lost.WithLabelValues(attempt.Node).Inc()
	return fmt.Errorf("%w: %w", paidaction.ErrLost, fmt.Errorf(format, args...))
}

// sameAsClaimed is nil if the node that a claim was made for still answers under its name. Another one knows nothing of
// what the first was given, and may know other payments of the same hash.
func (r *Relay) sameAsClaimed(ctx context.Context, node paidaction.SendingNode, attempt db.RelayAttempt) error {
	key, err := node.PublicKey(ctx)
	if err != nil {
		return fmt.Errorf("ask node %s for its key: %w", attempt.Node, err)
	}
	if key != attempt.NodeKey {
		return r.lost(attempt, "%w, another one answers under the name of node %s: what failed there is no word of this payment",
			paidaction.ErrPaymentNotFound, attempt.Node)
	}
	return nil
}

// trusted is nil if a node's "not found" means anything: it is still the node that every claim on it was made for,
// except those of which it said that they failed, and it has shown the payment under no claim that ended because it did
// not know it.
func (r *Relay) trusted(ctx context.Context, node paidaction.SendingNode, name string, payment int64) error {
	key, err := node.PublicKey(ctx)
	if err != nil {
		return fmt.Errorf("ask node %s for its key: %w", name, err)
	}
	attempts, err := db.New(r.Pool).Attempts(ctx, payment)
	if err != nil {
		return fmt.Errorf("%w: read the claims: %w", errElsewhere, err)
	}
	for _, a := range attempts {
		if a.Node != name || (a.Outcome != nil && *a.Outcome == endedFailed) {
			continue
		}
		if a.NodeKey != key {
			return r.lost(a, "node %s has another key than the one the payment was claimed for", a.Node)
		}
		if err := r.shownBefore(a); err != nil {
			return err
		}
	}
	return nil
}

// shownBefore is an error where a node has shown the payment under a claim that ended because it did not know it. That
// was noted a moment too late.
func (r *Relay) shownBefore(a db.RelayAttempt) error {
	if !a.Seen || a.Outcome == nil || *a.Outcome != endedNotSent {
		return nil
	}
	return r.lost(a, "node %s has shown the payment, and did not know it later: was it wiped or restored?", a.Node)
}

// stands is nil if what the nodes said still means that nobody has the payment. It is called under the lock of the
// payment's row. No copy of the database may have taken over since the nodes were asked: it may lack a claim that was
// made meanwhile. And no node may have shown the payment before, whatever became of a later claim.
func (r *Relay) stands(ctx context.Context, q *db.Queries, row db.RelayPayment, has possession) error {
	attempts, err := q.Attempts(ctx, row.ID)
	if err != nil {
		return fmt.Errorf("read the claims: %w", err)
	}
	for _, a := range attempts {
		if err := r.shownBefore(a); err != nil {
			return err
		}
	}
	return r.counts(ctx, q, has)
}

// sendOver reports whether nothing can be sent under a claim any more, and what the clock of its node is then. A worker
// that was stopped between its claim and its send may wake up, and only the deadline of the send stops it (spec
// 05.16d). The node keeps to that deadline by its own clock: if that is behind ours, it accepts a late call for longer.
// The grace is for a node that is slow to say what it was given.
func (r *Relay) sendOver(ctx context.Context, node paidaction.SendingNode, attempt db.RelayAttempt) (over bool,
	clock time.Time, err error) {
	end := attempt.SendUntil.Add(r.Settings.Grace)
	if !r.now().After(end) {
		return false, clock, nil
	}
	if clock, err = node.Time(ctx); err != nil {
		return false, clock, fmt.Errorf("ask node %s for its clock: %w", attempt.Node, err)
	}
	return clock.After(end), clock, nil
}

// atItsNode reports whether the node that a payment is pinned to has it, or was certainly never given it: only once the
// invoice has expired by that node's clock, and if it does not know the payment and is still the same node.
func (r *Relay) atItsNode(ctx context.Context, row db.RelayPayment) (has, never bool, err error) {
	node, err := r.Nodes.Sender(*row.Node)
	if err != nil {
		return false, false, err
	}
	expired := !r.now().Before(row.ExpiresAt.Add(r.Settings.ExpirySlack))
	now, err := r.present(ctx, node, hashOf(row))
	absent := errors.Is(err, paidaction.ErrPaymentNotFound) || (err == nil && now.State == paidaction.PaymentFailed)
	switch {
	case !absent:
		return err == nil, false, err
	case !expired:
		return false, false, nil
	}
	clock, err := node.Time(ctx)
	if err != nil {
		return false, false, fmt.Errorf("ask node %s for its clock: %w", *row.Node, err)
	}
	// Last, because another node may have taken its place before any of these answers.
	if err := r.trusted(ctx, node, *row.Node, row.ID); err != nil {
		return false, false, err
	}
	return false, clock.After(row.ExpiresAt.Add(r.Settings.ExpirySlack)), nil
}
