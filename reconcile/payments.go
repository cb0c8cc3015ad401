package reconcile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// mayMove reports whether a payment is not final yet.
func mayMove(row db.PaymentsToCompareRow) bool {
	stage := paidaction.Stage(row.Stage)
	return stage != paidaction.StageCompleted && stage != paidaction.StageFailed
}

// comparePayment asks the node for the payment of one claim. Whatever moved within the grace counts as under way.
func (r *run) comparePayment(ctx context.Context, node paidaction.Node, row db.PaymentsToCompareRow) error {
	a := at{actions: []int64{row.ActionID}, node: row.Node, hash: hex.EncodeToString(row.PaymentHash)}
	sender, ok := node.(paidaction.SendingNode)
	if !ok && !mayMove(row) {
		return nil
	}
	if !ok {
		r.found(nodeGone.broken(a, "action %d: node %s, which was to pay for it, does not send", row.ActionID, row.Node))
		return nil
	}
	there, err := paidaction.PresentPayment(ctx, sender, paidaction.Hash(row.PaymentHash))
	// What had failed before the claim's send is shown by a node that was restored: it does not know this payment.
	absent := errors.Is(err, paidaction.ErrPaymentNotFound) || err == nil && there.IsEarlier(row.Earlier)
	if err != nil && !absent {
		return errSilent{err}
	}
	if r.Now().Before(row.ChangedAt.Add(r.Grace)) && paidaction.Stage(row.Stage) != paidaction.StageCompleted {
		return nil
	}
	if k, what := judgePayment(row, there, absent); k != nil {
		r.found(k.broken(a, "action %d: node %s %s", row.ActionID, row.Node, what))
	}
	return nil
}

// judgePayment says how a payment disagrees with what the node of its claim shows; nil if it does not.
func judgePayment(row db.PaymentsToCompareRow, there paidaction.PaymentUpdate, absent bool) (k *Kind, what string) {
	paid := row.Outcome != nil && *row.Outcome == "PAID"
	failed, completed := paidaction.Stage(row.Stage) == paidaction.StageFailed, paidaction.Stage(row.Stage) == paidaction.StageCompleted
	switch {
	case paid && absent && row.WrittenOff && completed:
		return nil, "" // it is listed as a loss
	case paid && absent:
		return paymentLost, "does not know the payment it made"
	case absent && row.Seen && row.Outcome == nil:
		return paymentLost, "does not know the payment that it has shown, and nobody can tell what became of it"
	case absent:
		return nil, ""
	case there.State == paidaction.PaymentSucceeded && !paid:
		return paidUnbooked, fmt.Sprintf("has paid %d msat, and the payment counts as %s since %s", there.Amount, row.Stage, row.ChangedAt.UTC().Format(time.RFC3339))
	case there.State == paidaction.PaymentSucceeded && paidaction.Stage(row.Stage) == paidaction.StagePendingConfirmation:
		return notBooked, fmt.Sprintf("has paid %d msat for good, and what that cost is not booked since %s", there.Paid, row.ChangedAt.UTC().Format(time.RFC3339))
	case there.State == paidaction.PaymentFailed && paid:
		return bookedUnpaid, "says that the payment failed, and it counts as made"
	case there.State == paidaction.PaymentInFlight && (failed || completed && !row.WrittenOff):
		return mayStillPay, fmt.Sprintf("may still pay, and the payment is %s", row.Stage)
	case completed && paid && (int64(there.Paid+there.Fee) != row.LeftMsat || int64(there.Fee) != row.FeeMsat):
		return leftDiffers, fmt.Sprintf("paid %d msat and a fee of %d, booked are %d msat together and a fee of %d", there.Paid, there.Fee, row.LeftMsat, row.FeeMsat)
	}
	return nil, ""
}

// everyPayment looks for payments that a node made and that we know nothing of. A database that was restored, or failed
// over to a copy that lagged behind, has forgotten them (spec 05.16g). A node that also serves somebody else shows that
// party's payments here.
func (r *run) everyPayment(ctx context.Context) error {
	for _, name := range r.Senders {
		node, err := r.Nodes.Node(name)
		sender, ok := node.(paidaction.SendingNode)
		if err != nil || !ok || r.silent[name] != nil {
			continue // reported with what the node was asked before
		}
		if err := r.paymentsOf(ctx, name, sender); err != nil {
			return err
		}
	}
	return r.earlierPayments(ctx)
}

