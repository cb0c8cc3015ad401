package paidaction

import (
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// Tx is the transaction an action's code runs in, and what it may know about itself.
type Tx struct {
	DB       *db.Queries
	Action   int64     // the attempt; 0 while its price is computed for the first time
	Previous int64     // an earlier attempt: in Retry the one whose work is kept, else the one before; 0 in the first
	Payer    *int64    // nil is the anonymous payer
	Method   Method    // how it is paid
	Cost     Msat      // what it costs; 0 while the price is computed
	Now      time.Time // the injected clock; the database's is never asked
	Forward  *Forward  // whom the payer pays directly (method P2P); nil while the price is computed
	Payout   *Payout   // what leaves (method Outgoing)

	source    ledger.Account
	proof     proof
	invoice   *Invoice // that was written for it; nil where there is none
	transfers []ledger.Transfer
	spent     []ledger.Transfer // what left with a forward, out of what is set aside for it
	given     Msat
}

// Asset is what the payer pays with: credits, or sats (from the balance or over Lightning).
func (tx *Tx) Asset() ledger.Asset { return tx.source.Asset() }

// Pay hands amount of what was paid to an account; the engine books it in the same transaction. Sats handed to an account
// of credits are converted, one to one. The other way round does not exist: credits never become sats.
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

// PayFee hands the part of the price that goes to nobody in particular: founder's share of it to the founder of the
// territory if there is one, the rest to the rewards pool, in the asset it was paid in (spec 02 §2.4).
func (tx *Tx) PayFee(fee Msat, founder *int64, rewardsPct int) error {
	if founder != nil {
		share := fee.Percent(100 - rewardsPct)
		if err := tx.Pay(ledger.User(*founder, tx.Asset()), share, "territory revenue"); err != nil {
			return err
		}
		fee -= share
	}
	return tx.Pay(ledger.Rewards(tx.Asset()), fee, "rewards")
}

// route is the way money takes from one account to another.
func route(from, to ledger.Account, amount Msat, reason string) ([]ledger.Transfer, error) {
	msat := int64(amount)
	switch {
	case from == to:
		// Who pays themselves (a founder in their own territory) still pays: the books show both halves.
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
