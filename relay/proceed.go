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

// How a claim ended.
const (
	endedFailed  = "FAILED"   // the node says so, or is too crowded to be given it
	endedNotSent = "NOT_SENT" // nothing was sent under it
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
		r.Log.ErrorContext(ctx, "a node has a payment that was given up: it goes on there", "action", row.ActionID, "node", has.name)
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
			return paidaction.Outcome{}, r.leaveTo(ctx, row, paidaction.StageIncoming, nil, "", "", *row.Node)
		}
		if err != nil || !never {
			r.lookAgain()
			return paidaction.Outcome{}, err
		}
	}
	refusal := paidaction.Errorf(paidaction.CodePaymentFailed, "The receiver's invoice expired before it could be paid.")
	expired, unsure := r.passed(ctx, row.ExpiresAt)
	if !expired { // blocks count by whatever clock
		var err error
		if refusal, err = r.unwanted(ctx, row); err != nil {
			return paidaction.Outcome{}, err
		}
	}
	if refusal == nil {
		r.lookAgain()
		return paidaction.Outcome{}, unsure
	}
	has, err := r.whoHas(ctx, row, "")
	switch {
	case err != nil:
		return paidaction.Outcome{}, err
	case has.name != "":
		return paidaction.Outcome{}, r.leaveTo(ctx, row, paidaction.StageIncoming, nil, "", "", has.name)
	case has.answered == 0:
		return paidaction.Outcome{}, errAway(errors.New("no node can say whether it has the payment"))
	}
	return r.giveUp(ctx, row, paidaction.StageIncoming, refusal, has)
}

var heldTooLong = paidaction.Errorf(paidaction.CodeExpired, "The payment was held for too long. You get it back.")

var unsent = paidaction.Errorf(paidaction.CodePaymentFailed, "No node could send the payment. You get the money back.")

// unwanted says why a payment must not be sent any more; nil if it may. A forward is wanted only while its payer's
// payment is held with enough blocks left to pay on: a node that can never take it would not say so. A withdrawal is
// bounded by no blocks, and its invoice may be valid for a week. Nobody could use the money for so long, so MaxWait
// bounds it.
func (r *Relay) unwanted(ctx context.Context, row db.RelayPayment) (*paidaction.Error, error) {
	if row.ReceiverID == nil {
		since := row.CreatedAt
		if row.RequeuedAt != nil {
			since = *row.RequeuedAt
		}
		if passed, err := r.passed(ctx, since.Add(r.Settings.MaxWait)); err != nil || !passed {
			return nil, err
		}
		return unsent, nil
	}
	inv, err := db.New(r.Pool).GetInvoice(ctx, row.ActionID)
	if err != nil {
		return nil, fmt.Errorf("read the payer's invoice: %w", err)
	}
	outer, err := r.outer(ctx, row, inv.Node)
	if err != nil {
		return nil, err
	}
	if outer.State != paidaction.InvoiceAccepted {
		return heldTooLong, nil
	}
	issuer, err := r.Issuers.Node(inv.Node)
	if err != nil {
		return nil, err
	}
	chain, err := issuer.Chain(ctx) // if the node is behind, it sees too many blocks left: the next look corrects that
	if err != nil {
		return nil, fmt.Errorf("ask for the chain: %w", err)
	}
	if r.Rules.Late(wrap.Facts{Inner: paidaction.Bolt11{CLTVDelta: uint32(row.FinalCltv)}, Chain: chain, Held: outer, OuterCLTV: uint32(inv.CltvDelta)}) {
		return heldTooLong, nil
	}
	return nil, nil
}

// outer is the payer's payment of a forward, as the node that issued its invoice shows it now.
func (r *Relay) outer(ctx context.Context, row db.RelayPayment, issuer string) (paidaction.NodeInvoice, error) {
	node, err := r.Issuers.Node(issuer)
	if err != nil {
		return paidaction.NodeInvoice{}, err
	}
	inv, err := node.LookupInvoice(ctx, hashOf(row))
	if err != nil {
		return inv, fmt.Errorf("look up the payer's payment: %w", err)
	}
	return inv, nil
}

