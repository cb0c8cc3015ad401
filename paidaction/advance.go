package paidaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Progress is what came of an Advance.
type Progress int

const (
	// Moved: one step was taken. If the new state owes a call, a job for it was stored with the step.
	Moved Progress = iota
	// Waiting: somebody else moves next; a job at the deadline exists.
	Waiting
	// Owing: we move next and could not; the caller tries again soon.
	Owing
	// Done: the action has ended.
	Done
)

var errBehindChain = errors.New("the node is behind the chain")

// finding is a fact and what came with it.
type finding struct {
	fact     Fact
	received Msat   // what arrived at the invoice
	safety   uint32 // the HTLC safety height
	taken    bool   // what was held we have taken already, and do not remember
	failure  *Error // the reason that is stored and shown
	outcome  Outcome
	reason   string    // an operator's
	driven   bool      // whoever takes the step takes the next one as well
	asked    time.Time // before the node was
}

// driveGrace is when the job that a driven step leaves behind is due: it is for the case that the driver dies.
const driveGrace = 2 * time.Second

// Drive takes the steps of an action that are possible now, one after the other, until somebody else moves next. It is Advance for whoever
// would be called again at once: while it goes on, nobody else is told to. Where the last step has ended the action it returns Done.
func (e *Engine) Drive(ctx context.Context, id int64) (Progress, error) {
	ctx = About(ctx, id)
	pa, err := e.get(ctx, id)
	if err != nil {
		return Owing, err
	}
	return e.DriveRead(ctx, pa)
}

// DriveRead is Drive of an action that was just read (OpenOf). It belongs to DriveRead from then on.
func (e *Engine) DriveRead(ctx context.Context, pa *PaidAction) (Progress, error) {
	id := pa.ID
	ctx = About(ctx, id)
	var err error
	for err == nil {
		var progress Progress
		progress, err = e.advance(ctx, pa, true)
		if progress == Moved && pa.ended {
			return Done, err
		}
		if progress != Moved || !pa.State.Driven() {
			return progress, err
		}
		if !pa.current {
			pa, err = e.get(ctx, id)
		}
	}
	return Owing, err
}

// Advance takes the action at most one step further: it makes the node call that the state owes, looks at what the node
// and the clock say, and moves if the machine has a step for it. It may be called at any time, from anywhere, any number of
// times; who comes too late does nothing. This one function is behind every event, timer, sweep and follow-up job.
//
// An error means that nothing is known or the database failed: try again soon.
func (e *Engine) Advance(ctx context.Context, id int64) (Progress, error) {
	ctx = About(ctx, id)
	pa, err := e.get(ctx, id)
	if err != nil {
		return Owing, err
	}
	return e.advance(ctx, pa, false)
}

// advance is Advance of an action that was just read. Where it returns Moved, pa says to which state.
func (e *Engine) advance(ctx context.Context, pa *PaidAction, driven bool) (Progress, error) {
	if pa.Flow == FlowWrapped && pa.State == Paid && e.Relay != nil {
		return e.finishForward(ctx, pa)
	}
	if pa.State.Terminal() {
		return Done, nil
	}
	asked := e.now()
	found, err := e.observe(ctx, pa, driven)
	if err != nil {
		return Owing, fmt.Errorf("action %d in %s: %w", pa.ID, pa.State, err)
	}
	found.driven, found.asked = driven, asked
	return e.step(ctx, pa, found)
}

// step takes the step that the machine has for what was found, if there is one.
func (e *Engine) step(ctx context.Context, pa *PaidAction, found finding) (Progress, error) {
	step, ok := FindStep(pa.Flow, pa.State, found.fact)
	if !ok {
		if found.fact == InvoiceIsPaid {
			// Money was taken for something that was not done. It cannot happen; if it does, it must not be silent.
			return Owing, fmt.Errorf("action %d is %s, and node %s has settled its invoice", pa.ID, pa.State, pa.Invoice.Node)
		}
		if e.owes(pa.Flow, pa.State, pa.Deadline) {
			return Owing, nil
		}
		return Waiting, nil
	}
	moved, err := e.take(ctx, pa, step, found)
	if err != nil && (step.Effect == PerformAction || step.Effect == ClaimForward) && !IsPassing(err) && !found.taken {
		// The payment is held and the action cannot be performed: the transaction has left nothing behind, and the money
		// goes back (spec 01 §1.5).
		return e.refuse(ctx, pa, err, found.driven)
	}
	if err != nil {
		return Owing, fmt.Errorf("action %d from %s to %s: %w", pa.ID, step.From, step.To, err)
	}
	if !moved {
		e.Log.DebugContext(ctx, "another worker was faster", "action", pa.ID, "from", step.From, "to", step.To)
		if pa.State.OwesCall() {
			// Or the step was not possible after all (a settle was permitted): the call is still owed.
			return Owing, nil
		}
		return Waiting, nil
	}
	// Who stood still meanwhile asks again before the preimage is given away: the node may have fallen behind the chain.
	now := e.now()
	pa.State, pa.Deadline = step.To, e.deadlineAfter(step.To, now)
	pa.heldNow = settlesNext(step, found.driven) && now.Sub(found.asked) < driveGrace
	pa.current = pa.heldNow
	if step.When == OutgoingPaid && pa.Invoice != nil {
		pa.Invoice.preimage, pa.current = *found.outcome.Preimage, true
	}
	pa.ended = step.To.Terminal() && (step.Flow != FlowWrapped || found.outcome.Final || step.To != Paid)
	return Moved, nil
}

