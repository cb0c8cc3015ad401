package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A node finds out what a route costs by sending a probe: a payment of the whole amount, with a hash whose preimage
// nobody has, within the limits of the real payment. A receiver can let a probe hang like any payment. So it counts
// towards what is under way to them, for as long as they can hold it.

// A probe that does not come back is assumed to lock our money for probeLocks, by when its HTLC has expired; or longer,
// if the receiver's invoice asks for more blocks. It is noted so from the beginning: the process may die before it knows
// more. Among the payments it counts once it should have come back (hangs_at): if it did at once, whoever asks for
// invoices, and pays none, could have what others pay refused.
const (
	probeLocks = 24 * time.Hour
	aBlock     = 10 * time.Minute
)

// errProbing says that too many probes to one receiver are out.
var errProbing = &wrap.Violation{Code: "PROBES_HANG", Why: "routes to it were tried, and nobody has seen these tries come back"}

// probe asks a node for a route, unless too many probes to the receiver hang. A probe without an answer in time stays
// noted as hanging, until its node tells that it has come back; not one that its node has not come to send.
func (r *Relay) probe(ctx context.Context, name string, receiver int64, request paidaction.RouteRequest,
	inner paidaction.Bolt11) (paidaction.Route, error) {
	node, err := r.Nodes.Sender(name)
	if err != nil {
		return paidaction.Route{}, err
	}
	if _, err := io.ReadFull(r.Random, request.Probe[:]); err != nil {
		return paidaction.Route{}, fmt.Errorf("relay: a hash for a probe: %w", err)
	}
	give, err := r.placeToProbe(ctx, receiver)
	if err != nil {
		return paidaction.Route{}, err
	}
	defer give()
	asked := ctx
	if asked.Err() != nil {
		return paidaction.Route{}, context.Cause(asked)
	}
	// Whoever asked may hang up, but the probe is out. If nobody saw it come back, three payers who hang up would bar
	// the receiver's wallets for a day.
	ctx = context.WithoutCancel(ctx)
	// Nothing is sent later than the note says, even if the process stands still on the way: it may have been found by
	// then that the node knows of no such probe (AskProbes).
	limited, cancel := context.WithDeadline(ctx, r.Monotonic().Add(r.Settings.NoteTimeout+r.Settings.ProbeTimeout))
	defer cancel()
	id, err := r.beginProbe(ctx, db.BeginProbeParams{ReceiverID: receiver, Node: name, Hash: request.Probe[:], AmountMsat: int64(inner.Amount)}, inner)
	if err != nil {
		if id != 0 { // it is not known whether that was committed, or will be once the server goes on
			r.endProbe(ctx, id)
			r.back.Store(id, nil)
		}
		return paidaction.Route{}, err
	}
	limited, cancel = context.WithTimeout(limited, r.Settings.ProbeTimeout)
	defer cancel()
	route, err := node.EstimateRoute(limited, request)
	back := err == nil || errors.Is(err, paidaction.ErrNoRoute) || errors.Is(err, paidaction.ErrBolt11)
	mayBeOut := !back && !errors.Is(err, paidaction.ErrNotProbed)
	if errors.Is(err, paidaction.ErrProbeOpen) || mayBeOut && limited.Err() != nil {
		r.awaitProbe(ctx, id, err)
		return route, fmt.Errorf("%w: %w", errProbing, err)
	}
	r.endProbe(ctx, id)
	if asked.Err() != nil {
		return paidaction.Route{}, context.Cause(asked)
	}
	if !back {
		err = errAway(err)
	}
	return route, err
}

// awaitProbe has a probe that was too slow counted no more once it has come back, if its node tells that. A slow node
// on the way is not the receiver's fault.
func (r *Relay) awaitProbe(ctx context.Context, id int64, err error) {
	var open *paidaction.OpenProbe
	if !errors.As(err, &open) {
		return
	}
	go func() {
		if <-open.Back {
			r.endProbe(ctx, id)
		}
	}()
}

// endProbe has a probe counted no more. If PostgreSQL is away, that is made up for before the next probe is counted.
func (r *Relay) endProbe(ctx context.Context, id int64) {
	ctx, cancel := context.WithTimeout(ctx, r.Settings.NoteTimeout)
	defer cancel()
	r.endProbes(ctx, id)
}

