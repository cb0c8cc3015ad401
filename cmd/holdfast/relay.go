package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

type relayCommand struct {
	List    relayList    `cmd:"" help:"List outgoing payments, newest first."`
	Show    relayShow    `cmd:"" help:"Show the outgoing payment of an action, with every time that a node was given it."`
	Requeue relayRequeue `cmd:"" changes:"" help:"Queue a failed payment again, if its payer has not been refunded yet."`
	Paid    relayPaid    `cmd:"" changes:"" help:"Go on with a payment whose node has lost its data, by the preimage that its receiver shows."`
}

// payment is a row of a list. It does not show the invoice, which is the receiver's business.
type payment struct {
	ID         int64     `json:"id"` // the list has them in this order, which is not that of the actions
	Action     int64     `json:"action"`
	Stage      string    `json:"stage"`
	Hash       string    `json:"payment_hash"`
	Receiver   *int64    `json:"receiver"` // null: a withdrawal
	AmountMsat int64     `json:"amount_msat"`
	BudgetMsat int64     `json:"budget_msat"`
	FeeMsat    *int64    `json:"fee_msat"`
	Node       *string   `json:"node"`
	Attempts   int32     `json:"attempts"`
	ExpiresAt  time.Time `json:"expires_at"`
	ChangedAt  time.Time `json:"changed_at"`
	Failure    *string   `json:"failure"`
}

func paymentOf(row db.RelayPayment) payment {
	return payment{ID: row.ID, Action: row.ActionID, Stage: row.Stage, Hash: hex.EncodeToString(row.PaymentHash), Receiver: row.ReceiverID,
		AmountMsat: row.AmountMsat, BudgetMsat: row.BudgetMsat, FeeMsat: row.FeeMsat, Node: row.Node, Attempts: row.Attempts,
		ExpiresAt: row.ExpiresAt, ChangedAt: row.ChangedAt, Failure: row.FailureMessage}
}

type relayList struct {
	Stage string `help:"Only payments in this stage, such as in_work."`
	newest
}

func (c relayList) Run(ctx context.Context, e *environment) error {
	before, err := c.page()
	if err != nil {
		return err
	}
	if c.Stage != "" && !slices.Contains(paidaction.Stages, paidaction.Stage(c.Stage)) {
		return fmt.Errorf("%w: there is no stage %q; the stages are %s", errArguments, c.Stage, strings.Trim(fmt.Sprint(paidaction.Stages), "[]"))
	}
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		var rows []db.RelayPayment
		var err error
		if c.Stage == "" {
			rows, err = q.ListRelay(ctx, db.ListRelayParams{Before: before, Page: c.Limit})
		} else {
			rows, err = q.ListRelayInStage(ctx, db.ListRelayInStageParams{Stage: c.Stage, Before: before, Page: c.Limit})
		}
		if err != nil {
			return err
		}
		list := make([]payment, len(rows))
		for i, row := range rows {
			list[i] = paymentOf(row)
		}
		return e.print(list, func(t *table) {
			t.row("ID", "ACTION", "STAGE", "RECEIVER", "AMOUNT (msat)", "BUDGET", "FEE", "NODE", "ATTEMPTS", "EXPIRES", "CHANGED", "FAILURE")
			for _, p := range list {
				t.row(p.ID, p.Action, p.Stage, p.Receiver, p.AmountMsat, p.BudgetMsat, p.FeeMsat, p.Node, p.Attempts, p.ExpiresAt, p.ChangedAt, p.Failure)
			}
		})
	})
}

type relayShow struct {
	Action int64 `arg:"" help:"The action."`
}

// paymentClaim is one promise to send.
type paymentClaim struct {
	Node      string     `json:"node"`
	Fence     int64      `json:"fence"`
	ClaimedAt time.Time  `json:"claimed_at"`
	SendUntil time.Time  `json:"send_until"`
	Seen      bool       `json:"seen"` // the node has shown the payment
	Outcome   *string    `json:"outcome"`
	Reason    *string    `json:"reason"`
	EndedAt   *time.Time `json:"ended_at"`
}