// relayMoves says whether the relay's own work brings an action on. A job that asked every few seconds would only be in its way; the
// one at the deadline sees to what the relay has missed.
func relayMoves(flow Flow, s State) bool {
	return s == Forwarding || (s == Forwarded && flow == FlowOutgoing)
}

// owes says whether the next move of an action is ours, and nobody but a job makes it.
func (e *Engine) owes(flow Flow, s State, deadline *time.Time) bool {
	return s.OwesCall() && (!relayMoves(flow, s) || !e.now().Before(*deadline))
}

// refuse gives a held payment back since the action's own code did not perform.
func (e *Engine) refuse(ctx context.Context, pa *PaidAction, cause error, driven bool) (Progress, error) {
	refusal, ok := AsRefusal(cause)
	if !ok {
		e.fault(ctx, pa.ID, cause)
		refusal = Errorf(CodeInternal, "This could not be done. Your payment goes back to you.")
	}
	step, ok := FindStep(pa.Flow, pa.State, PerformRefused)
	if !ok {
		return Owing, fmt.Errorf("action %d in %s cannot be refused: %w", pa.ID, pa.State, cause)
	}
	moved, err := e.move(ctx, pa.ID, step, finding{fact: PerformRefused, failure: refusal, driven: driven})
	if err != nil {
		return Owing, err
	}
	if !moved {
		return Waiting, nil
	}
	pa.State = step.To
	return Moved, nil
}

func (e *Engine) fault(ctx context.Context, id int64, cause error) {
	e.Log.ErrorContext(ctx, "an action's own code failed", "action", id, "error", cause)
	if e.Hooks.Fault != nil {
		e.Hooks.Fault(id, cause)
	}
}

// observe finds out what has happened to an open action. All node calls are here, outside any transaction: first the one
// that the state owes, then a look at what is true now.
func (e *Engine) observe(ctx context.Context, pa *PaidAction, driven bool) (finding, error) {
	if slices.Contains([]State{Forwarding, Forwarded, FailedForward}, pa.State) {
		return e.observeOutgoing(ctx, pa)
	}
	node, err := e.Nodes.Node(pa.Invoice.Node)
	if err != nil {
		return finding{}, err
	}
	if pa.State == Canceling {
		if err := node.CancelInvoice(ctx, pa.Invoice.Hash); err != nil && !errors.Is(err, ErrInvoiceNotFound) {
			return finding{}, fmt.Errorf("cancel the invoice: %w", err)
		}
	}
	if pa.heldNow {
		inv, err := e.settleNow(ctx, node, pa)
		if err != nil {
			return finding{}, err
		}
		return e.judge(ctx, node, pa, inv, nil)
	}
	inv, chain, err := e.lookUp(ctx, node, pa, driven)
	if errors.Is(err, ErrInvoiceNotFound) {
		return e.absent(pa)
	}
	if err != nil {
		return finding{}, fmt.Errorf("look up the invoice: %w", err)
	}
	if pa.State == Held && inv.State == InvoiceAccepted {
		if inv, err = e.settle(ctx, node, pa, inv); err != nil {
			return finding{}, err
		}
	}
	return e.judge(ctx, node, pa, inv, chain)
}

// lookUp asks the node for the invoice. Whoever drives an action that waits has most likely heard that the payment is held: the chain, which is
// asked for then, is waited for at the same time. nil where it was not asked for, or not told.
func (e *Engine) lookUp(ctx context.Context, node Node, pa *PaidAction, driven bool) (inv NodeInvoice, chain *Chain, err error) {
	wait := func() {}
	if driven && pa.State == PendingHeld {
		wait = e.Hooks.Beside(func() {
			if now, err := node.Chain(ctx); err == nil {
				chain = &now
			}
		})
	}
	inv, err = node.LookupInvoice(ctx, pa.Invoice.Hash)
	wait()
	return inv, chain, err
}

