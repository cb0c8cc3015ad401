package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Proceed implements paidaction.Relay.
func (r *Relay) Proceed(ctx context.Context, action int64) (paidaction.Outcome, error) {
	if out, known := r.heard.Load(action); known && out.(paidaction.Outcome).Final {
		return out.(paidaction.Outcome), nil // whatever the row says, there is no more to know
	}
	row, err := db.New(r.Pool).GetRelay(ctx, action)
	if err != nil {
		return paidaction.Outcome{}, fmt.Errorf("read the outgoing payment of action %d: %w", action, err)
	}
	switch paidaction.Stage(row.Stage) {
	case paidaction.StageIncoming:
		return r.waiting(ctx, row)
	case paidaction.StageInWork:
		return r.look(ctx, row)
	case paidaction.StagePendingConfirmation:
		return r.confirm(ctx, row)
	case paidaction.StageCompleted:
		return paidaction.Outcome{Preimage: preimageOf(row)}, nil // all of it is booked
	default:
		return r.givenUp(ctx, row)
	}
}

func preimageOf(row db.RelayPayment) *paidaction.Preimage {
	var p paidaction.Preimage
	copy(p[:], row.Preimage)
	return &p
}

// givenUp is what it means that a payment was given up: it has failed, unless a node has it. Then an operator had put
// it back into the pipeline, and the database has forgotten that, so it is put back once more.
func (r *Relay) givenUp(ctx context.Context, row db.RelayPayment) (paidaction.Outcome, error) {
	if row.InsideID != nil { // was for no node
		return failureOf(row), nil
	}
	has, err := r.forgotten(ctx, row)
	switch {
	case err != nil:
		return paidaction.Outcome{}, err
	case has.name == "":
		return failureOf(row), nil
	}
	err = Requeue(ctx, r.Pool, row.ActionID, r.now())
	if refusal, ok := paidaction.AsRefusal(err); ok && refusal.Code == paidaction.CodeDuplicate {
		return failureOf(row), nil // what the node has counts for a later withdrawal to the same invoice
	}
	if err == nil {
		r.Log.ErrorContext(ctx, "a node has a payment that was given up: it goes on there", "action", row.ActionID,
			"node", has.name)
	}
	return paidaction.Outcome{}, err
}

func failureOf(row db.RelayPayment) paidaction.Outcome {
	return paidaction.Outcome{Failure: paidaction.Errorf(paidaction.Code(*row.FailureCode), "%s", *row.FailureMessage)}
}

func hashOf(row db.RelayPayment) (h paidaction.Hash) {
	copy(h[:], row.PaymentHash)
	return h
}

// waiting looks after a payment that no node has taken yet, and gives it up when it can no longer be sent.
func (r *Relay) waiting(ctx context.Context, row db.RelayPayment) (paidaction.Outcome, error) {
	if row.Node != nil {
		// This node may have been given the payment under a claim whose end nobody saw. Only this node may try again,
		// and the payment cannot be given up until its invoice has certainly expired there. If the node has it after
		// all, it goes on there, also where the node could be given nothing now: it may lack the very money that it has
		// sent.
		has, never, err := r.atItsNode(ctx, row)
		if err == nil && has {
			return paidaction.Outcome{}, r.leaveTo(ctx, row, nil, *row.Node)
		}
		if err != nil || !never {
			r.lookAgain()
			return paidaction.Outcome{}, err
		}
	}
	why := new(reasonOf(string(wrap.Expired)))
	expired, unsure := r.passed(ctx, row.ExpiresAt)
	if !expired { // also where the clock is not sure: blocks count without it
		var err error
		if why, err = r.unwanted(ctx, row); err != nil {
			return paidaction.Outcome{}, err
		}
	}
	if why == nil {
		r.lookAgain()
		return paidaction.Outcome{}, unsure
	}
	has, err := r.forGood(ctx, row, "")
	switch {
	case err != nil:
		return paidaction.Outcome{}, err
	case has.name != "":
		return paidaction.Outcome{}, r.leaveTo(ctx, row, nil, has.name)
	case !has.answered:
		return paidaction.Outcome{}, errAway(errors.New("no node can say whether it has the payment"))
	}
	return r.giveUp(ctx, row, *why, has)
}

// look asks the node of a claim what has become of it.
func (r *Relay) look(ctx context.Context, row db.RelayPayment) (paidaction.Outcome, error) {
	if row.InsideID != nil {
		return r.lookInside(ctx, row)
	}
	if out, known := r.heard.Load(row.ActionID); known {
		return out.(paidaction.Outcome), nil
	}
	attempt, err := db.New(r.Pool).OpenAttempt(ctx, row.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return paidaction.Outcome{}, nil // it has just ended
	}
	if err != nil {
		return paidaction.Outcome{}, fmt.Errorf("read the claim: %w", err)
	}
	node, err := r.Nodes.Sender(attempt.Node)
	if err != nil {
		return paidaction.Outcome{}, err
	}
	now, err := r.present(ctx, node, hashOf(row))
	var clock time.Time
	if unknown(attempt, now, err) || failed(now, err) {
		var over bool
		if over, clock, err = r.sendOver(ctx, node, attempt); err != nil || !over {
			return paidaction.Outcome{}, err
		}
		// What it said may be older than the send, if we were stopped in between. Now nothing can reach it any more, so
		// its answer stands.
		now, err = r.present(ctx, node, hashOf(row))
	}
	if unknown(attempt, now, err) {
		return r.notFound(ctx, node, row, attempt, clock)
	}
	if err != nil {
		return paidaction.Outcome{}, fmt.Errorf("ask node %s: %w", attempt.Node, err)
	}
	// A failure may be that of an earlier payment, which the worker of this claim is about to note.
	if !failed(now, err) && !attempt.Seen {
		if err := r.noteShown(ctx, node, row, attempt, now); err != nil {
			return paidaction.Outcome{}, fmt.Errorf("note that the node has it: %w", err)
		}
	}
	switch {
	case now.Preimage != nil:
		return madeBy(attempt.Node, row, outcomeOf(now)), nil
	case now.State == paidaction.PaymentSucceeded:
		return paidaction.Outcome{}, fmt.Errorf("node %s says SUCCEEDED and shows no preimage", attempt.Node)
	case now.State != paidaction.PaymentFailed:
		return paidaction.Outcome{}, nil
	}
	if err := r.sameAsClaimed(ctx, node, attempt); err != nil {
		return paidaction.Outcome{}, err
	}
	end := ending{attempt, endedFailed, string(now.Failure)}
	return r.ended(ctx, row, end, nodesReason(row, end.reason))
}

