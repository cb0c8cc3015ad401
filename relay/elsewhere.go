package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A node can have a payment that no claim here is for: the claim is lost, as after a restore of the database. Another node's failure, and that an invoice has expired, say nothing
// about it then: the payer, or whoever withdraws, would get back what has been paid. So before a payment is sent, and before it is given up, every node is asked, and one that
// has it goes on with it.

// askOthers is for how long a node is asked whether it has a payment that is not its own by our records: one that hangs must hold up nobody else's payments.
const askOthers = time.Second

// possession is a node that has a payment; none where name is "".
type possession struct {
	name string
	paid bool // its preimage is known there
}

// whoHas asks every sending node but one whether it has a payment, and returns one that does: if any has paid it, one of those. A node that does not answer in a moment
// is passed over, as it is when an invoice is accepted. answered is how many did answer.
func (r *Relay) whoHas(ctx context.Context, row db.RelayPayment, but string) (has possession, answered int) {
	limited, cancel := context.WithTimeout(ctx, askOthers)
	defer cancel()
	names := slices.DeleteFunc(slices.Clone(r.Nodes.Names()), func(n string) bool { return n == but })
	shown, errs, ask := make([]paidaction.PaymentUpdate, len(names)), make([]error, len(names)), make([]func() error, len(names))
	for i, n := range names {
		ask[i] = func() error {
			node, err := r.Nodes.Sender(n)
			if err == nil {
				shown[i], err = r.present(limited, node, hashOf(row))
			}
			errs[i] = err
			return nil
		}
	}
	_ = r.together(ask...)
	for i, n := range names {
		switch {
		case errs[i] == nil && shown[i].State != paidaction.PaymentFailed:
			if !has.paid {
				has = possession{n, shown[i].Preimage != nil}
			}
		case errs[i] != nil && !errors.Is(errs[i], paidaction.ErrPaymentNotFound):
			if ctx.Err() == nil {
				r.Log.WarnContext(ctx, "a node could not be asked about a payment", "action", row.ActionID, "node", n, "error", errs[i])
			}
			continue
		}
		answered++
	}
	return has, answered
}

// leave ends a claim under which nothing was sent, for the node that has the payment. What an earlier claim may have sent from this very node stays with this one until
// the other has paid, and is not sent as long as the other has it.
func (r *Relay) leave(ctx context.Context, c *claim, has possession) Blame {
	r.Metrics.already.Inc()
	reason := "node " + has.name + " has the payment"
	if c.pinned && !has.paid {
		return r.notSent(ctx, c, fmt.Errorf("%w: %s", errElsewhere, reason))
	}
	if err := r.leaveTo(context.WithoutCancel(ctx), c.row, paidaction.StageInWork, &c.attempt, endedNotSent, reason, has.name); err != nil {
		r.Log.WarnContext(ctx, "a payment could not be left to the node that has it", "action", c.row.ActionID, "error", err)
	}
	return Nobody
}

// leaveTo has a payment go on at the node that has it, from a stage, in place of a claim that ends so, if there is one.
func (r *Relay) leaveTo(ctx context.Context, row db.RelayPayment, from paidaction.Stage, instead *db.RelayAttempt, outcome, reason, name string) error {
	node, err := r.Nodes.Sender(name)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, r.Settings.AskTimeout)
	defer cancel()
	key, err := node.PublicKey(asking)
	if err != nil {
		return fmt.Errorf("ask node %s for its key: %w", name, err)
	}
	now, left := r.now(), int64(0)
	err = r.inTx(ctx, func(q *db.Queries) (err error) {
		left = 0
		if ended, err := endClaim(ctx, q, row, instead, outcome, reason, now); err != nil || !ended {
			return err
		}
		left, err = q.LeaveRelay(ctx, db.LeaveRelayParams{ID: row.ID, FromStage: string(from), Node: name, NodeKey: key, At: now})
		return err
	})
	if err == nil && left > 0 {
		r.Log.ErrorContext(ctx, "a node has a payment that no claim was for: it goes on there", "action", row.ActionID, "node", name)
	}
	return err
}