// judge turns the node's view of the invoice into the fact it is for this action. It asks for the chain where that is needed and not known (nil).
func (e *Engine) judge(ctx context.Context, node Node, pa *PaidAction, inv NodeInvoice, chain *Chain) (finding, error) {
	switch inv.State {
	case InvoiceSettled:
		if pa.State == PendingHeld && inv.Received >= pa.Cost {
			// Nobody takes what is held but we, once it was performed or paid on: the database was restored to before that, or a copy took over that lagged
			// behind. What was done then is done again; there is nothing to give back.
			return finding{fact: InvoiceIsHeld, received: inv.Received, taken: true}, nil
		}
		return finding{fact: InvoiceIsPaid, received: inv.Received}, nil
	case InvoiceCanceled:
		return e.judgeCanceled(ctx, pa)
	case InvoiceAccepted:
		return e.judgeHeld(ctx, node, pa, inv, chain)
	}
	return e.judgeOpen(ctx, pa, inv)
}

// judgeCanceled is what it means that the node takes no payment of the invoice any more: nobody has paid, unless a withdrawal here does.
func (e *Engine) judgeCanceled(ctx context.Context, pa *PaidAction) (finding, error) {
	if inside, err := e.paidInside(ctx, pa); err != nil || inside != nil {
		return finding{fact: PaidInside, received: pa.Cost}, err
	}
	f := finding{fact: InvoiceIsGone}
	if pa.Failure == nil {
		f.failure = Errorf(CodeExpired, "The invoice was not paid in time.")
		if pa.State == Held {
			f.failure = Errorf(CodeExpired, "The payment was held for too long and went back to you.")
		}
	}
	return f, nil
}

// judgeHeld is what a held payment means: whether it may be relied on is a matter of blocks.
func (e *Engine) judgeHeld(ctx context.Context, node Node, pa *PaidAction, inv NodeInvoice, chain *Chain) (finding, error) {
	if chain == nil {
		now, err := node.Chain(ctx)
		if err != nil {
			return finding{}, fmt.Errorf("ask for the chain: %w", err)
		}
		chain = &now
	}
	safety := e.safetyHeight(inv.ExpiryHeight)
	if chain.Height >= safety {
		return finding{fact: TooFewBlocks, safety: safety,
			failure: Errorf(CodeExpired, "The payment arrived with too little time left and goes back to you.")}, nil
	}
	if pa.State == PendingHeld && !chain.Synced {
		// Behind the chain the node may show a height at which the payment is safe though it no longer is.
		return finding{}, errBehindChain
	}
	return finding{fact: InvoiceIsHeld, received: inv.Received, safety: safety}, nil
}

// judgeOpen is what it means that nobody has paid yet: nothing before the deadline.
func (e *Engine) judgeOpen(ctx context.Context, pa *PaidAction, inv NodeInvoice) (finding, error) {
	now := e.now()
	if pa.Invoice.Bolt11 == "" && (pa.State == Pending || pa.State == PendingHeld) {
		// Issued, but the answer was lost before it was stored. Stored now, it can still be paid.
		if _, err := db.New(e.Pool).SetBolt11(ctx, db.SetBolt11Params{ActionID: pa.ID, Bolt11: &inv.Bolt11}); err != nil {
			return finding{}, fmt.Errorf("store the bolt11: %w", err)
		}
		e.changed(pa.ID)
	}
	if !now.Before(*pa.Deadline) {
		return finding{fact: DeadlinePassed, failure: Errorf(CodeExpired, "The invoice was not paid in time.")}, nil
	}
	return finding{}, nil
}

// absent is what it means that the node does not know the invoice. That alone means nothing (spec 01 §1.6): only where no
// bolt11 was ever stored, and so none was handed out, can nobody have paid.
func (e *Engine) absent(pa *PaidAction) (finding, error) {
	if pa.Invoice.Bolt11 != "" {
		return finding{}, fmt.Errorf("%w, though it issued it: was node %s wiped or restored?", ErrInvoiceNotFound, pa.Invoice.Node)
	}
	// From CANCELING no bolt11 can be stored any more; before that its node gets the time to answer.
	if pa.State != Canceling && e.now().Sub(pa.CreatedAt) < e.Settings.IssueTimeout {
		return finding{}, nil
	}
	return finding{fact: NeverIssued, failure: Errorf(CodeLightningUnavailable, "No invoice could be made. Try again.")}, nil
}

