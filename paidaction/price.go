package paidaction

import (
	"context"
	"errors"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// errPriced rolls back the transaction in which a price was computed.
var errPriced = errors.New("the price is known")

// Price is what an action would cost its payer at this moment, by the action's own Cost. Nothing is stored and nothing
// promised: the price is computed again when the action begins. Only the arguments that the price depends on are
// needed.
//
// Errors: INVALID_INPUT, INVALID_AMOUNT and the refusals of the action's Cost; METHOD_UNAVAILABLE for a withdrawal;
// TRY_AGAIN.
func (e *Engine) Price(ctx context.Context, r Request) (cost Msat, err error) {
	def, err := e.askedFor(r)
	if err != nil {
		return 0, err
	}
	if slices.Contains(def.Spec().Methods, Outgoing) {
		// Its Cost is of the payee's invoice (Tx.Payout), for which a stranger's server may have to be asked.
		return 0, Errorf(CodeMethodUnavailable, "What this costs depends on the invoice that it pays, and is known once it has begun.")
	}
	args, err := encode(r.Args)
	if err != nil {
		return 0, err
	}
	err = e.inTx(ctx, func(q *db.Queries, _ *db.Transaction) error {
		tx := &Tx{DB: q, Payer: r.Caller.User, Now: e.now()}
		if cost, err = def.cost(ctx, tx, args); err != nil {
			return err
		}
		return errPriced // the payer's row is locked: release it at once
	})
	if errors.Is(err, errPriced) {
		return cost, nil
	}
	return 0, forCaller(err)
}
