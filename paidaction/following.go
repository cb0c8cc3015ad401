package paidaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// What follows payments of kinds that are paid together is done together where it is due at the same time, as the
// payments are (gathering.go). The jobs of several groups share a transaction, since most of its cost is the same for
// one action and for a hundred.
const (
	followsAtOnce = 2
	// followPatience is how long one transaction waits for the end of another. Nobody waits for a side effect.
	followPatience = 100 * time.Millisecond
)

// following holds the actions of one job. err is set until what follows them has been done.
type following struct {
	ids []int64
	err error
}

// AfterPaid does what actions do once their payment is final. It is a job, repeatable, in a transaction that other jobs
// may share. What fails for all at once is done for each. It wraps ErrNoAction where an action does not exist and
// nothing else is left to do.
func (e *Engine) AfterPaid(ctx context.Context, ids ...int64) error {
	f := &following{ids: ids, err: errApart}
	if e.Settings.MaxGroup > 1 {
		if err := e.follows.Do(ctx, f); err != nil {
			return err
		}
	}
	if f.err == nil {
		return nil
	}
	var failed error
	for _, id := range ids {
		if err := e.afterPaid(ctx, id); err != nil && (failed == nil || errors.Is(failed, ErrNoAction)) {
			failed = err
		}
	}
	return failed
}

// followAll does what follows the payments of several jobs. If that fails for all at once, it runs each job by itself,
// so that each gets only its own error.
func (e *Engine) followAll(ctx context.Context, jobs []*following) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var all []int64
	for _, f := range jobs {
		all = append(all, f.ids...)
	}
	err := e.afterPaid(ctx, all...)
	for _, f := range jobs {
		if f.err = err; err != nil && len(jobs) > 1 {
			f.err = e.afterPaid(ctx, f.ids...)
		}
	}
}

// afterPaid does what follows the payments of actions. Kinds that are paid together share one transaction. Every other
// action gets its own: its code may lock rows in an order of its own, and two transactions with several of them could
// deadlock. Nothing follows an action that is not PAID.
func (e *Engine) afterPaid(ctx context.Context, ids ...int64) error {
	// The same order in all transactions: a job can run twice, and the two must not wait for each other.
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var apart []int64
	err := e.inTx(ctx, func(q *db.Queries, _ *db.Transaction) error {
		apart = nil
		kinds, err := q.KindsOf(ctx, ids)
		if err != nil {
			return fmt.Errorf("read the kinds of actions: %w", err)
		}
		missing := len(ids)
		for _, k := range kinds {
			missing -= len(k.Ids)
		}
		if missing > 0 {
			return fmt.Errorf("%d of the actions %d: %w", missing, ids, ErrNoAction)
		}
		now := e.now()
		for _, k := range kinds {
			if !k.Paid {
				continue
			}
			def, err := e.definition(k.Kind)
			switch {
			case err != nil:
			case !def.SideEffects():
			case def.grouped():
				err = def.afterPaidTogether(ctx, q, now, k.Ids)
			case len(ids) > 1:
				apart = append(apart, k.Ids...)
			default:
				err = afterOne(ctx, q, now, def, k.Ids[0])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, id := range apart {
		if err != nil {
			return err
		}
		err = e.afterPaid(ctx, id)
	}
	return err
}

// afterOne does what follows the payment of one action.
func afterOne(ctx context.Context, q *db.Queries, now time.Time, def Definition, id int64) error {
	row, err := q.GetActionAlone(ctx, id)
	if err != nil {
		return fmt.Errorf("read action %d: %w", id, err)
	}
	return def.afterPaid(ctx, txOf(q, row, now), row.Args, row.Result)
}