// safetyHeight is the height from which on a held payment may not be relied on: LND gives it back HoldExpiryDelta blocks
// before its first HTLC expires, and we stay SafetyBlocks away from that (spec 01 §1.5).
func (e *Engine) safetyHeight(expiry uint32) uint32 {
	margin := e.Settings.HoldExpiryDelta + e.Settings.SafetyBlocks
	if expiry < margin {
		return 0
	}
	return expiry - margin
}

// settle takes the held payment of a performed action. The permission is committed before the call: from then on the
// action can no longer be cancelled, since a call that was once permitted may reach the node at any time, even from a
// process that was stopped for an hour. It returns the invoice as the node shows it afterwards.
func (e *Engine) settle(ctx context.Context, node Node, pa *PaidAction, inv NodeInvoice) (NodeInvoice, error) {
	chain, err := node.Chain(ctx)
	if err != nil {
		return inv, fmt.Errorf("ask for the chain: %w", err)
	}
	if !chain.Synced {
		// Its height is an old one: the payment may be past its expiry, and the preimage would be given away for nothing. Not to
		// call is always safe, also after a permission.
		return inv, errBehindChain
	}
	if pa.settlePermitted == nil {
		if chain.Height >= e.safetyHeight(inv.ExpiryHeight) {
			return inv, nil
		}
		n, err := db.New(e.Pool).PermitSettle(ctx, db.PermitSettleParams{ID: pa.ID, At: new(e.now())})
		if err != nil {
			return inv, fmt.Errorf("permit the settling: %w", err)
		}
		if n == 0 {
			// Another worker permitted it, or gave the payment back: the row says which.
			again, err := e.get(ctx, pa.ID)
			if err != nil || again.State != Held {
				return inv, err
			}
		}
	}
	return e.settleNow(ctx, node, pa)
}

// settleNow takes a held payment, for which there is a permission or which was paid on, and returns the invoice as the node shows it afterwards.
func (e *Engine) settleNow(ctx context.Context, node Node, pa *PaidAction) (NodeInvoice, error) {
	if err := node.SettleInvoice(ctx, pa.Invoice.preimage); err != nil {
		e.Log.WarnContext(ctx, "settling failed; looking up what is true", "action", pa.ID, "error", err)
	}
	inv, err := node.LookupInvoice(ctx, pa.Invoice.Hash)
	if err != nil {
		return inv, fmt.Errorf("look up the invoice after settling: %w", err)
	}
	return inv, nil
}

// settlesNext says whether whoever takes this step settles at once: the height and the chain were looked at for the step itself, and the permission to
// settle (see settle) is committed with it. That spares the payment a commit and three questions. Who dies after the commit has permitted a call that the
// job makes later, and asks for the chain before; so does who took long for the step.
func settlesNext(step Step, driven bool) bool {
	return driven && step.When == InvoiceIsHeld && step.To == Held
}

// permitted is the time of a permission that comes with a step, if one does.
func permitted(step Step, driven bool, now time.Time) *time.Time {
	if !settlesNext(step, driven) {
		return nil
	}
	return &now
}

// move takes one step in one transaction. It returns false where the step is no longer possible, which is no error: the
// action has moved on, or what the step depends on has changed.
func (e *Engine) move(ctx context.Context, id int64, step Step, found finding) (moved bool, err error) {
	err = e.inTx(ctx, func(q *db.Queries, pg *db.Transaction) error {
		moved = false
		row, err := q.LockAction(ctx, id)
		if err != nil {
			return fmt.Errorf("lock the action: %w", err)
		}
		if State(row.State) != step.From {
			return nil
		}
		if ok, err := e.stillTrue(ctx, q, row, step); err != nil || !ok {
			return err
		}
		now := e.now()
		if ok, err := e.setState(ctx, q, id, step, found, now); err != nil || !ok {
			return err
		}
		if err := e.apply(ctx, q, pg, row, step, found, now); err != nil {
			return err
		}
		if err := e.follow(ctx, pg, step, found.driven, now, id); err != nil {
			return err
		}
		if err := e.followFailure(ctx, pg, row, step); err != nil {
			return err
		}
		moved = true
		return nil
	})
	if err == nil && moved {
		e.announce(ctx, id, step)
	}
	return moved && err == nil, err
}

