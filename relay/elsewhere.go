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
// about it then: the payer, or whoever withdraws, would get back what has been paid. So before a payment is sent, and before it is given up unsent, every node is asked, and
// one that has it goes on with it.

// askOthers is for how long a node is asked whether it has a payment that is not its own by our records: one that hangs must hold up nobody else's payments.
const askOthers = time.Second

// whoHas is a sending node, other than one, that has a payment or has paid it; none is "". A node that cannot be asked in a moment is passed over, as it is when
// an invoice is accepted; answered are the others.
func (r *Relay) whoHas(ctx context.Context, row db.RelayPayment, but string) (name string, answered int) {
	ctx, cancel := context.WithTimeout(ctx, askOthers)
	defer cancel()
	names := slices.DeleteFunc(slices.Clone(r.Nodes.Names()), func(n string) bool { return n == but })
	has, away, ask := make([]bool, len(names)), make([]error, len(names)), make([]func() error, len(names))
	for i, n := range names {
		ask[i] = func() error {
			node, err := r.Nodes.Sender(n)
			if err == nil {
				var now paidaction.PaymentUpdate
				now, err = r.present(ctx, node, hashOf(row))
				has[i] = err == nil && now.State != paidaction.PaymentFailed
			}
			if !errors.Is(err, paidaction.ErrPaymentNotFound) {
				away[i] = err
			}
			return nil
		}
	}
	_ = r.together(ask...)
	for i, n := range names {
		if has[i] && name == "" {
			name = n
		}
		if away[i] == nil {
			answered++
		} else if ctx.Err() == nil {
			r.Log.WarnContext(ctx, "a node could not be asked about a payment", "action", row.ActionID, "node", n, "error", away[i])
		}
	}
	return name, answered
}

// leave ends a claim under which nothing was sent, for the node that has the payment. What an earlier claim may have sent from this very node stays with this one, and
// is not sent as long as another has it.
func (r *Relay) leave(ctx context.Context, c *claim, name string) Blame {
	r.Metrics.already.Inc()
	if c.pinned {
		return r.notSent(ctx, c, fmt.Errorf("%w: node %s has the payment", errElsewhere, name))
	}
	if err := r.leaveTo(context.WithoutCancel(ctx), c.row, inWork, &c.attempt, name); err != nil {
		r.Log.WarnContext(ctx, "a payment could not be left to the node that has it", "action", c.row.ActionID, "error", err)
	}
	return Nobody
}

// leaveTo has a payment go on at the node that has it, from a stage, in place of a claim under which nothing was sent, if there is one.
func (r *Relay) leaveTo(ctx context.Context, row db.RelayPayment, from string, instead *db.RelayAttempt, name string) error {
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
	now, outcome, reason := r.now(), endedNotSent, "node "+name+" has the payment"
	left := int64(0)
	err = r.inTx(ctx, func(q *db.Queries) (err error) {
		left = 0
		if _, err := q.LockRelay(ctx, row.ActionID); err != nil {
			return err
		}
		if instead != nil {
			n, err := q.EndAttempt(ctx, db.EndAttemptParams{ID: instead.ID, Outcome: &outcome, Reason: &reason, At: &now})
			if err != nil || n == 0 {
				return err // somebody else has seen to it
			}
		}
		left, err = q.LeaveRelay(ctx, db.LeaveRelayParams{ID: row.ID, FromStage: from, Node: name, NodeKey: key, At: now})
		return err
	})
	if err == nil && left > 0 {
		r.Log.ErrorContext(ctx, "a node has a payment that no claim was for: it goes on there", "action", row.ActionID, "node", name)
	}
	return err
}
