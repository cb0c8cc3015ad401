package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// How a claim ended.
const (
	endedPaid    = "PAID"     // its preimage is known
	endedFailed  = "FAILED"   // the node says so, or is too crowded to be given it
	endedNotSent = "NOT_SENT" // nothing was sent under it
)

// notKnown is the reason of a claim that was lost on its way to its node, or never came that far: unlike with the other
// reasons, nobody knows which.
const notKnown = "the node does not know it"

// ending is how a claim ends.
type ending struct {
	attempt db.RelayAttempt // as it was before its node was asked
	outcome string
	reason  string // what operators are shown of it
}

// endClaim locks a payment and ends the claim on it. false: somebody else has ended it, or what the caller concludes
// that from may be older than the claim's send, or than what its node has shown (EndAttempt).
func endClaim(ctx context.Context, q *db.Queries, row db.RelayPayment, e ending, at time.Time) (bool, error) {
	if _, err := q.LockRelay(ctx, row.ActionID); err != nil {
		return false, err
	}
	n, err := q.EndAttempt(ctx, db.EndAttemptParams{ID: e.attempt.ID, Earlier: e.attempt.Earlier, Outcome: e.outcome,
		Reason: &e.reason, At: &at})
	return n > 0, err
}

// unchanged locks a payment without a claim, and reports whether nothing has become of it since it was read: it was not
// claimed, put back or requeued.
func unchanged(ctx context.Context, q *db.Queries, row db.RelayPayment) (bool, error) {
	is, err := q.LockRelay(ctx, row.ActionID)
	return err == nil && is.Attempts == row.Attempts && is.ChangedAt.Equal(row.ChangedAt), err
}

// freed ends the open claim on a payment or, where there is none, reports whether the payment is unchanged.
func freed(ctx context.Context, q *db.Queries, row db.RelayPayment, open *ending, at time.Time) (bool, error) {
	if open == nil {
		return unchanged(ctx, q, row)
	}
	return endClaim(ctx, q, row, *open, at)
}

// sendAgain ends a claim under which nothing was sent, and puts its payment back: for the one node, or for any if only
// is nil.
func (r *Relay) sendAgain(ctx context.Context, row db.RelayPayment, attempt db.RelayAttempt, only *string,
	reason string, pause time.Duration) error {
	now := r.now()
	err := r.inTx(ctx, func(q *db.Queries) error {
		if ended, err := endClaim(ctx, q, row, ending{attempt, endedNotSent, reason}, now); err != nil || !ended {
			return err
		}
		return q.RequeueRelay(ctx, db.RequeueRelayParams{ID: row.ID, Node: only, NotBefore: new(now.Add(pause)), At: now})
	})
	if err == nil {
		r.lookAgain()
	}
	return err
}

// ended ends a claim whose payment the node gave up or never sent. If another node has the payment, it goes on there.
// If the first node was at fault and time is left, another one may try. Otherwise the payment is given up for good.
func (r *Relay) ended(ctx context.Context, row db.RelayPayment, e ending, why reason) (paidaction.Outcome, error) {
	but := ""
	if e.outcome == endedFailed {
		but = e.attempt.Node // it has said what it says
	}
	has, err := r.forGood(ctx, row, but)
	switch {
	case err != nil:
		return paidaction.Outcome{}, err
	case has.name != "":
		return paidaction.Outcome{}, r.leaveTo(ctx, row, &e, has.name)
	}
	// Not by a clock that is not confirmed: if it really has expired, the next node refuses it.
	expired, _ := r.passed(ctx, row.ExpiresAt)
	failed, err := r.fail(ctx, row, why, func(q *db.Queries, at time.Time) (bool, error) {
		if ended, err := endClaim(ctx, q, row, e, at); err != nil || !ended {
			return false, err
		}
		if err := r.stands(ctx, q, row, has); err != nil {
			return false, err
		}
		another, err := r.anotherNode(ctx, q, row, e, expired)
		if err != nil {
			return false, err
		}
		if another {
			return false, q.RequeueRelay(ctx, db.RequeueRelayParams{ID: row.ID, At: at})
		}
		if e.outcome == endedFailed && e.reason != string(errCrowded.Code) {
			return true, r.blame(ctx, q, row, e.reason)
		}
		return true, nil
	})
	if err != nil {
		return paidaction.Outcome{}, err
	}
	if !failed {
		r.lookAgain()
		return paidaction.Outcome{}, nil
	}
	return paidaction.Outcome{Failure: why.told}, nil
}

// anotherNode reports whether a node is left to try.
func (r *Relay) anotherNode(ctx context.Context, q *db.Queries, row db.RelayPayment, e ending,
	expired bool) (bool, error) {
	if e.outcome != endedFailed || receiverRefused(e.reason) || expired {
		return false, nil
	}
	if often, err := r.triedOften(ctx, q, row); err != nil || often {
		return false, err
	}
	left, err := r.untried(ctx, q, row)
	return len(left) > 0, err
}

// untried are the nodes that may be given payments and have not refused this one.
func (r *Relay) untried(ctx context.Context, q *db.Queries, row db.RelayPayment) ([]string, error) {
	names, err := r.sending(ctx, q)
	if err != nil {
		return nil, err
	}
	refusing, err := q.RefusingNodes(ctx, row.ID)
	if err != nil {
		return nil, fmt.Errorf("read which nodes have refused the payment: %w", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(refusing, name) }), nil
}

// triedOften reports whether a payment may have been sent as often as one is tried. A claim under which certainly nothing
// was sent is no try: a node that is behind the chain for a while, or crowded, would use up those of a payment that then
// is lost on its way, and waits for its invoice to expire.
func (r *Relay) triedOften(ctx context.Context, q *db.Queries, row db.RelayPayment) (bool, error) {
	n, err := q.Tries(ctx, db.TriesParams{ID: row.ID, NotKnown: notKnown, Crowded: string(errCrowded.Code)})
	if err != nil {
		return false, fmt.Errorf("count the claims: %w", err)
	}
	return int(n) >= r.Settings.MaxAttempts, nil
}

// receiverRefused reports whether the payment reached its receiver: another node would get the same answer.
func receiverRefused(reason string) bool { return reason == string(paidaction.ReasonIncorrectDetails) }

// blame counts a failed payment against the receiver's wallet in the transaction that ends it. The payer's next attempt
// may begin right after its commit, and must not be sent to the same wallet first.
func (r *Relay) blame(ctx context.Context, q *db.Queries, row db.RelayPayment, reason string) error {
	if row.WalletID == nil || r.Wallets == nil {
		return nil
	}
	a, err := q.GetAction(ctx, row.ActionID)
	if err != nil {
		return fmt.Errorf("read the action of a failed payment: %w", err)
	}
	genesis := row.ActionID
	if a.PaidAction.GenesisID != nil {
		genesis = *a.PaidAction.GenesisID
	}
	return r.Wallets.Failed(ctx, q, *row.WalletID, genesis, paidaction.FailureReason(reason))
}
