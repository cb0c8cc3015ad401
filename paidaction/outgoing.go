package paidaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// errNoRelay: the payment was begun by a service that can pay receivers, and this one cannot.
var errNoRelay = errors.New("there is no relay to look after the outgoing payment")

// sendOut has the relay look after an outgoing payment, and asks how far it is.
func (e *Engine) sendOut(ctx context.Context, pa *PaidAction) (finding, error) {
	if e.Relay == nil {
		return finding{}, errNoRelay
	}
	out, err := e.Relay.Proceed(ctx, pa.ID)
	switch {
	case err != nil:
		return finding{}, fmt.Errorf("look after the outgoing payment: %w", err)
	case out.Preimage != nil:
		return finding{fact: OutgoingPaid, outcome: out}, nil
	case out.Failure != nil:
		return finding{fact: OutgoingRefused, failure: out.Failure}, nil
	}
	return finding{}, nil
}

// askCost asks what a withdrawal has cost, whose receiver was paid. That is not known before no part of the payment is
// under way any more.
func (e *Engine) askCost(ctx context.Context, pa *PaidAction) (finding, error) {
	if e.Relay == nil {
		return finding{}, errNoRelay
	}
	out, err := e.Relay.Proceed(ctx, pa.ID)
	if err != nil {
		return finding{}, fmt.Errorf("ask for the cost of the outgoing payment: %w", err)
	}
	if !out.Final {
		return finding{}, nil
	}
	return finding{fact: BalanceWasDebited, outcome: out}, nil
}

// lockForPayout locks what debitAndClaim goes by: the action that is to be paid for, or the payer, whose withdrawals are
// counted. It comes before the key is taken, as all such locks do. Whoever has locked the same and comes with the same key
// would else wait for the key, and be waited for.
func lockForPayout(ctx context.Context, q *db.Queries, payer int64, p *Payout) error {
	if p.Inside != 0 {
		if _, err := q.LockAction(ctx, p.Inside); err != nil {
			return fmt.Errorf("lock the action to pay for: %w", err)
		}
		return nil
	}
	if err := q.LockPayer(ctx, payer); err != nil {
		return fmt.Errorf("lock the payer: %w", err)
	}
	return nil
}

// boundWithdrawals refuses more withdrawals under way than a payer, who is locked, may have. The payer may own the
// receiving node and let payments hang: each occupies a place at our node while it looks for a route, and those whose
// invoices expire soonest are sent first.
func (e *Engine) boundWithdrawals(ctx context.Context, q *db.Queries, payer int64) error {
	if err := q.BoundWithdrawals(ctx, db.BoundWithdrawalsParams{PayerID: payer, Most: e.Settings.MaxWithdrawals}); err != nil {
		return fmt.Errorf("bound the withdrawals under way: %w", err)
	}
	return nil
}

// debitAndClaim debits the most that a withdrawal may cost, and puts the payment into the pipeline.
func (e *Engine) debitAndClaim(ctx context.Context, pg pgx.Tx, tx *Tx) error {
	p := tx.Payout
	if p.Inside != 0 {
		return e.debitAndPayInside(ctx, pg, tx)
	}
	// Only once the key is known to be new: a repeated request for the last withdrawal that had room gets that
	// withdrawal.
	if err := e.boundWithdrawals(ctx, tx.DB, *tx.Payer); err != nil {
		return err
	}
	if n, err := tx.DB.UseForeignHash(ctx, db.UseForeignHashParams{PaymentHash: p.Hash[:], Used: "WITHDRAWN"}); err != nil {
		return fmt.Errorf("note the hash: %w", err)
	} else if n == 0 {
		// A withdrawal that failed may be tried again. An invoice that one of ours wraps must not be paid by us.
		if used, err := tx.DB.ForeignHashUse(ctx, p.Hash[:]); err != nil || used != "WITHDRAWN" {
			return errors.Join(err, Errorf(CodeDuplicate, "This invoice cannot be paid from a balance. Use another one."))
		}
	}
	n, err := tx.DB.AcceptRelay(ctx, db.AcceptRelayParams{ActionID: tx.Action, PayerID: tx.Payer, PaymentHash: p.Hash[:], Bolt11: p.Bolt11,
		AmountMsat: int64(p.Amount), BudgetMsat: int64(p.Budget), FinalCltv: int32(p.FinalCLTV), ExpiresAt: p.Expires, At: tx.Now})
	if err != nil {
		return fmt.Errorf("put the payment into the pipeline: %w", err)
	}
	if n == 0 {
		return Errorf(CodeDuplicate, "This invoice is being paid, or was already paid.")
	}
	return e.debit(ctx, pg, tx)
}

