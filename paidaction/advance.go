package paidaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Progress is the result of Advance.
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

// finding is a fact and what came with it.
type finding struct {
	fact     Fact
	received Msat   // what arrived at the invoice
	safety   uint32 // the HTLC safety height
	taken    bool   // the payment was taken, or sent on, though our row still waits for it (judge, sentOn): never back
	failure  *Error // the reason that is stored and shown
	outcome  Outcome
	reason   string    // given by an operator
	driven   bool      // found by Drive, which also takes the next step
	asked    time.Time // a moment before the node was asked
	doubt    string    // the latest about the database before any node was asked, of what restsOnAbsence
}

// driveGrace is how long after a driven step its job is due. The job is for the case that the driver dies.
const driveGrace = 2 * time.Second

// Drive takes steps of an action, one after the other, until somebody else has to move. It is Advance for callers who
// would call it again at once. The jobs that its steps store are due only after driveGrace, so that no worker gets in
// its way. It returns Done where its last step has ended the action.
func (e *Engine) Drive(ctx context.Context, id int64) (Progress, error) {
	ctx = About(ctx, id)
	pa, err := e.get(ctx, id)
	if err != nil {
		return Owing, err
	}
	return e.DriveRead(ctx, pa)
}

// DriveRead is Drive for an action that the caller has just read (OpenOf). It writes into pa, which the caller must not
// use afterwards.
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
// and the clock say, and moves if the machine has a step for that. It may be called at any time, from anywhere, any
// number of times; a call that comes too late does nothing. Every event, timer, sweep and follow-up job calls Drive or
// Advance.
//
// An error means that nothing is known or that the database failed: try again soon.
func (e *Engine) Advance(ctx context.Context, id int64) (Progress, error) {
	ctx = About(ctx, id)
	pa, err := e.get(ctx, id)
	if err != nil {
		return Owing, err
	}
	return e.advance(ctx, pa, false)
}

// advance is Advance for an action that was just read. Where it returns Moved, pa holds the new state.
func (e *Engine) advance(ctx context.Context, pa *PaidAction, driven bool) (Progress, error) {
	if pa.Flow == FlowWrapped && pa.State == Paid && e.Relay != nil {
		return e.finishForward(ctx, pa)
	}
	if pa.State.Terminal() {
		e.Log.DebugContext(ctx, "an action is looked at that has ended", "action", pa.ID, "state", pa.State)
		return Done, nil
	}
	asked, doubt := e.now(), ""
	found, err := e.observe(ctx, pa, driven)
	if step, ok := FindStep(pa.Flow, pa.State, found.fact); err == nil && ok && step.restsOnAbsence() {
		// Payments that go well spare themselves the question, so it comes only now, and the node is asked once more:
		// but for what may be settled, which is not given back whatever it says.
		if doubt, err = LatestDoubt(ctx, db.New(e.Pool)); err == nil && pa.settlePermitted == nil {
			found, err = e.observe(ctx, pa, driven)
		}
	}
	if errors.Is(err, errOnChain) {
		return e.awaitChain(ctx, pa, err)
	}
	if err != nil {
		return Owing, fmt.Errorf("action %d in %s: %w", pa.ID, pa.State, err)
	}
	found.driven, found.asked, found.doubt = driven, asked, doubt
	return e.step(ctx, pa, found)
}