type wholePayment struct {
	payment
	Waits  []waitsFor     `json:"waits,omitempty"` // why it has not left yet
	Claims []paymentClaim `json:"claims"`
}

func relayOf(ctx context.Context, q *db.Queries, action int64) (db.RelayPayment, error) {
	row, err := q.GetRelay(ctx, action)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, fmt.Errorf("action %d has no outgoing payment: holdfast relay list shows those that have one", action)
	}
	return row, err
}

func (c relayShow) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, q *db.Queries) error {
		row, err := relayOf(ctx, q, c.Action)
		if err != nil {
			return err
		}
		attempts, err := q.Attempts(ctx, row.ID)
		if err != nil {
			return err
		}
		whole := wholePayment{payment: paymentOf(row), Claims: make([]paymentClaim, len(attempts))}
		for i, a := range attempts {
			whole.Claims[i] = paymentClaim{Node: a.Node, Fence: a.Fence, ClaimedAt: a.ClaimedAt, SendUntil: a.SendUntil, Seen: a.Seen,
				Outcome: a.Outcome, Reason: a.Reason, EndedAt: a.EndedAt}
		}
		if whole.Waits, err = waits(ctx, e, pool, row); err != nil {
			return err
		}
		return e.print(whole, func(t *table) {
			t.row("ACTION", "STAGE", "RECEIVER", "AMOUNT (msat)", "BUDGET", "FEE", "HASH")
			t.row(whole.Action, whole.Stage, whole.Receiver, whole.AmountMsat, whole.BudgetMsat, whole.FeeMsat, whole.Hash)
			if len(whole.Waits) > 0 {
				t.row()
				t.row("NODE", "WHY IT WAITS")
				for _, w := range whole.Waits {
					t.row(w.Node, w.Why)
				}
			}
			t.row()
			t.row("NODE", "CLAIMED", "SEND UNTIL", "SEEN", "OUTCOME", "REASON")
			for _, a := range whole.Claims {
				t.row(a.Node, a.ClaimedAt, a.SendUntil, a.Seen, a.Outcome, a.Reason)
			}
		})
	})
}

type relayRequeue struct {
	Action int64 `arg:"" help:"The action."`
}

func (c relayRequeue) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, q *db.Queries) error {
		if _, err := relayOf(ctx, q, c.Action); err != nil {
			return err
		}
		// The processes that send wait by their clocks for a node that can send it, not by that of the machine where this is
		// typed.
		now, err := dbclock.Now(ctx, pool)
		if err != nil {
			return err
		}
		if err := relay.Requeue(ctx, pool, c.Action, now); err != nil {
			return err
		}
		return e.print(map[string]int64{"requeued": c.Action}, func(t *table) { t.row("The payment of action", c.Action, "will be sent again.") })
	})
}

type relayPaid struct {
	Action   int64    `arg:"" help:"The action."`
	Preimage string   `required:"" secret:"" help:"The preimage that the receiver shows: 64 hexadecimal digits. Whoever shows it counts as paid." placeholder:"HEX"`
	Replaced []string `help:"The node that was made anew, if it answers with another key since. Its data must be gone for good." placeholder:"NODE"`
}

// Run asks the nodes itself, independently of the running service, which then takes the payer's payment.
func (c relayPaid) Run(ctx context.Context, e *environment) error {
	raw, err := hex.DecodeString(c.Preimage)
	if err != nil || len(raw) != len(paidaction.Preimage{}) {
		return fmt.Errorf("%w: --preimage must have 64 hexadecimal digits", errArguments)
	}
	return atKnownNodes(ctx, e, c.Replaced, func(s *service, q *db.Queries) error {
		if _, err := relayOf(ctx, q, c.Action); err != nil {
			return err
		}
		if err := s.engine.Learn(ctx, c.Action, paidaction.Preimage(raw)); err != nil {
			return err
		}
		return e.print(map[string]int64{"paid": c.Action}, func(t *table) {
			t.row("The receiver of action", c.Action, "counts as paid; what else is due is done by the workers.")
		})
	})
}