// passed reports whether a moment has passed, for what is not taken back. A clock that is ahead would have every
// payment given up before it can be sent.
func (r *Relay) passed(ctx context.Context, moment time.Time) (bool, error) {
	if r.now().Before(moment) {
		return false, nil
	}
	err := r.ConfirmClock(ctx)
	return err == nil, err
}

// giveUp ends a payment for good, unless somebody was faster, or it was claimed and put back since it was read: then
// the reason may have gone, and its node may have been given it. has is what the nodes said.
func (r *Relay) giveUp(ctx context.Context, row db.RelayPayment, from paidaction.Stage, refusal *paidaction.Error, has possession) (paidaction.Outcome, error) {
	var n int64
	err := r.inTx(ctx, func(q *db.Queries) error {
		n = 0
		if asRead, err := endClaim(ctx, q, row, nil, "", "", time.Time{}); err != nil || !asRead {
			return err
		}
		err := r.stands(ctx, q, row, has)
		if err != nil {
			return err
		}
		n, err = q.FailRelay(ctx, db.FailRelayParams{ID: row.ID, FromStage: string(from), FailureCode: new(string(refusal.Code)),
			FailureMessage: &refusal.Message, At: r.now()})
		return err
	})
	if err != nil {
		return paidaction.Outcome{}, fmt.Errorf("give the payment up: %w", err)
	}
	if n == 0 {
		return paidaction.Outcome{}, nil
	}
	r.Metrics.failed(string(refusal.Code))
	return paidaction.Outcome{Failure: refusal}, nil
}

// present is what a node says of a payment at this moment. A stream has no deadline of its own, so this sets one: a
// hanging node must hold up nothing but itself.
func (r *Relay) present(ctx context.Context, node paidaction.SendingNode, h paidaction.Hash) (paidaction.PaymentUpdate, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Settings.AskTimeout)
	defer cancel()
	return paidaction.PresentPayment(ctx, node, h)
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
	if same, err := isSame(ctx, node, attempt); err != nil || !same {
		if err == nil {
			err = r.lost(attempt, "another node answers under the name of node %s: what failed there is no word of this payment", attempt.Node)
		}
		return paidaction.Outcome{}, err
	}
	return r.ended(ctx, row, attempt, endedFailed, string(now.Failure))
}

// unknown reports whether a node says that it does not know the payment of a claim, or knows only an earlier one.
func unknown(attempt db.RelayAttempt, now paidaction.PaymentUpdate, err error) bool {
	return errors.Is(err, paidaction.ErrPaymentNotFound) || (err == nil && isEarlier(attempt, now))
}

// failed reports whether a node says that a payment has failed.
func failed(now paidaction.PaymentUpdate, err error) bool {
	return err == nil && now.State == paidaction.PaymentFailed && now.Preimage == nil
}

// isSame reports whether the node that a claim was made for still answers under its name. Another one knows nothing of
// what the first was given, and may know other payments of the same hash.
func isSame(ctx context.Context, node paidaction.SendingNode, attempt db.RelayAttempt) (bool, error) {
	key, err := node.PublicKey(ctx)
	if err != nil {
		return false, fmt.Errorf("ask node %s for its key: %w", attempt.Node, err)
	}
	return key == attempt.NodeKey, nil
}

