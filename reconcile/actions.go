package reconcile

import (
	"cmp"
	"context"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// check compares the rows of a page of actions with each other, in one snapshot.
type check func(ctx context.Context, r *run, q *db.Queries, ids []int64) error

// checks say what rows must agree on. Those in checksByPast read only the history and the postings, so they are not run
// for archived actions.
var (
	checks       = []check{count, effects, hashes, outgoing, recorded, attempts, keys}
	checksByPast = []check{payment, history}
)

func count(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	n, err := q.CountsOfActions(ctx, ids)
	if err != nil {
		return err
	}
	r.look(4, n.Invoices)
	r.look(5, n.Payments)
	r.look(6, n.Steps)
	r.look(8, n.Keys)
	return nil
}

func payment(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	r.look(2, int64(len(ids)))
	rows, err := q.BreaksOfPayment(ctx, ids)
	for _, b := range rows {
		a := of(b.ID)
		free := !b.Pays && b.Due == 0
		switch {
		case b.Posted == b.Due && b.Sources == number(b.Pays):
		case free:
			r.found(charged.broken(a, "action %d (%s) is %s, and %d msat were taken for it", b.ID, b.Method, b.State, b.Posted))
		case b.Sources == 0:
			r.found(noSource.broken(a, "action %d (%s) is %s for %d msat, and nothing was taken for it", b.ID, b.Method, b.State, b.Due))
		case b.Sources > 1:
			r.found(manySources.broken(a, "action %d (%s) was paid from %d accounts, with %d msat", b.ID, b.Method, b.Sources, b.Posted))
		default:
			r.found(wrongAmount.broken(a, "action %d (%s) was to be paid with %d msat, and %d were taken for it", b.ID, b.Method, b.Due, b.Posted))
		}
		// Where nothing was to be paid all goes back: from no account is it to be taken instead.
		if b.Others && b.Sources == 1 && !free {
			r.found(othersMoney.broken(a, "action %d (%s) was paid from %s, which is not where its payer's money for it is", b.ID, b.Method, ledger.Account(b.Account)))
		}
		if b.Ends != number(b.Over) {
			r.found(endedWrong.broken(a, "action %d is %s, and has come to an end %d times", b.ID, b.State, b.Ends))
		}
	}
	if err != nil {
		return err
	}
	returns, err := q.BreaksOfReturns(ctx, ids)
	for _, b := range returns {
		r.found(othersReturn.broken(of(b.ID), "of action %d the payer was to get %d msat, and has got %d", b.ID, b.Due, b.Got))
	}
	return err
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func effects(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	r.look(3, int64(len(ids)))
	rows, err := q.BreaksOfEffects(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range rows {
		a := of(b.ActionID)
		if b.Differs {
			r.found(standsWrong(b).broken(a, "the %s of action %d is %s, the action is %s", b.What, b.ActionID, b.Effect, b.State))
		}
		if b.OtherAmount {
			r.found(otherAmount.broken(a, "the %s of action %d is over %d msat, the action costs %d", b.What, b.ActionID, b.Msat, b.CostMsat))
		}
		if b.Others {
			r.found(othersWork.broken(a, "the %s of action %d is not its payer's", b.What, b.ActionID))
		}
		if b.OtherItem {
			r.found(otherItem.broken(a, "the %s of action %d is item %d, and the action's result names item %s", b.What, b.ActionID, b.ItemID, cmp.Or(b.Named, "none")))
		}
	}
	invoices, err := q.BreaksOfInvoices(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range invoices {
		r.found(otherAmount.broken(of(b.ActionID), "the invoice of action %d is over %d msat, the action costs %d", b.ActionID, b.AmountMsat, b.CostMsat))
	}
	votes, err := q.BreaksOfVotesInPolls(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range votes {
		r.found(otherOption.broken(of(b.ActionID), "the vote of action %d is for option %d, and its payer has not chosen that, or it is another poll's", b.ActionID, b.OptionID))
	}
	weights, err := q.BreaksOfVotes(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range weights {
		r.found(otherVote.broken(of(id), "the weighted vote of action %d is not that of a paid zap, or a paid zap has none", id))
	}
	twice, err := q.ItemsTwice(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range twice {
		r.found(effectTwice.broken(of(b.ActionID), "action %d has made %d items", b.ActionID, b.Items))
	}
	missing, err := q.MissingEffects(ctx, db.MissingEffectsParams{Actions: ids, ArchivedTo: r.archivedTo})
	if err != nil {
		return err
	}
	for _, b := range missing {
		r.found(effectMissing.broken(of(b.ID), "action %d (%s) is PAID, and what it was to do is not there", b.ID, b.Kind))
	}
	return uses(ctx, r, q, ids)
}

// standsWrong is the kind of break where an action is paid or failed, and what it made is not, or the other way round.
func standsWrong(b db.BreaksOfEffectsRow) *Kind {
	switch state := paidaction.State(b.State); {
	case b.Effect == "PAID":
		return countsUnpaid
	case state == paidaction.Paid:
		return paidUncounted
	case state == paidaction.Failed || state == paidaction.Retrying:
		return notUndone
	}
	return undoneEarly
}

// uses checks what counts the actions that use it: invites and bounties.
func uses(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	invites, err := q.BreaksOfInvites(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range invites {
		r.found(usedWrong.broken(of(b.ActionID), "the invite that action %d redeems counts %d uses, and %d people have redeemed it", b.ActionID, b.Used, b.Redeemed))
	}
	bounties, err := q.UnmarkedBounties(ctx, ids)
	for _, b := range bounties {
		r.found(bountyUnmarked.broken(of(b.ActionID), "the bounty of item %d is reached by action %d, and does not count as paid", b.ItemID, b.ActionID))
	}
	return err
}

func hashes(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	same, err := q.BreaksOfHashes(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range same {
		r.found(invoiceTwice.broken(of(b.First, b.Last), "actions %d and %d share a payment hash", b.First, b.Last))
	}
	claims, err := q.ClaimsOfHashes(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range claims {
		r.found(twoClaims.broken(of(b.ActionID), "of the payment hash of action %d there are %d claims, on %d nodes, that may have been paid", b.ActionID, b.Claims, b.Nodes))
	}
	unnoted, err := q.UnnotedHashes(ctx, ids)
	for _, b := range unnoted {
		r.found(notNoted.broken(of(b.ActionID), "the payment hash of action %d is not noted as %s", b.ActionID, b.Used))
	}
	return err
}

// outgoing checks everything about one outgoing payment and its action.
func outgoing(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	rows, err := q.BreaksOfRelay(ctx, db.BreaksOfRelayParams{Actions: ids, ArchivedTo: r.archivedTo})
	for _, b := range rows {
		a := at{actions: []int64{b.ActionID}, node: b.Node}
		tell := func(when bool, k *Kind, format string, args ...any) {
			if when {
				r.found(k.broken(a, format, args...))
			}
		}
		tell(b.Twice, paidTwice, "the payment hash of action %d is paid by another action too", b.ActionID)
		tell(b.ForeignInvoice, ownInvoice, "action %d pays the hash of an invoice of ours that is another action's", b.ActionID)
		tell(b.Unsaid, unsaid, "the receiver's preimage is known of action %d, which is %s", b.ActionID, b.State)
		tell(b.GivenUp, givenUp, "the outgoing payment of action %d is %s, the action is %s", b.ActionID, b.Stage, b.State)
		tell(b.Live, stillLive, "the outgoing payment of action %d is %s, the action is %s", b.ActionID, b.Stage, b.State)
		tell(b.WrongPreimage, wrongPreimage, "the preimage of the outgoing payment of action %d is not that of its hash", b.ActionID)
		tell(b.Late, notSettled, "action %d is FORWARDED, and past its safety height", b.ActionID)
		tell(b.UnbookedLoss, lossUnbooked, "the payer's payment of action %d was lost, and no loss is booked", b.ActionID)
		tell(b.OtherTerms, otherTerms, "the outgoing payment of action %d is not the one, of the amount and the routing budget, that was accepted", b.ActionID)
		tell(b.OtherFee, otherFee, "the fee of the outgoing payment of action %d is not the one that was booked", b.ActionID)
		tell(b.Unclaimed, unclaimed, "the outgoing payment of action %d was made, and no claim on a node says so", b.ActionID)
		tell(b.OtherClaim, otherClaim, "the outgoing payment of action %d is %s, and its claims say otherwise", b.ActionID, b.Stage)
		over := paidaction.State(b.State)
		failed := over == paidaction.Failed || over == paidaction.Retrying
		tell(b.HeldMsat != 0 && failed, notRefunded, "of action %d, which is %s, %d msat are still set aside", b.ActionID, b.State, b.HeldMsat)
		tell(b.HeldMsat != 0 && !failed, setAside, "of action %d, whose payment is completed, %d msat are still set aside", b.ActionID, b.HeldMsat)
	}
	return err
}

// recorded checks that the records by which nodes are asked, and payments taken, are there.
func recorded(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	rows, err := q.LostRecords(ctx, ids)
	for _, b := range rows {
		r.found(recordLost.broken(of(b.ID), "the %s of action %d, which is %s, is not there", b.What, b.ID, b.State))
	}
	if err != nil {
		return err
	}
	wrong, err := q.WrongPreimages(ctx, ids)
	for _, b := range wrong {
		r.found(ownPreimage.broken(at{actions: []int64{b.ActionID}, node: b.Node}, "the invoice of action %d, which is %s, has not the preimage of its hash", b.ActionID, b.State))
	}
	return err
}

func attempts(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	rows, err := q.BreaksOfAttempts(ctx, ids)
	for _, b := range rows {
		r.found(strangeAttempt.broken(of(b.ID, b.Successor), "action %d was tried again by action %d, which is not its next attempt", b.ID, b.Successor))
	}
	return err
}

func history(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	rows, err := q.BreaksOfHistory(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range rows {
		a := of(b.ActionID)
		switch {
		case b.Strange:
			r.found(strangeStep.broken(a, "action %d has the step %q to %q", b.ActionID, b.FromState, b.ToState))
		case b.Gap:
			r.found(gap.broken(a, "action %d has the step %q to %q after one that ends elsewhere", b.ActionID, b.FromState, b.ToState))
		}
		if b.Differs {
			r.found(endDiffers.broken(a, "action %d is %s, and its last step leads to %s", b.ActionID, b.State, b.ToState))
		}
	}
	facts, err := q.FactsOfHistory(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range facts {
		from, to := paidaction.State(b.FromState), paidaction.State(b.ToState)
		if step, ok := paidaction.FindStep(paidaction.Flow(b.Flow), from, paidaction.Fact(b.Fact)); !ok || step.To != to {
			r.found(strangeFact.broken(of(b.ActionID), "action %d (%s) went from %q to %q since %s", b.ActionID, b.Flow, from, to, b.Fact))
		}
	}
	missing, err := q.ActionsWithoutHistory(ctx, ids)
	for _, id := range missing {
		r.found(noHistory.broken(of(id), "action %d has no history", id))
	}
	return err
}

func keys(ctx context.Context, r *run, q *db.Queries, ids []int64) error {
	same, err := q.BreaksOfKeys(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range same {
		r.found(keyTwice.broken(of(b.First, b.Last), "actions %d and %d have the same key", b.First, b.Last))
	}
	weak, err := q.WeakKeys(ctx, ids)
	for _, b := range weak {
		if b.Guessable {
			r.found(guessable.broken(of(b.ID), "the key of action %d, which is nobody's, is too short to be a secret", b.ID))
		}
		if b.Unhashed {
			r.found(unhashed.broken(of(b.ID), "of the key of action %d there is no hash of its arguments", b.ID))
		}
	}
	return err
}