// paymentsOf checks what one node has paid, a page at a time.
func (r *run) paymentsOf(ctx context.Context, name string, sender paidaction.SendingNode) error {
	since := r.Now().Add(-r.Since)
	if r.Changed.After(since) {
		since = r.Changed
	}
	young := r.Now().Add(-r.Grace)
	made := make([]paidaction.PaymentUpdate, 0, page)
	limited, cancel := r.asking(ctx)
	defer cancel()
	var ours error // what failed here rather than at the node
	err := sender.EachPayment(limited, since, func(u paidaction.PaymentUpdate, created time.Time) error {
		// A payment under way may be a probe, or so new that our record was not there yet when we asked.
		if u.State != paidaction.PaymentSucceeded && !created.Before(young) {
			return nil
		}
		if made = append(made, u); len(made) < page {
			return nil
		}
		ours = r.recorded(ctx, name, made)
		made = made[:0]
		return ours
	})
	switch {
	case ours != nil:
		return ours
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("ask node %s for its payments: %w", name, err)
	case err != nil:
		r.silent[name] = err
	}
	return r.recorded(ctx, name, made)
}

// asking limits the time for asking a node for much, so that a part of the run's time is left for what comes after.
func (r *run) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.Within == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, r.Within*3/4-r.Now().Sub(r.began), errNoTime)
}

// recorded compares the payments that a node has made with those that we gave it.
func (r *run) recorded(ctx context.Context, node string, made []paidaction.PaymentUpdate) error {
	if len(made) == 0 {
		return nil
	}
	r.look(9, int64(len(made)))
	hashes := make([][]byte, len(made))
	for i, u := range made {
		hashes[i] = u.Hash[:]
	}
	names, err := r.namesOf(ctx, node)
	if err != nil {
		return err
	}
	rows, err := db.New(r.Pool).RecordedHashes(ctx, db.RecordedHashesParams{Hashes: hashes, Node: node, Names: names})
	if err != nil {
		return fmt.Errorf("look up payment hashes: %w", err)
	}
	known := map[paidaction.Hash]db.RecordedHashesRow{}
	for _, row := range rows {
		known[paidaction.Hash(row.PaymentHash)] = row
	}
	for _, u := range made {
		row := known[u.Hash]
		r.renamed(node, row.Former)
		if !row.Here {
			r.found(unrecorded.broken(at{node: node, hash: u.Hash.String()}, "node %s has a payment of %d msat with the hash %s (%s) that is not recorded",
				node, u.Amount, u.Hash, u.State))
		}
		if row.Elsewhere {
			r.found(paidElsewhere.broken(at{actions: []int64{row.ActionID}, node: node, hash: u.Hash.String()},
				"node %s has a payment of action %d (%s) that another node has paid or may pay", node, row.ActionID, u.State))
		}
	}
	return nil
}

// earlierPayments checks whether payments that an earlier run found unrecorded are recorded now. The node is not asked:
// a payment that it made stays made.
func (r *run) earlierPayments(ctx context.Context) error {
	for _, b := range r.Earlier {
		hash, err := hex.DecodeString(b.Hash)
		if b.kind != unrecorded || err != nil || len(hash) != len(paidaction.Hash{}) {
			continue
		}
		names, err := r.namesOf(ctx, b.Node)
		if err != nil {
			return err
		}
		rows, err := db.New(r.Pool).RecordedHashes(ctx, db.RecordedHashesParams{Hashes: [][]byte{hash}, Node: b.Node, Names: names})
		if err != nil {
			return fmt.Errorf("look up a payment hash: %w", err)
		}
		if len(rows) == 0 || !rows[0].Here {
			r.found(unrecorded.broken(at{node: b.Node, hash: b.Hash}, "%s", b.What))
		}
	}
	return nil
}
