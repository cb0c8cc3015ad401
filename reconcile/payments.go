package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// comparePayments holds what left against the nodes it left through (invariant 9): paid out ⇔ booked, fees equal to the
// millisatoshi.
func comparePayments(ctx context.Context, c Config, found *Invariant) error {
	next := db.PaymentsToCompareParams{Since: c.Now().Add(-c.Since), Page: page}
	for {
		rows, err := db.New(c.Pool).PaymentsToCompare(ctx, next)
		if err != nil {
			return fmt.Errorf("read outgoing payments: %w", err)
		}
		for _, r := range rows {
			found.Checked++
			if err := comparePayment(ctx, c, r, found); err != nil {
				return err
			}
			next.After = r.ID
		}
		if len(rows) < page {
			break
		}
	}
	for _, name := range c.Senders {
		if err := unrecorded(ctx, c, name, found); err != nil {
			return err
		}
	}
	return nil
}

var errSeen = errors.New("seen")

// comparePayment asks the node for one claim's payment. What moved within the grace is under way.
func comparePayment(ctx context.Context, c Config, r db.PaymentsToCompareRow, found *Invariant) error {
	node, err := c.Nodes.Node(r.Node)
	if err != nil {
		found.broke("action %d: node %s, which was to pay for it, is not configured", r.ActionID, r.Node)
		return nil
	}
	sender, ok := node.(paidaction.SendingNode)
	if !ok {
		found.broke("action %d: node %s, which was to pay for it, does not send", r.ActionID, r.Node)
		return nil
	}
	var there paidaction.PaymentUpdate
	err = sender.TrackPayment(ctx, paidaction.Hash(r.PaymentHash), func(u paidaction.PaymentUpdate) error { there = u; return errSeen })
	absent := errors.Is(err, paidaction.ErrPaymentNotFound)
	if err != nil && !absent && !errors.Is(err, errSeen) {
		return fmt.Errorf("ask node %s: %w", r.Node, err)
	}
	if c.Now().Before(r.ChangedAt.Add(c.Grace)) && r.Stage != "completed" {
		return nil
	}
	paid := r.Outcome != nil && *r.Outcome == "PAID"
	switch {
	case paid && absent && r.WrittenOff && r.Stage == "completed": // it is listed as a loss
	case paid && absent:
		found.broke("action %d: node %s does not know the payment it made", r.ActionID, r.Node)
	case absent:
	case there.State == paidaction.PaymentSucceeded && !paid:
		found.broke("action %d: node %s has paid %d msat, and the payment counts as %s since %s", r.ActionID, r.Node, there.Amount, r.Stage, r.ChangedAt.Format(time.RFC3339))
	case there.State == paidaction.PaymentInFlight && r.Stage == "failed":
		found.broke("action %d: node %s may still pay, and the payment was given up", r.ActionID, r.Node)
	case r.Stage == "completed" && paid && (int64(there.Paid+there.Fee) != r.LeftMsat || int64(there.Fee) != r.FeeMsat):
		found.broke("action %d: node %s paid %d msat and a fee of %d, booked are %d msat together and a fee of %d", r.ActionID, r.Node, there.Paid, there.Fee, r.LeftMsat, r.FeeMsat)
	}
	return nil
}

// unrecorded looks for payments that a node made and we know nothing of: a database that was restored, or failed over to a copy that
// lagged behind, has forgotten them (spec 05.16g). A node that also serves somebody else shows theirs here.
func unrecorded(ctx context.Context, c Config, name string, found *Invariant) error {
	node, err := c.Nodes.Node(name)
	if err != nil {
		return nil // said of each of its invoices already
	}
	sender, ok := node.(paidaction.SendingNode)
	if !ok {
		return nil
	}
	made := map[paidaction.Hash]paidaction.PaymentUpdate{}
	var hashes [][]byte
	young := c.Now().Add(-c.Grace)
	err = sender.EachPayment(ctx, c.Now().Add(-c.Since), func(u paidaction.PaymentUpdate, created time.Time) error {
		// What is under way may be a probe, or younger than our own record is to this question.
		if u.State == paidaction.PaymentSucceeded || created.Before(young) {
			made[u.Hash] = u
			hashes = append(hashes, u.Hash[:])
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ask node %s for its payments: %w", name, err)
	}
	found.Checked += int64(len(made))
	known, err := db.New(c.Pool).RecordedHashes(ctx, db.RecordedHashesParams{Hashes: hashes, Node: name})
	if err != nil {
		return fmt.Errorf("look up payment hashes: %w", err)
	}
	for _, h := range known {
		delete(made, paidaction.Hash(h))
	}
	for h, u := range made {
		found.broke("node %s has a payment of %d msat with the hash %s (%s) that is not recorded", name, u.Amount, h, u.State)
	}
	return nil
}
