package paidaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// proof is what is known of the secret that came with a request: the secret itself during the request, afterwards the
// one action that it proved. The secret is never stored. That it was shown must be stored, since a pessimistic action
// is performed long after its request was answered.
type proof struct {
	shown  func(genesis int64) bool // nil once the request is over
	proved *int64                   // the genesis of the action that was proved
}

// Proves reports whether the payer has shown the secret of this anonymous action, which proves that it is theirs. For
// an action of a known user it is always false: look at the payer instead.
func (tx *Tx) Proves(ctx context.Context, action int64) (bool, error) {
	row, err := tx.DB.OriginOf(ctx, action)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.PayerID != nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the first attempt of action %d: %w", action, err)
	}
	if tx.proof.shown != nil && tx.proof.shown(row.Genesis) {
		tx.proof.proved = &row.Genesis
	}
	return tx.proof.proved != nil && *tx.proof.proved == row.Genesis, nil
}

// proofBy is what a caller's secret can prove.
func (e *Engine) proofBy(c Caller) proof {
	return proof{shown: func(genesis int64) bool { return e.owns(Caller{Secret: c.Secret}, nil, genesis) }}
}
