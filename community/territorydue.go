package community

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What a founder is told.
const (
	tellDue     = "TERRITORY_DUE"
	tellStopped = "TERRITORY_STOPPED"
)

const (
	duePage   = 500       // territories per turn
	billAgain = time.Hour // how often the balance is tried during the grace
)

// BillTerritories handles the territories that are due. One that renews itself is paid from its founder's balance; one
// that is not paid goes into its grace, and then is stopped. Any number of workers may call it, any number of times:
// what is due is decided again under each territory's lock. While a payment is held, the territory is left alone until
// its outcome is known; and nothing is done while the database may lack what was paid (paidaction.Config.MayBegin).
//
// An error with one territory holds up no other; that territory stays due.
func BillTerritories(ctx context.Context, e *paidaction.Engine, s Settings) error {
	now := e.Now().UTC()
	due, err := db.New(e.Pool).DueTerritories(ctx, db.DueTerritoriesParams{At: now, Page: duePage})
	if err != nil {
		return fmt.Errorf("find the territories that are due: %w", err)
	}
	var failed []error
	for _, t := range due {
		if ctx.Err() != nil {
			break // the next turn goes on
		}
		if t.AutoRenew {
			if err := renewTerritory(ctx, e, t, now); err != nil {
				failed = append(failed, fmt.Errorf("renew territory %s: %w", t.Name, err))
				continue
			}
		}
		err := db.InTransaction(ctx, e.Pool, func(tx *db.Transaction) error {
			if e.MayBegin() != nil {
				return nil // nobody could pay now, and what was paid and forgotten would come too late
			}
			return remindTerritory(ctx, db.New(tx), t.Name, now, s)
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("remind territory %s: %w", t.Name, err))
		}
	}
	return errors.Join(failed...)
}

// renewTerritory pays from the founder's balance for every period that has begun: nobody may have looked for several,
// and as long as one of them is not paid, the founder is told that the territory is due. Success of a payment proves
// nothing: the territory's row tells.
func renewTerritory(ctx context.Context, e *paidaction.Engine, t db.Territory, now time.Time) error {
	for {
		until := *t.PaidUntil
		if err := renewPeriod(ctx, e, t); err != nil {
			return err
		}
		var err error
		if t, err = db.New(e.Pool).GetTerritory(ctx, t.Name); err != nil {
			return fmt.Errorf("read it again: %w", err)
		}
		if !t.AutoRenew || t.PaidUntil == nil || t.PaidUntil.Equal(until) || now.Before(*t.PaidUntil) {
			return nil
		}
	}
}

// renewPeriod pays for the next period from the founder's balance, only once however often it is tried: under the
// territory's lock the price is refused where the period is paid for by now, or its founder has cancelled the renewal.
// It has no idempotency key: that would be one of the founder's, and whoever asks in their name could use it up before.
// A refusal is never an error.
func renewPeriod(ctx context.Context, e *paidaction.Engine, t db.Territory) error {
	for _, method := range []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats} {
		_, err := e.Pay(ctx, paidaction.Request{Kind: KindTerritoryBilling, Args: TerritoryBillingArgs{Name: t.Name, Renews: t.PaidUntil}, Terms: paidaction.Terms{Method: method},
			Caller: paidaction.Caller{User: &t.FounderID}})
		switch refusal, refused := paidaction.AsRefusal(err); {
		case !refused:
			return err
		case refusal.Code == paidaction.CodeTryAgain || refusal.Code == paidaction.CodeUnknownOutcome:
			return err // the state of the balance is unknown
		case refusal.Code != paidaction.CodeInsufficientFunds:
			return nil
		}
	}
	return nil
}

// remindTerritory takes a territory that is still due one step closer to being stopped.
func remindTerritory(ctx context.Context, q *db.Queries, name string, now time.Time, s Settings) error {
	t, err := q.LockTerritory(ctx, name)
	if err != nil {
		return fmt.Errorf("lock it: %w", err)
	}
	if t.PendingAction != nil || t.BillAt == nil || now.Before(*t.BillAt) {
		return nil // a payment is held or came first, or another worker did this
	}
	told := ""
	if t.State == territoryActive {
		t.State, t.GraceUntil, told = territoryGrace, new(now.Add(s.TerritoryGrace)), tellDue
	} else if !now.Before(*t.GraceUntil) {
		t.State, t.GraceUntil, t.BillAt, told = territoryStopped, nil, nil, tellStopped
	}
	if t.State == territoryGrace {
		t.BillAt = new(now.Add(billAgain))
		if t.GraceUntil.Before(*t.BillAt) {
			t.BillAt = t.GraceUntil
		}
	}
	if err := saveTerritory(ctx, q, t); err != nil || told == "" {
		return err
	}
	if err := q.TellOfTerritory(ctx, db.TellOfTerritoryParams{UserID: t.FounderID, Kind: told, Territory: t.Name, At: now}); err != nil {
		return fmt.Errorf("tell the founder: %w", err)
	}
	return nil
}