// endProbes has these probes counted no more, and those for which that is to be made up for. Whoever ends one does so
// themselves: left to another, it would still be counted when its place goes to the next.
func (r *Relay) endProbes(ctx context.Context, ids ...int64) {
	r.back.Range(func(id, _ any) bool {
		if _, mine := r.back.LoadAndDelete(id); mine {
			ids = append(ids, id.(int64))
		}
		return true
	})
	if len(ids) == 0 {
		return
	}
	if err := db.New(r.Pool).EndProbes(ctx, ids); err != nil {
		for _, id := range ids {
			r.back.Store(id, nil)
		}
		r.Log.WarnContext(ctx, "that probes came back could not be noted", "probes", len(ids), "error", err)
	}
}

// placeToProbe waits until fewer than MaxProbes of this process to the receiver are out, for as long as one of them may
// take: several who pay somebody popular at the same moment wait for each other's probes. give gives the place back.
// errProbing: none came back in time.
func (r *Relay) placeToProbe(ctx context.Context, receiver int64) (give func(), err error) {
	limited, cancel := context.WithTimeout(ctx, r.Settings.ProbeTimeout)
	defer cancel()
	give, err = r.probing.Take(limited, strconv.FormatInt(receiver, 10), r.Wait)
	switch {
	case err == nil:
		return give, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, errProbing
}

// beginProbe counts the open probes under the lock of the receiver's row, so that many at once cannot exceed the bound.
// Whoever asked may be gone, so their context does not end that; NoteTimeout does: a request, or a job, would be kept
// from its end for as long as PostgreSQL hangs.
func (r *Relay) beginProbe(ctx context.Context, p db.BeginProbeParams, inner paidaction.Bolt11) (id int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Settings.NoteTimeout)
	defer cancel()
	r.endProbes(ctx)
	now := r.now()
	p.HangsAt = now.Add(r.Settings.ProbeTimeout)
	p.Until = now.Add(max(probeLocks, time.Duration(inner.Locks())*aBlock)) // bounded by a rule (LOCKS_TOO_LONG)
	err = r.inTx(ctx, func(q *db.Queries) error {
		if _, err := q.LockUser(ctx, p.ReceiverID); err != nil {
			return fmt.Errorf("lock the receiver: %w", err)
		}
		open, err := q.OpenProbes(ctx, db.OpenProbesParams{ReceiverID: p.ReceiverID, At: now})
		if err != nil {
			return fmt.Errorf("count probes: %w", err)
		}
		if open >= r.Settings.MaxProbes {
			return errProbing
		}
		id, err = q.BeginProbe(ctx, p)
		return err
	})
	return id, err
}

// probeSent is how long after a probe should have come back its node has certainly been given it, or never will be, by
// whatever clock: clocks may differ by a minute, and the note itself may have taken its time.
const probeSent = 5 * time.Minute

// askProbes asks a node every minute about the probes that nobody listens to any more.
func (r *Relay) askProbes(ctx context.Context, node string) error {
	for {
		if err := r.AskProbes(ctx, node); err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "a node could not be asked for the probes that it has sent", "node", node, "error", err)
		}
		if !wait(ctx, time.Minute) {
			return nil
		}
	}
}

// AskProbes asks a node about the probes that it was given a while ago, and has those counted no more that it knows to
// have come back, or does not know. The process that noted them may have died, or the node was away for long.
func (r *Relay) AskProbes(ctx context.Context, name string) error {
	node, err := r.Nodes.Sender(name)
	if err != nil {
		return err
	}
	for after := int64(0); ; {
		now := r.now()
		page, err := db.New(r.Pool).ProbesOfNode(ctx, db.ProbesOfNodeParams{Node: name, Before: now.Add(-probeSent), At: now, After: after, Page: auditPage})
		if err != nil {
			return fmt.Errorf("read which probes are out: %w", err)
		}
		for _, p := range page {
			after = p.ID
			said, err := r.present(ctx, node, paidaction.Hash(p.Hash))
			switch {
			case errors.Is(err, paidaction.ErrPaymentNotFound) || err == nil && said.State != paidaction.PaymentInFlight:
				r.endProbe(ctx, p.ID)
			case err != nil:
				return err
			}
		}
		if len(page) < auditPage {
			return nil
		}
	}
}

// SweepProbes deletes, a page at a time, probes whose end nobody saw and that count no more.
func SweepProbes(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
	const page = 1000
	n, err := q.DeleteProbes(ctx, db.DeleteProbesParams{Before: now.Add(-time.Hour), Page: page})
	if err != nil {
		return false, fmt.Errorf("delete old probes: %w", err)
	}
	return n == page, nil
}