// debit takes the most that a withdrawal may cost from the balance, or fails with ledger.ErrInsufficient. The jobs wake
// the relay of whichever process runs them.
func (e *Engine) debit(ctx context.Context, pg pgx.Tx, tx *Tx) error {
	if err := e.Jobs.Insert(ctx, pg, Job{Kind: JobAdvance, Action: tx.Action},
		Job{Kind: JobAdvance, Action: tx.Action, At: *e.deadlineAfter(Forwarding, tx.Now)}); err != nil {
		return fmt.Errorf("store the jobs: %w", err)
	}
	return ledger.Post(ctx, tx.DB, &tx.Action, tx.Now, []ledger.Transfer{
		{From: ledger.UserSats(*tx.Payer), To: ledger.RoutingSats, Msat: int64(tx.Cost), Reason: "withdrawal"}})
}

// payOut books what an outgoing payment really cost against what was set aside for it, once no part of it is under way.
// The rest of the budget goes to rest. So does what came back although the receiver gave the preimage: a receiver who
// settles one of several parts has been paid by that (BOLT 4), and the other parts are not theirs.
//
// A fee above the budget was never allowed to the node, and more than the amount was never asked for; that can happen
// if somebody has paid another invoice with this hash by hand. Both are booked as losses (spec 05.10).
func payOut(ctx context.Context, tx *Tx, left Outcome, rest ledger.Account) error {
	rows, err := tx.DB.RelaysCompleted(ctx, db.RelaysCompletedParams{ActionIds: []int64{tx.Action}, Fees: []int64{int64(left.Fee)}, At: tx.Now})
	if err != nil || len(rows) == 0 {
		return err
	}
	return ledger.Post(ctx, tx.DB, &tx.Action, tx.Now, paidOut(rows[0], left, rest))
}

// paidOut returns the transfers of payOut.
func paidOut(row db.RelayPayment, left Outcome, rest ledger.Account) []ledger.Transfer {
	fee, budget, amount := left.Fee, Msat(row.BudgetMsat), Msat(row.AmountMsat)
	out := func(from, to ledger.Account, msat Msat, reason string) []ledger.Transfer {
		if msat <= 0 {
			return nil
		}
		return []ledger.Transfer{{From: from, To: to, Msat: int64(msat), Reason: reason}}
	}
	spent := min(left.Paid, amount) + min(fee, budget)
	if row.InsideID != nil {
		spent = 0 // the action that it paid for has handed it out
	}
	transfers := out(ledger.RoutingSats, ledger.Lightning, spent, "paid out")
	transfers = append(transfers, out(ledger.RoutingSats, rest, amount-left.Paid, "came back")...)
	transfers = append(transfers, out(ledger.LossSats, ledger.Lightning, left.Paid-amount, "paid above the amount")...)
	transfers = append(transfers, out(ledger.LossSats, ledger.Lightning, fee-budget, "routing fee above the budget")...)
	return append(transfers, out(ledger.RoutingSats, rest, budget-fee, "unused routing fee")...)
}

// known is a preimage that a receiver gave.
type known struct {
	action   int64
	preimage *Preimage
}

// storePreimages stores the receivers' preimages in the same transaction as the state that owes the settle.
func storePreimages(ctx context.Context, q *db.Queries, now time.Time, all ...known) error {
	paid := db.RelaysPaidParams{At: now}
	for _, k := range all {
		paid.ActionIds, paid.Preimages = append(paid.ActionIds, k.action), append(paid.Preimages, k.preimage[:])
	}
	if err := q.RelaysPaid(ctx, paid); err != nil {
		return fmt.Errorf("store the preimages: %w", err)
	}
	return nil
}

// bookPayout makes a withdrawal count, and gives back what did not leave.
func (e *Engine) bookPayout(ctx context.Context, pg pgx.Tx, def Definition, tx *Tx, row db.PaidAction, step Step, found finding) error {
	// The debit was posted when the withdrawal began; nothing is left to hand out.
	tx.given = tx.Cost
	if err := e.book(ctx, pg, def, tx, row.Args, row.Result, tx.Cost); err != nil {
		return err
	}
	if step.Effect != BookLoss {
		return payOut(ctx, tx, found.outcome, ledger.UserSats(*row.PayerID))
	}
	out, err := tx.DB.LockRelay(ctx, row.ID)
	if err != nil {
		return fmt.Errorf("lock the outgoing payment: %w", err)
	}
	return payOutUnknown(ctx, tx, out, ledger.UserSats(*row.PayerID))
}

// refund gives back all that a withdrawal took, and undoes what was performed.
func (e *Engine) refund(ctx context.Context, def Definition, tx *Tx, row db.PaidAction) error {
	if err := def.onFail(ctx, tx, row.Args, row.Result); err != nil {
		return err
	}
	return ledger.Post(ctx, tx.DB, &tx.Action, tx.Now, []ledger.Transfer{
		{From: ledger.RoutingSats, To: ledger.UserSats(*row.PayerID), Msat: row.CostMsat, Reason: "withdrawal failed"}})
}
