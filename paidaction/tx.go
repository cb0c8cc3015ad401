package paidaction

import (
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// Tx is the transaction that an action's code runs in, with what the action may know about itself.
type Tx struct {
	DB       *db.Queries
	Action   int64     // the attempt; 0 while its price is computed for the first time
	Previous int64     // in Retry: the earlier attempt whose work is kept
	Payer    *int64    // nil is the anonymous payer
	Method   Method    // how the action is paid
	Cost     Msat      // the price; 0 while it is computed for the first time
	Now      time.Time // the injected clock; the database's clock is never asked
	Forward  *Forward  // whom the payer pays directly (method P2P); nil while the price is computed
	Payout   *Payout   // what leaves Holdfast (method Outgoing)

	source    ledger.Account
	proof     proof
	invoice   *Invoice // the invoice written for this attempt; nil if there is none
	transfers []ledger.Transfer
	spent     []ledger.Transfer // what left with a forward, out of the amount set aside for it
	given     Msat
	others    []otherStep
}

// otherStep is a step that another action takes in the same transaction. It is announced once that is committed.
type otherStep struct {
	action int64
	step   Step
}

// txOf is the transaction of an action that has its row.
func txOf(q *db.Queries, row db.PaidAction, now time.Time) *Tx {
	method := Method(row.Method)
	return &Tx{DB: q, Action: row.ID, Payer: row.PayerID, Method: method, Cost: Msat(row.CostMsat), Now: now,
		source: method.source(row.PayerID), proof: proof{proved: row.ProvedID}}
}

// Asset is what the payer pays with: credits, or sats (from the balance or over Lightning).
func (tx *Tx) Asset() ledger.Asset { return tx.source.Asset() }

// Pay gives amount, out of what was paid, to an account; the engine books it in the same transaction. Sats paid to a
// credits account are converted one to one. The reverse does not exist: credits never become sats.
func (tx *Tx) Pay(to ledger.Account, amount Msat, reason string) error {
	if amount < 0 {
		return fmt.Errorf("pay %d msat to %s", amount, to)
	}
	if amount == 0 {
		return nil
	}
	tx.given += amount
	transfers, err := route(tx.source, to, amount, reason)
	tx.transfers = append(tx.transfers, transfers...)
	return err
}

// handedOut fails unless all of the price was handed out, once. Splits sum exactly, for every action there will ever be:
// anything else is a fault.
func (tx *Tx) handedOut(kind string) error {
	if tx.given != tx.Cost {
		return fmt.Errorf("%s handed out %d msat of %d", kind, tx.given, tx.Cost)
	}
	return nil
}

// route returns the transfers that take money from one account to another.
func route(from, to ledger.Account, amount Msat, reason string) ([]ledger.Transfer, error) {
	msat := int64(amount)
	switch {
	case from == to:
		// People who get a part of what they pay still pay: the books show both halves.
		through := ledger.Clearing(from.Asset())
		return []ledger.Transfer{{From: from, To: through, Msat: msat, Reason: reason}, {From: through, To: to, Msat: msat, Reason: reason}}, nil
	case from.Asset() == to.Asset():
		return []ledger.Transfer{{From: from, To: to, Msat: msat, Reason: reason}}, nil
	case from.Asset() == ledger.Sats:
		return []ledger.Transfer{
			{From: from, To: ledger.BackingSats, Msat: msat, Reason: reason},
			{From: ledger.IssuedCredits, To: to, Msat: msat, Reason: reason},
		}, nil
	default:
		return nil, fmt.Errorf("credits of %s cannot become sats of %s", from, to)
	}
}