// outcomeOf is what it means that a node shows the preimage. The cost is known once no part is under way any more.
func outcomeOf(u paidaction.PaymentUpdate) paidaction.Outcome {
	return paidaction.Outcome{Preimage: u.Preimage, Final: u.State == paidaction.PaymentSucceeded, Paid: u.Paid, Fee: u.Fee}
}

// madeBy adds to an outcome what is counted once it is committed.
func madeBy(node string, row db.RelayPayment, o paidaction.Outcome) paidaction.Outcome {
	o.Node, o.Since = node, row.CreatedAt
	return o
}

// notFound is what it means that the node of a claim did not know the payment when nothing could be sent under the
// claim any more; clock is the node's clock a moment before. The same node may be given it again, since it refuses a
// payment that it has. Once the invoice has expired, the node refuses it in any case, so it was never sent. A node that
// has shown the payment before, under this claim or an earlier one, or has another key now, has lost its data, and its
// word never counts.
func (r *Relay) notFound(ctx context.Context, node paidaction.SendingNode, row db.RelayPayment,
	attempt db.RelayAttempt, clock time.Time) (paidaction.Outcome, error) {
	if attempt.Seen {
		return paidaction.Outcome{}, r.lost(attempt, "%w, though it was given it: was node %s wiped or restored?",
			paidaction.ErrPaymentNotFound, attempt.Node)
	}
	if err := r.trusted(ctx, node, attempt.Node, row.ID); err != nil {
		return paidaction.Outcome{}, err
	}
	if clock.After(row.ExpiresAt.Add(r.Settings.ExpirySlack)) { // by its clock, by which it refuses an expired invoice
		end := ending{attempt, endedNotSent, "the invoice has expired"}
		return r.ended(ctx, row, end, reasonOf(string(wrap.Expired)))
	}
	if often, err := r.triedOften(ctx, db.New(r.Pool), row); err != nil || often {
		return paidaction.Outcome{}, err
	}
	return paidaction.Outcome{}, r.sendAgain(ctx, row, attempt, &attempt.Node, notKnown, 0)
}

// confirm asks whether all parts of a payment are final, and what they cost.
func (r *Relay) confirm(ctx context.Context, row db.RelayPayment) (paidaction.Outcome, error) {
	out := paidaction.Outcome{Preimage: preimageOf(row)}
	if row.InsideID != nil {
		out.Final, out.Paid = true, paidaction.Msat(row.AmountMsat)
		return out, nil
	}
	node, err := r.Nodes.Sender(*row.Node)
	if err != nil {
		return out, err
	}
	now, err := r.present(ctx, node, hashOf(row))
	if err != nil {
		return out, fmt.Errorf("ask node %s: %w", *row.Node, err)
	}
	if failed(now, err) { // not of any: where a receiver told the preimage, the node's data may be back, and be right
		claims, err := db.New(r.Pool).Attempts(ctx, row.ID)
		if err != nil {
			return out, fmt.Errorf("read the claims: %w", err)
		}
		for _, a := range claims {
			if a.Node != *row.Node {
				continue
			}
			if a.Outcome != nil && *a.Outcome == endedPaid {
				if err := r.sameAsClaimed(ctx, node, a); err != nil {
					return out, err
				}
			}
			if now.IsEarlier(a.Earlier) {
				return out, r.lost(a, "%w, only one that had failed before it: was node %s restored?",
					paidaction.ErrPaymentNotFound, a.Node)
			}
		}
	}
	if now.State == paidaction.PaymentSucceeded {
		out.Final, out.Paid, out.Fee = true, now.Paid, now.Fee
	}
	return out, nil
}

// lookInside looks after a withdrawal that pays one of our own invoices. The preimage gets here in the same transaction
// that ends the other action. If that action has ended without it, its invoice was paid from outside meanwhile.
func (r *Relay) lookInside(ctx context.Context, row db.RelayPayment) (paidaction.Outcome, error) {
	other, err := db.New(r.Pool).GetAction(ctx, *row.InsideID)
	if err != nil {
		return paidaction.Outcome{}, fmt.Errorf("read the action to pay for: %w", err)
	}
	if !paidaction.State(other.PaidAction.State).Terminal() {
		return paidaction.Outcome{}, nil
	}
	why := reasonOf(paidOtherwise)
	if paidaction.State(other.PaidAction.State) != paidaction.Paid { // an operator has given it up
		why = reasonOf(invoiceEnded)
	}
	doubt, err := paidaction.LatestDoubt(ctx, db.New(r.Pool))
	if err != nil {
		return paidaction.Outcome{}, err
	}
	return r.giveUp(ctx, row, why, possession{asked: r.Monotonic(), doubt: doubt})
}