// setState writes the new state, what came with it, and the history. It returns false where the action is not in the step's first state any more.
func (e *Engine) setState(ctx context.Context, q *db.Queries, id int64, step Step, found finding, now time.Time) (bool, error) {
	set := db.MoveActionParams{ID: id, FromState: string(step.From), ToState: string(step.To), At: now,
		Deadline: e.deadlineAfter(step.To, now), SettlePermittedAt: permitted(step, found.driven, now)}
	if found.safety != 0 {
		set.DeadlineHeight = new(int32(found.safety))
	}
	if found.failure != nil {
		set.FailureCode, set.FailureMessage = new(string(found.failure.Code)), &found.failure.Message
	}
	n, err := q.MoveAction(ctx, set)
	if err != nil {
		return false, fmt.Errorf("move the state: %w", err)
	}
	if n == 0 {
		return false, nil
	}
	if err := q.InsertHistory(ctx, db.InsertHistoryParams{ActionID: id, FromState: new(string(step.From)),
		ToState: string(step.To), Fact: string(step.When), At: now}); err != nil {
		return false, fmt.Errorf("write the history: %w", err)
	}
	return true, nil
}

// announce tells of a step that was committed: the log, the figures, whoever looks at the action, and the relay.
func (e *Engine) announce(ctx context.Context, id int64, step Step) {
	e.Log.DebugContext(ctx, "an action moved", "action", id, "flow", step.Flow, "from", step.From, "to", step.To, "fact", step.When)
	e.moved(step)
	e.changed(id)
	if step.To == Forwarding && e.Relay != nil {
		e.Relay.Wake()
	}
}

// follow stores the jobs for the calls that a new state owes, one for all actions that took the step together. If those who took it make the calls, or have
// told the relay of them (announce), the first stands by for their death.
func (e *Engine) follow(ctx context.Context, pg pgx.Tx, step Step, driven bool, now time.Time, actions ...int64) error {
	if !step.To.OwesCall() {
		return nil
	}
	job := Job{Kind: JobAdvance, Action: actions[0], With: actions[1:]}
	if driven {
		job.At = now.Add(driveGrace)
	}
	jobs := []Job{job}
	if relayMoves(step.Flow, step.To) {
		job.At = *e.deadlineAfter(step.To, now)
		jobs = append(jobs, job)
	}
	if err := e.Jobs.Insert(ctx, pg, jobs...); err != nil {
		return fmt.Errorf("store the follow-up jobs: %w", err)
	}
	return nil
}

// followFailure stores the job of a step to FAILED with it: the next attempt is prepared, or else its payer is told.
func (e *Engine) followFailure(ctx context.Context, pg pgx.Tx, row db.PaidAction, step Step) error {
	if step.To != Failed {
		return nil
	}
	row.State, row.ChangedAt = string(Failed), e.now()
	job := Job{Kind: JobAfterFailed, Action: row.ID}
	if e.WillRetry(view(db.GetActionRow{PaidAction: row})) {
		job.Kind = JobAgain
	} else if row.PayerID == nil || e.Config.AfterFailed == nil {
		return nil // there is nobody to be told
	}
	if err := e.Jobs.Insert(ctx, pg, job); err != nil {
		return fmt.Errorf("store the job that follows the failure: %w", err)
	}
	return nil
}

// stillTrue looks again, under the row's lock, at what a step depends on in the database itself.
func (e *Engine) stillTrue(ctx context.Context, q *db.Queries, row db.PaidAction, step Step) (bool, error) {
	switch {
	case step.From == Held && step.To == Canceling:
		// A settle call may be on its way: giving the money back now could lose it (spec 01 §1.2).
		return row.SettlePermittedAt == nil, nil
	case step.When == OutgoingRefused:
		// An operator may have put it back into the pipeline.
		out, err := q.LockRelay(ctx, row.ID)
		if err != nil {
			return false, fmt.Errorf("lock the outgoing payment: %w", err)
		}
		return Stage(out.Stage) == StageFailed, nil
	case step.When == WrittenOff:
		_, err := lostPayment(ctx, q, row.ID)
		return err == nil, err
	case step.When == NeverIssued:
		inv, err := q.GetInvoice(ctx, row.ID)
		if err != nil {
			return false, fmt.Errorf("read the invoice: %w", err)
		}
		return inv.Bolt11 == nil, nil
	}
	return true, nil
}

// AlarmHeight is the height from which on a held payment with this safety height is worth an alarm.
func (e *Engine) AlarmHeight(safety uint32) uint32 {
	if safety < e.Settings.AlarmBlocks {
		return 0
	}
	return safety - e.Settings.AlarmBlocks
}

// Overdue says whether an open action has stayed in its state for longer than it should: by grace past its deadline.
func (e *Engine) Overdue(pa *PaidAction, grace time.Duration) bool {
	return !pa.State.Terminal() && pa.Deadline != nil && e.now().After(pa.Deadline.Add(grace))
}