// step takes the step that the machine has for the finding, if there is one.
func (e *Engine) step(ctx context.Context, pa *PaidAction, found finding) (Progress, error) {
	step, ok := FindStep(pa.Flow, pa.State, found.fact)
	if !ok {
		if found.fact == InvoiceIsPaid {
			// Money was taken for something that was not done. This cannot happen; if it does, it must not go
			// unnoticed.
			return Owing, fmt.Errorf("action %d is %s, and node %s has settled its invoice", pa.ID, pa.State, pa.Invoice.Node)
		}
		if e.owes(pa.Flow, pa.State, pa.Deadline) {
			return Owing, nil
		}
		return Waiting, nil
	}
	if sent, err := e.sentOn(ctx, pa, step); err != nil {
		return Owing, fmt.Errorf("action %d in %s: %w", pa.ID, pa.State, err)
	} else if sent {
		found.fact, found.failure, found.taken, found.received = InvoiceIsHeld, nil, true, max(found.received, pa.Cost)
		return e.step(ctx, pa, found)
	}
	moved, err := e.take(ctx, pa, step, found)
	if step.Effect == ClaimForward {
		err = accepted(err)
	}
	performs := step.Effect == PerformAction || step.Effect == ClaimForward
	if err != nil && performs && !IsPassing(err) && !errors.Is(err, ErrNoAction) && !found.taken {
		// The payment is held and the action cannot be performed. The transaction has left nothing behind, and the
		// money goes back (spec 01 §1.5).
		return e.refuse(ctx, pa, err, found)
	}
	if err != nil {
		return Owing, fmt.Errorf("action %d from %s to %s: %w", pa.ID, step.From, step.To, err)
	}
	if !moved {
		e.Log.DebugContext(ctx, "another worker was faster", "action", pa.ID, "from", step.From, "to", step.To)
		if pa.State.Ours() {
			// The step may also have become impossible (a settle was permitted). Either way the call is still owed.
			return Owing, nil
		}
		return Waiting, nil
	}
	// If this took long, ask again before the preimage is revealed: the node may have fallen behind the chain
	// meanwhile.
	now := e.now()
	pa.State, pa.Deadline = step.To, e.deadlineAfter(step.To, now)
	pa.settleNow = settlesNext(step, found.driven) && now.Sub(found.asked) < driveGrace
	pa.current = pa.settleNow
	if step.When == OutgoingPaid && pa.Invoice != nil {
		pa.Invoice.preimage, pa.current = *found.outcome.Preimage, true
	}
	pa.ended = step.To.Terminal() && (step.Flow != FlowWrapped || found.outcome.Final || step.To != Paid)
	return Moved, nil
}

// relayMoves reports whether the relay brings an action on by itself. A job that asked every few seconds would only be
// in its way, so a single job at the deadline catches what the relay has missed.
func relayMoves(flow Flow, s State) bool {
	return s == Forwarding || (s == Forwarded && flow == FlowOutgoing)
}

// owes reports whether the next move is ours and only a job will make it.
func (e *Engine) owes(flow Flow, s State, deadline *time.Time) bool {
	return s.Ours() && (!relayMoves(flow, s) || !e.now().Before(*deadline))
}

