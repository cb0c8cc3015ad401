package paidaction

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// storeFailure stores the job that follows a step to FAILED: it prepares the next attempt, or tells the payer.
func (e *Engine) storeFailure(ctx context.Context, pg pgx.Tx, row db.PaidAction, step Step) error {
	if step.To != Failed {
		return nil
	}
	row.State, row.ChangedAt = string(Failed), e.now()
	job := Job{Kind: JobAfterFailed, Action: row.ID}
	if e.WillRetry(view(db.GetActionRow{PaidAction: row})) {
		job.Kind = JobAgain
	} else if row.PayerID == nil || e.TellFailed == nil {
		return nil // there is nobody to tell
	}
	if err := e.Jobs.Insert(ctx, pg, job); err != nil {
		return fmt.Errorf("store the job that follows the failure: %w", err)
	}
	return nil
}

// WillRetry reports whether the next attempt of a failed action is prepared without being asked for. Whether one of a
// kind that is unknown here is, a process that knows it decides (Again).
func (e *Engine) WillRetry(pa *PaidAction) bool {
	def, ok := e.actions[pa.Kind]
	return (!ok || def.Spec().Again) && pa.State == Failed && pa.Flow == FlowWrapped && pa.Failure != nil && pa.Failure.Code == CodePaymentFailed &&
		pa.Attempt < maxPrepared && !pa.againRefused && e.now().Sub(pa.ChangedAt) < retryWindow
}

// Again prepares the next attempt of an action whose receiver could not be paid: through the receiver's next wallet or,
// if none is left, by another method. A new attempt has a new invoice, which the payer still has to pay, unless their
// balance suffices and they did not choose to pay otherwise (spec 02 §2.1). If no attempt is possible, the payer is
// told. Again is a job and may be repeated, also for an invoice that its node did not make at once. It wraps ErrNoAction
// where there is no such action.
func (e *Engine) Again(ctx context.Context, id int64) error {
	ctx = About(ctx, id)
	pa, err := e.get(ctx, id)
	if err != nil {
		return err
	}
	if pa.State == Retrying {
		// The next attempt was begun, perhaps without an invoice. Nobody waits for that, so nobody else asks for it again.
		next, err := e.get(ctx, *pa.Successor)
		if err == nil {
			_, err = e.issue(About(ctx, next.ID), next)
		}
		return err
	}
	if e.WillRetry(pa) {
		err := e.prepare(ctx, pa)
		// An unavailable node, or whatever passes, may be back in a moment. WillRetry bounds how long we hope for that.
		refusal, ok := AsRefusal(err)
		if !ok || refusal.Code == CodeLightningUnavailable || refusal.Code == CodeTryAgain {
			return err
		}
		e.Log.InfoContext(ctx, "no further attempt is prepared", "action", id, "reason", refusal)
	}
	if e.now().Sub(pa.ChangedAt) >= retryWindow {
		if err := e.ConfirmClock(ctx); err != nil {
			return err // by another process's clock there may be time for the attempt
		}
	}
	if err := e.refuseAgain(ctx, id); err != nil {
		return err
	}
	return e.AfterFailed(ctx, id)
}

// refuseAgain forbids that the next attempt of an action is prepared without being asked for. One that was begun stays.
func (e *Engine) refuseAgain(ctx context.Context, id int64) error {
	err := e.inTx(ctx, func(q *db.Queries, _ *db.Transaction) error {
		return q.RefuseAgain(ctx, db.RefuseAgainParams{ID: id, At: new(e.now())})
	})
	if err != nil {
		return fmt.Errorf("note that action %d has no next attempt: %w", id, err)
	}
	e.changed(id) // for those who wait for an attempt
	return nil
}

// RefuseAgainOf forbids automatic retries of what this payer has on its way to receivers' wallets. When its transaction
// is committed, none of these attempts is begun any more. It looks until it finds nothing new twice: the first look may
// have waited for an attempt to be begun, which is the next one to fail.
func RefuseAgainOf(ctx context.Context, q *db.Queries, payer int64, now time.Time) error {
	for nothing := 0; nothing < 2; {
		n, err := q.RefuseAgainOf(ctx, db.RefuseAgainOfParams{PayerID: payer, At: now, Since: now.Add(-retryWindow)})
		if err != nil {
			return fmt.Errorf("refuse further attempts of what user %d pays for: %w", payer, err)
		}
		if nothing++; n > 0 {
			nothing = 0
		}
	}
	return nil
}

// prepare begins the attempt that follows a failed one.
func (e *Engine) prepare(ctx context.Context, failed *PaidAction) error {
	def, err := e.definition(failed.Kind)
	if err != nil {
		return err
	}
	was, err := db.New(e.Pool).WrappedFor(ctx, failed.ID)
	if err != nil {
		return fmt.Errorf("read the invoice of action %d: %w", failed.ID, err)
	}
	end, may := e.preparing.begin(was.ReceiverID)
	defer end()
	a := &attempt{def: def, args: failed.Args, payer: failed.Payer, client: failed.client, number: int16(failed.Attempt) + 1,
		previous: failed.ID, genesis: &failed.Genesis, turn: unordered{}, proof: proof{proved: failed.proved}, chosen: was.Chosen, indirect: !may, unasked: true}
	_, err = e.walk(ctx, a, "")
	return err
}

// AskingAtOnce is how many of the attempts that follow failed payments may ask wallets at a time in a process. Wallets
// can hang for as long as they are waited for, and it costs their owner nothing that payments to them fail. What is
// above asks none, as if no wallet were left, so whoever works on such attempts needs a few places more than these.
const AskingAtOnce = 12

// preparing counts the attempts that may ask wallets, by the receiver of the failed payment.
type preparing struct {
	mu  sync.Mutex
	of  map[int64]int
	all int
}

// begin counts one more until end; may is false where there are as many as may be. The fewer are free, the fewer a
// receiver may have, down to one: one alone has four, and it takes six to have them all.
func (p *preparing) begin(receiver int64) (end func(), may bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if free := AskingAtOnce - p.all; free == 0 || p.of[receiver] > 0 && 2*p.of[receiver] >= free {
		return func() {}, false
	}
	p.of[receiver]++
	p.all++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.of[receiver]--; p.of[receiver] == 0 {
			delete(p.of, receiver)
		}
	}, true
}

// AfterFailed tells the payer of a failed action that it has failed, unless it was retried meanwhile. It is a job, as
// AfterPaid is.
func (e *Engine) AfterFailed(ctx context.Context, id int64) error {
	return e.inTx(ctx, func(q *db.Queries, _ *db.Transaction) error {
		row, err := q.GetActionAlone(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			err = ErrNoAction
		}
		if err != nil {
			return fmt.Errorf("read action %d: %w", id, err)
		}
		if State(row.State) != Failed || e.TellFailed == nil {
			return nil
		}
		return e.TellFailed(ctx, txOf(q, row, e.now()))
	})
}