// lost counts that what the node of a claim says is no word of its payment.
func (r *Relay) lost(attempt db.RelayAttempt, format string, args ...any) error {
	r.Metrics.lost.WithLabelValues(attempt.Node).Inc()
	return fmt.Errorf("%w: %w", paidaction.ErrLost, fmt.Errorf(format, args...))
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

// sendOver reports whether nothing can be sent under a claim any more, and what the clock of its node is then. A worker
// that was stopped between its claim and its send may wake up, and only the deadline of the send stops it (spec
// 05.16d). The node keeps to that deadline by its own clock: if that is behind ours, it accepts a late call for longer.
// The grace is for a node that is slow to say what it was given.
func (r *Relay) sendOver(ctx context.Context, node paidaction.SendingNode, attempt db.RelayAttempt) (over bool, clock time.Time, err error) {
	end := attempt.SendUntil.Add(r.Settings.Grace)
	if !r.now().After(end) {
		return false, clock, nil
	}
	if clock, err = node.Time(ctx); err != nil {
		return false, clock, fmt.Errorf("ask node %s for its clock: %w", attempt.Node, err)
	}
	return clock.After(end), clock, nil
}

// notFound is what it means that the node of a claim did not know the payment when nothing could be sent under the
// claim any more; clock is the node's clock a moment before. The same node may be given it again, since it refuses a
// payment that it has. Once the invoice has expired, the node refuses it in any case, so it was never sent. A node that
// has shown the payment before, under this claim or an earlier one, or has another key now, has lost its data, and its
// word never counts.
func (r *Relay) notFound(ctx context.Context, node paidaction.SendingNode, row db.RelayPayment, attempt db.RelayAttempt, clock time.Time) (paidaction.Outcome, error) {
	if attempt.Seen {
		return paidaction.Outcome{}, r.lost(attempt, "%w, though it was given it: was node %s wiped or restored?", paidaction.ErrPaymentNotFound, attempt.Node)
	}
	if err := r.sameNode(ctx, node, attempt.Node, row.ID); err != nil {
		return paidaction.Outcome{}, err
	}
	if clock.After(row.ExpiresAt.Add(r.Settings.ExpirySlack)) { // by the node's clock, by which it refuses an expired invoice
		return r.ended(ctx, row, attempt, endedNotSent, "the invoice has expired")
	}
	if int(row.Attempts) >= r.Settings.MaxAttempts {
		return paidaction.Outcome{}, nil
	}
	return paidaction.Outcome{}, r.sendAgain(ctx, row, attempt, &attempt.Node, "the node does not know it", 0)
}

// atItsNode reports whether the node that a payment is pinned to has it, or was certainly never given it: only once the
// invoice has expired by that node's clock, and if it does not know the payment and is still the same node.
func (r *Relay) atItsNode(ctx context.Context, row db.RelayPayment) (has, never bool, err error) {
	node, err := r.Nodes.Sender(*row.Node)
	if err != nil {
		return false, false, err
	}
	expired := !r.now().Before(row.ExpiresAt.Add(r.Settings.ExpirySlack))
	if expired {
		if err := r.sameNode(ctx, node, *row.Node, row.ID); err != nil {
			return false, false, err
		}
	}
	now, err := r.present(ctx, node, hashOf(row))
	switch absent := errors.Is(err, paidaction.ErrPaymentNotFound) || (err == nil && now.State == paidaction.PaymentFailed); {
	case !absent:
		return err == nil, false, err
	case !expired:
		return false, false, nil
	}
	clock, err := node.Time(ctx)
	if err != nil {
		return false, false, fmt.Errorf("ask node %s for its clock: %w", *row.Node, err)
	}
	return false, clock.After(row.ExpiresAt.Add(r.Settings.ExpirySlack)), nil
}

// sameNode is nil if the node is still the one that every claim on it was made for, except those of which it said that
// they failed, and has shown the payment under none that ended because it did not know it. Only then does its "not
// found" mean anything.
func (r *Relay) sameNode(ctx context.Context, node paidaction.SendingNode, name string, payment int64) error {
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

// stands is nil if what the nodes said when they were asked still means that nobody has the payment, under the lock of
// its row: no copy of the database has taken over since, which may lack a claim that was made meanwhile; and no node
// turns out to have shown the payment, whatever became of a later claim.
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

// endClaim locks a payment and ends the claim on it, or finds that there is none and nothing has become of the payment
// since it was read. false: somebody else has ended it, or the payment was claimed, put back or requeued meanwhile; or
// what the caller concludes that from may be older than the claim's send, or than what its node has shown (EndAttempt).
func endClaim(ctx context.Context, q *db.Queries, row db.RelayPayment, attempt *db.RelayAttempt, outcome, reason string, now time.Time) (bool, error) {
	is, err := q.LockRelay(ctx, row.ActionID)
	if err != nil || attempt == nil {
		return err == nil && is.Attempts == row.Attempts && is.ChangedAt.Equal(row.ChangedAt), err
	}
	n, err := q.EndAttempt(ctx, db.EndAttemptParams{ID: attempt.ID, Earlier: attempt.Earlier, Outcome: outcome, Reason: &reason, At: &now})
	return n > 0, err
}

// sendAgain ends a claim and puts its payment back: for the one node, or for any if only is nil.
func (r *Relay) sendAgain(ctx context.Context, row db.RelayPayment, attempt db.RelayAttempt, only *string, reason string, pause time.Duration) error {
	now := r.now()
	err := r.inTx(ctx, func(q *db.Queries) error {
		if ended, err := endClaim(ctx, q, row, &attempt, endedNotSent, reason, now); err != nil || !ended {
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
func (r *Relay) ended(ctx context.Context, row db.RelayPayment, attempt db.RelayAttempt, outcome, reason string) (paidaction.Outcome, error) {
	but := ""
	if outcome == endedFailed {
		but = attempt.Node // it has said what it says
	}
	has, err := r.whoHas(ctx, row, but)
	switch {
	case err != nil:
		return paidaction.Outcome{}, err
	case has.name != "":
		return paidaction.Outcome{}, r.leaveTo(ctx, row, paidaction.StageInWork, &attempt, outcome, reason, has.name)
	}
	expired, _ := r.passed(ctx, row.ExpiresAt) // not by a clock that is not confirmed: another node refuses what has
	now := r.now()
	var out paidaction.Outcome
	refusal := refusalOf(reason)
	err = r.inTx(ctx, func(q *db.Queries) error {
		out = paidaction.Outcome{}
		if ended, err := endClaim(ctx, q, row, &attempt, outcome, reason, now); err != nil || !ended {
			return err
		}
		if err := r.stands(ctx, q, row, has); err != nil {
			return err
		}
		another, err := r.anotherNode(ctx, q, row, outcome, reason, expired)
		if err != nil {
			return err
		}
		if another {
			return q.RequeueRelay(ctx, db.RequeueRelayParams{ID: row.ID, At: now})
		}
		n, err := q.FailRelay(ctx, db.FailRelayParams{ID: row.ID, FromStage: string(paidaction.StageInWork), FailureCode: new(string(refusal.Code)),
			FailureMessage: &refusal.Message, At: now})
		if err != nil || n == 0 {
			return err
		}
		out.Failure = refusal
		if outcome == endedFailed && reason != string(errCrowded.Code) {
			return r.blame(ctx, q, row, reason)
		}
		return nil
	})
	if err != nil {
		return paidaction.Outcome{}, err
	}
	if out.Failure == nil {
		r.lookAgain()
		return out, nil
	}
	r.Metrics.failed(reason)
	return out, nil
}

// anotherNode reports whether a node that has not refused the payment is left to try.
func (r *Relay) anotherNode(ctx context.Context, q *db.Queries, row db.RelayPayment, outcome, reason string, expired bool) (bool, error) {
	if outcome != endedFailed || receiverRefused(reason) || int(row.Attempts) >= r.Settings.MaxAttempts || expired {
		return false, nil
	}
	refusing, err := q.RefusingNodes(ctx, row.ID)
	return len(refusing) < len(r.Nodes.Names()), err
}

// receiverRefused reports whether the payment reached its receiver: another node would get the same answer.
func receiverRefused(reason string) bool { return reason == string(paidaction.ReasonIncorrectDetails) }

// refusalOf is what the payer is told.
func refusalOf(reason string) *paidaction.Error {
	switch {
	case receiverRefused(reason):
		return paidaction.Errorf(paidaction.CodePaymentFailed, "The receiver's wallet refused the payment. You get the money back.")
	case reason == string(wrap.NotHeld) || reason == string(wrap.BlocksShort):
		return heldTooLong
	case reason == string(errCrowded.Code):
		return paidaction.Errorf(paidaction.CodePaymentFailed, "Too many payments are under way. You get the money back.")
	}
	return paidaction.Errorf(paidaction.CodePaymentFailed, "The receiver could not be reached. You get the money back.")
}

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
	refusal := paidaction.Errorf(paidaction.CodePaymentFailed, "This invoice was paid by somebody else. You get the money back.")
	if paidaction.State(other.PaidAction.State) != paidaction.Paid { // an operator has given it up
		refusal = paidaction.Errorf(paidaction.CodePaymentFailed, "This invoice can no longer be paid. You get the money back.")
	}
	return r.giveUp(ctx, row, paidaction.StageInWork, refusal, possession{asked: r.Monotonic(), at: r.now()})
}