// refuse gives a held payment back because the action's own code could not perform the action.
func (e *Engine) refuse(ctx context.Context, pa *PaidAction, cause error, found finding) (Progress, error) {
	step, ok := FindStep(pa.Flow, pa.State, PerformRefused)
	if !ok {
		return Owing, fmt.Errorf("action %d in %s cannot be refused: %w", pa.ID, pa.State, cause)
	}
	doubt, err := LatestDoubt(ctx, db.New(e.Pool))
	if err != nil {
		return Owing, fmt.Errorf("action %d, which is to be refused (%w): %w", pa.ID, cause, err)
	}
	// What was found may be of what a restored database has forgotten since: the node is asked once more, as in advance.
	if again, err := e.observe(ctx, pa, found.driven); err != nil {
		return Owing, fmt.Errorf("action %d, which is to be refused (%w): %w", pa.ID, cause, err)
	} else if again.taken || again.fact != found.fact {
		return Owing, nil
	}
	if sent, err := e.sentOn(ctx, pa, step); err != nil {
		return Owing, fmt.Errorf("action %d, which is to be refused (%w): %w", pa.ID, cause, err)
	} else if sent {
		found.taken = true
		return e.step(ctx, pa, found)
	}
	refusal, ok := AsRefusal(cause)
	if !ok {
		e.fault(ctx, pa.ID, cause)
		refusal = Errorf(CodeInternal, "This could not be done. Your payment goes back to you.")
	}
	moved, err := e.move(ctx, pa.ID, step, finding{fact: PerformRefused, failure: refusal, driven: found.driven, asked: found.asked, doubt: doubt})
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

// settlesNext reports whether the step is followed at once by the settle. Height and chain were checked for the step
// itself, and the permission to settle (see settle) is committed with it. That spares the payment one commit and three
// node calls. If the process dies after the commit, the job makes the permitted call later, and checks the chain again
// before; so does a process that took too long over the step.
func settlesNext(step Step, driven bool) bool {
	return driven && step.When == InvoiceIsHeld && step.To == Held
}

// permitted is when settling was permitted, if the step permits it.
func permitted(step Step, driven bool, now time.Time) *time.Time {
	if !settlesNext(step, driven) {
		return nil
	}
	return &now
}

// move takes one step in one transaction. It returns false where the step is no longer possible: the action has moved
// on, or what the step depends on has changed. That is no error.
//
// Whoever takes a step that rests on absence has asked what became of the payment (sentOn, too), and says in found.doubt
// what was the latest doubt about the database before: stillTrue refuses the step if a restored one was doubted, or
// accepted, meanwhile.
func (e *Engine) move(ctx context.Context, id int64, step Step, found finding) (moved bool, err error) {
	err = e.inTx(ctx, func(q *db.Queries, pg *db.Transaction) error {
		moved = false
		row, err := q.LockAction(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			err = ErrNoAction // any more: the database has forgotten it
		}
		if err != nil {
			return fmt.Errorf("lock the action: %w", err)
		}
		if State(row.State) != step.From {
			return nil
		}
		if ok, err := e.stillTrue(ctx, q, row, step, found); err != nil || !ok {
			return err
		}
		now := e.now()
		if ok, err := e.setState(ctx, q, id, step, found, now); err != nil || !ok {
			return err
		}
		if err := e.apply(ctx, q, pg, row, step, found, now); err != nil {
			return err
		}
		if err := e.storeCalls(ctx, pg, step, found.driven, now, id); err != nil {
			return err
		}
		if err := e.storeFailure(ctx, pg, row, step); err != nil {
			return err
		}
		moved = true
		return nil
	})
	if err == nil && moved {
		e.announce(ctx, id, step, found)
	}
	return moved && err == nil, err
}

// setState writes the new state and what came with it. Like writeStep, it returns false where the action has already
// left the step's first state.
func (e *Engine) setState(ctx context.Context, q *db.Queries, id int64, step Step, found finding, now time.Time) (bool, error) {
	set := db.MoveActionParams{ID: id, FromState: string(step.From), ToState: string(step.To), At: now,
		Deadline: e.deadlineAfter(step.To, now), SettlePermittedAt: permitted(step, found.driven, now)}
	if found.safety != 0 {
		set.DeadlineHeight = new(int32(found.safety))
	}
	if found.failure != nil {
		set.FailureCode, set.FailureMessage = new(string(found.failure.Code)), &found.failure.Message
	}
	return writeStep(ctx, q, set, step.When)
}

// writeStep writes what a step makes of an action's row, and its history. It returns false where the action has already
// left the step's first state.
func writeStep(ctx context.Context, q *db.Queries, set db.MoveActionParams, fact Fact) (bool, error) {
	n, err := q.MoveAction(ctx, set)
	if err != nil {
		return false, fmt.Errorf("move the state: %w", err)
	}
	if n == 0 {
		return false, nil
	}
	if err := q.InsertHistory(ctx, db.InsertHistoryParams{ActionID: set.ID, FromState: &set.FromState, ToState: set.ToState, Fact: string(fact), At: set.At}); err != nil {
		return false, fmt.Errorf("write the history: %w", err)
	}
	return true, nil
}

// announce reports a committed step to the log, the metrics, those who watch the action, and the relay.
func (e *Engine) announce(ctx context.Context, id int64, step Step, found finding) {
	e.Log.DebugContext(ctx, "an action moved", "action", id, "flow", step.Flow, "from", step.From, "to", step.To, "fact", step.When)
	e.moved(step)
	e.changed(id)
	switch {
	case e.Relay == nil:
	case step.To == Forwarding:
		e.Relay.Wake()
	case step.When == OutgoingPaid:
		e.Relay.Paid(found.outcome)
	}
}

// storeCalls stores one job for the calls that a new state owes, for all actions that took the step together. Where the
// process makes the calls itself, or tells the relay of them (announce), the job is only for the case that it dies
// first.
func (e *Engine) storeCalls(ctx context.Context, pg pgx.Tx, step Step, driven bool, now time.Time, actions ...int64) error {
	if !step.To.Ours() {
		return nil
	}
	job := Job{Kind: JobAdvance, Action: actions[0], With: actions[1:], Settles: step.To == Forwarded && step.Then == SettleInvoice}
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

// stillTrue checks again, under the row's lock, what a step depends on in the database itself. It is not asked for steps
// that are taken together (inStride), so none of those has a condition here.
func (e *Engine) stillTrue(ctx context.Context, q *db.Queries, row db.PaidAction, step Step, found finding) (bool, error) {
	if step.givesBack() {
		// After a restore or a fail-over the row may be older than what was done: the invoice may be handed out, and the
		// payment may be taken, or sent to its receiver, also once more after it had failed. Then it cannot be given
		// back any more. Going forward finds that out.
		if err := e.MayBegin(); err != nil {
			return false, Errorf(CodeTryAgain, "No payment is given back while we check our books. Nothing was changed. Try again later.").Because(err)
		}
	}
	if step.restsOnAbsence() {
		// A process that was stopped since it asked the nodes (sentOn) may not even know that the database was restored.
		doubt, err := LatestDoubt(ctx, q)
		if err != nil {
			return false, err
		}
		if doubt != found.doubt {
			return false, Errorf(CodeTryAgain, "We have checked our books meanwhile. Nothing was changed. Try again.")
		}
	}
	switch {
	case step.From == Held && step.To == Canceling:
		// A settle call may be on its way: giving the money back now could lose it (spec 01 §1.2).
		return row.SettlePermittedAt == nil, nil
	case step.When == OutgoingRefused:
		// An operator may have put the payment back into the pipeline.
		out, err := q.LockRelay(ctx, row.ID)
		if err != nil {
			return false, fmt.Errorf("lock the outgoing payment: %w", err)
		}
		return Stage(out.Stage) == StageFailed, nil
	case step.When == WrittenOff && step.From == Forwarded:
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

// givesBack reports whether a step gives back a payment that may be held or sent, or is for an invoice that may be handed
// out. Where that is being cancelled, no bolt11 is stored any more.
func (s Step) givesBack() bool {
	return s.When == GivenUp || s.To == Canceling && (s.From == PendingHeld || s.From == Held) ||
		s.When == OutgoingRefused || s.When == NeverIssued && s.From != Canceling
}

// restsOnAbsence reports whether a step is right only if a payment was neither taken nor sent on. Nodes were asked, but
// not about what a database that was restored since has forgotten.
func (s Step) restsOnAbsence() bool {
	return s.givesBack() || s.Flow == FlowWrapped && s.From == PendingHeld && s.When == InvoiceIsGone
}

// LatestDoubt names the latest doubt about the database: if it is another than before nodes were asked, what they said does
// not count (stillTrue). No clock says what came first: a process's may be wrong.
func LatestDoubt(ctx context.Context, q *db.Queries) (string, error) {
	doubt, err := q.LatestDoubt(ctx)
	if err != nil {
		return "", fmt.Errorf("ask whether the database was restored: %w", err)
	}
	return doubt, nil
}

// deadlineAfter is the time by which a state that we have to leave ourselves should be left.
func (e *Engine) deadlineAfter(s State, now time.Time) *time.Time {
	switch {
	case s == Forwarding:
		return new(now.Add(e.Settings.InvoiceExpiry))
	case s.Ours():
		return new(now.Add(callTimeout))
	}
	return nil
}
