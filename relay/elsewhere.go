package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A node can have a payment for which there is no claim here: the claim was lost, for instance when the database was
// restored. Then the failure of another node, or an expired invoice, proves nothing, and giving the money back would
// pay twice. So before a payment is sent, and before it is given up, every node is asked, and a node that has it goes
// on with it.

// askOthers is how long we wait for a node that, by our records, does not have the payment: a hanging node must not
// hold up the payments of others.
const askOthers = time.Second

// possession is what nodes say of who has a payment.
type possession struct {
	name     string    // the node that has it; "" if there is none
	paid     bool      // that node knows its preimage
	answered bool      // one that sends did answer; any, where none sends any more
	silent   bool      // one did not that could have it
	asked    time.Time // a moment before they were asked, by Monotonic
	doubt    string    // the latest about the database, before they were asked: only what forGood says has it
}

// errSilent says that the database may lack claims, and that nobody knows yet whether a node has the payment.
var errSilent = errors.New("the database may lack claims, and a node that could have the payment has not said, or not for long enough, that it does not")

// whoHas asks every node of ours, except the one named in but, whether it has a payment: one that sends no more may
// have sent it. It returns one that does; if any has paid it, one of those. A node that does not answer within
// askOthers is passed over, as it is when an invoice is accepted. Where the database may lack a claim on the
// payment, nobody is passed over, and no answer counts that came before whoever holds such a claim must have sent:
// it returns errSilent, unless a node that did answer has the payment. What began before a history of the database
// was accepted may lack one for good.
func (r *Relay) whoHas(ctx context.Context, row db.RelayPayment, but string) (has possession, err error) {
	has.asked = r.Monotonic()
	limited, cancel := context.WithTimeout(ctx, askOthers)
	defer cancel()
	names := slices.DeleteFunc(slices.Clone(r.Nodes.Ours()), func(n string) bool { return n == but })
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
	senders := r.Nodes.Names()
	for i, n := range names {
		sends := slices.Contains(senders, n)
		switch {
		case errs[i] == nil && shown[i].State != paidaction.PaymentFailed:
			if !has.paid {
				has.name, has.paid = n, shown[i].Preimage != nil
			}
		case errors.Is(errs[i], paidaction.ErrNotPermitted) && !sends:
			continue // its macaroon is for invoices alone: everything would wait for what it never says
		case errs[i] != nil && !errors.Is(errs[i], paidaction.ErrPaymentNotFound):
			has.silent = true
			if ctx.Err() == nil {
				r.Log.WarnContext(ctx, "a node could not be asked about a payment", "action", row.ActionID, "node", n, "error", errs[i])
			}
			continue
		}
		has.answered = has.answered || sends || len(senders) == 0
	}
	_, doubted := r.Doubted()
	switch {
	case has.name != "":
	case r.mayLack(has.asked), has.silent && doubted:
		return has, errSilent
	case has.silent:
		if accepted, err := r.begunBeforeAccepted(ctx, row); err != nil || accepted {
			return has, cmp.Or(err, errSilent)
		}
	}
	return has, nil
}

// forGood is whoHas for whoever gives a payment up where none has it, which counts then.
func (r *Relay) forGood(ctx context.Context, row db.RelayPayment, but string) (has possession, err error) {
	doubt, err := paidaction.LatestDoubt(ctx, db.New(r.Pool))
	if err != nil {
		return has, err
	}
	has, err = r.whoHas(ctx, row, but)
	has.doubt = doubt
	return has, err
}

// begunBeforeAccepted reports whether the database may lack claims on a payment for good.
func (r *Relay) begunBeforeAccepted(ctx context.Context, row db.RelayPayment) (bool, error) {
	accepted, err := db.New(r.Pool).BegunBeforeAccepted(ctx, row.ActionID)
	if err != nil {
		return false, fmt.Errorf("%w: ask whether claims may be lost: %w", errElsewhere, err)
	}
	return accepted, nil
}

// Forgotten implements paidaction.Relay.
func (r *Relay) Forgotten(ctx context.Context, action int64, h paidaction.Hash) (bool, error) {
	has, err := r.forgotten(ctx, db.RelayPayment{ActionID: action, PaymentHash: h[:]})
	return has.name != "", err
}

// forgotten is whoHas for a payment that no node has by our records. It asks nobody where the database cannot have
// forgotten anything about it.
func (r *Relay) forgotten(ctx context.Context, row db.RelayPayment) (has possession, err error) {
	if _, doubted := r.Doubted(); !doubted && !r.mayLack(r.Monotonic()) {
		if accepted, err := r.begunBeforeAccepted(ctx, row); err != nil || !accepted {
			return has, err
		}
	}
	return r.whoHas(ctx, row, "")
}

// mayLack reports whether the database may have lost claims by which somebody sent, or is yet to send, after nodes were
// asked at this moment. It does not matter whether its history was accepted since, nor what this process's SendWindow is:
// those who hold such claims may have a longer one.
func (r *Relay) mayLack(asked time.Time) bool {
	since, _ := r.Doubted()
	return asked.Sub(since) < MaxSendWindow+r.Settings.Grace+askOthers
}

// counts is nil if what nodes said (forGood) is about all that this database may have forgotten: no copy has taken over
// since they were asked, nor has a history been doubted or accepted since. A process that was stopped meanwhile may have
// heard of neither, and no clock of a process says what came first.
func (r *Relay) counts(ctx context.Context, q *db.Queries, has possession) error {
	if r.mayLack(has.asked) {
		return errSilent
	}
	doubt, err := paidaction.LatestDoubt(ctx, q)
	if err == nil && doubt != has.doubt {
		err = errSilent
	}
	return err
}

// leave ends a claim under which nothing was sent, in favour of the node that has the payment. If an earlier claim may
// have sent it from the claim's own node (pinned), the payment stays there until the other node has paid; it is not
// sent while the other node has it.
func (r *Relay) leave(ctx context.Context, c *claim, has possession) Blame {
	r.Metrics.already.Inc()
	reason := "node " + has.name + " has the payment"
	if c.pinned && !has.paid {
		return r.notSent(ctx, c, fmt.Errorf("%w: %s", errElsewhere, reason))
	}
	if err := r.leaveTo(context.WithoutCancel(ctx), c.row, &ending{c.attempt, endedNotSent, reason}, has.name); err != nil {
		r.Log.WarnContext(ctx, "a payment could not be left to the node that has it", "action", c.row.ActionID, "error", err)
	}
	return Nobody
}

// leaveTo moves a payment to the node that has it, and ends the claim on it, if there is one.
func (r *Relay) leaveTo(ctx context.Context, row db.RelayPayment, e *ending, name string) error {
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
		if free, err := freed(ctx, q, row, e, now); err != nil || !free {
			return err
		}
		left, err = q.LeaveRelay(ctx, db.LeaveRelayParams{ID: row.ID, FromStage: row.Stage, Node: name, NodeKey: key, At: now})
		return err
	})
	if err == nil && left > 0 {
		r.Log.ErrorContext(ctx, "a node has a payment that no claim was for: it goes on there", "action", row.ActionID, "node", name)
	}
	return err
}
