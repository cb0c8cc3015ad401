package community

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Billing is how long one payment for a territory lasts.
type Billing string

// The billings.
const (
	Monthly Billing = "MONTHLY"
	Yearly  Billing = "YEARLY"
	Once    Billing = "ONCE" // for ever
)

// Billings are all of them, the shortest first.
var Billings = []Billing{Monthly, Yearly, Once}

// End is when a period that begins at start ends; nil means never. It ends on this day of the month, or on the last day
// of a month that has no such day. In that case the following period begins earlier in the month, but ends on the given
// day again.
func (b Billing) End(start time.Time, day int) *time.Time {
	switch b {
	case Monthly:
		return new(addMonths(start, 1, day))
	case Yearly:
		return new(addMonths(start, 12, day))
	}
	return nil
}

func addMonths(t time.Time, n, day int) time.Time {
	t = t.UTC() // the day of the month is that of UTC, whatever the machine's zone
	first := t.AddDate(0, n, 1-t.Day())
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(day, last)-1)
}

func (b Billing) longerThan(other Billing) bool {
	return slices.Index(Billings, b) > slices.Index(Billings, other)
}

func (b Billing) check() error {
	if !slices.Contains(Billings, b) {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "A territory is paid for MONTHLY, YEARLY or ONCE.")
	}
	return nil
}

// TerritoryPrice is what one period of this billing costs.
func (s Settings) TerritoryPrice(b Billing) paidaction.Msat {
	switch b {
	case Monthly:
		return s.TerritoryMonthly
	case Yearly:
		return s.TerritoryYearly
	}
	return s.TerritoryOnce
}

// TerritoryChange is what it costs to change the billing within a period that cost paid. A longer billing costs the
// difference, never less than zero; a shorter one costs nothing and refunds nothing (spec 05.8).
func (s Settings) TerritoryChange(from, to Billing, paid paidaction.Msat) paidaction.Msat {
	if !to.longerThan(from) {
		return 0
	}
	return max(0, s.TerritoryPrice(to)-paid)
}

// States of a territory.
const (
	territoryPending = "PENDING" // its first payment is held: visible only to its founder
	territoryActive  = "ACTIVE"
	territoryGrace   = "GRACE"   // due and not paid; still open
	territoryStopped = "STOPPED" // archived: it can be read, but nobody can write in it
)

const maxDescription = 1000

// TerritoryResult is the territory that was paid for.
type TerritoryResult struct {
	Territory string `json:"territory"`
}

// territoryMethods follow the table of spec 02 §2.3.
var territoryMethods = []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats, paidaction.Pessimistic}

var territoryName = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

func checkTerritoryName(name string) error {
	if !territoryName.MatchString(name) {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "A territory's name has 1 to 32 characters: lowercase letters, digits and underscores.")
	}
	return nil
}

// checkItemCost refuses a price that a post or a comment in a territory cannot have.
func (s Settings) checkItemCost(sats int64) error {
	if err := checkSats(sats); err != nil {
		return err
	}
	if sats > s.TerritoryMaxCost.Sats() {
		return paidaction.Errorf(paidaction.CodeInvalidAmount, "A post or a comment can cost at most %d sats.", s.TerritoryMaxCost.Sats())
	}
	return nil
}

func errNoTerritory() error {
	return paidaction.Errorf(paidaction.CodeNotFound, "There is no such territory.")
}

// openTerritory reads a territory to write in. It takes no lock: what is written just as it is stopped stays.
func openTerritory(ctx context.Context, tx *paidaction.Tx, name string) (db.Territory, error) {
	if !territoryName.MatchString(name) { // a price is asked for before anything is checked
		return db.Territory{}, errNoTerritory()
	}
	t, err := tx.DB.GetTerritory(ctx, name)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && t.State == territoryPending:
		return t, errNoTerritory()
	case err != nil:
		return t, fmt.Errorf("read territory %s: %w", name, err)
	case t.State == territoryStopped:
		return t, paidaction.Errorf(CodeArchived, "This territory is archived. Nobody can write in it until somebody takes it over.")
	}
	return t, nil
}

// lockTerritory locks a territory to pay for it. It refuses this while another payment for it is held.
func lockTerritory(ctx context.Context, tx *paidaction.Tx, name string) (db.Territory, error) {
	t, err := tx.DB.LockTerritory(ctx, name)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && t.State == territoryPending && t.FounderID != *tx.Payer:
		return t, errNoTerritory()
	case err != nil:
		return t, fmt.Errorf("lock territory %s: %w", name, err)
	case t.PendingAction != nil:
		return t, paidaction.Errorf(paidaction.CodeTryAgain, "A payment for this territory is under way. Try again when it is done.")
	}
	return t, nil
}

// lockOwnTerritory locks a territory that the payer runs.
func lockOwnTerritory(ctx context.Context, tx *paidaction.Tx, name string) (db.Territory, error) {
	t, err := lockTerritory(ctx, tx, name)
	switch {
	case err != nil:
		return t, err
	case t.FounderID != *tx.Payer:
		return t, paidaction.Errorf(paidaction.CodeForbidden, "Only the founder of a territory can do this.")
	case t.State == territoryStopped:
		return t, paidaction.Errorf(CodeArchived, "This territory is archived. Take it over to run it again.")
	}
	return t, nil
}

// reservation is common to all payments for an existing territory. Perform only reserves the territory: nothing about
// it changes before the money is ours, and no other payment for it comes in between.
type reservation[A interface{ territory() string }] struct {
	paidaction.Base[A, TerritoryResult]
}

// Perform reserves the territory. Cost has locked and checked it.
func (reservation[A]) Perform(ctx context.Context, tx *paidaction.Tx, a A) (TerritoryResult, error) {
	n, err := tx.DB.ReserveTerritory(ctx, db.ReserveTerritoryParams{Name: a.territory(), ActionID: tx.Action})
	if err != nil {
		return TerritoryResult{}, fmt.Errorf("reserve territory %s: %w", a.territory(), err)
	}
	if n == 0 {
		return TerritoryResult{}, errNotReserved(a.territory(), tx.Action)
	}
	return TerritoryResult{Territory: a.territory()}, nil
}

// OnFail frees the territory.
func (reservation[A]) OnFail(ctx context.Context, tx *paidaction.Tx, a A, _ TerritoryResult) error {
	n, err := tx.DB.FreeTerritory(ctx, db.FreeTerritoryParams{Name: a.territory(), ActionID: tx.Action})
	if err != nil {
		return fmt.Errorf("free territory %s: %w", a.territory(), err)
	}
	if n == 0 {
		return errNotReserved(a.territory(), tx.Action)
	}
	return nil
}

// errNotReserved is a fault: a payment for a territory goes on although another one is under way for it, or none.
func errNotReserved(name string, action int64) error {
	return fmt.Errorf("territory %s is not reserved for action %d", name, action)
}

// payTerritory makes a payment count: it applies change to the territory, and ends the reservation. All the money goes
// to the rewards pool: founders earn nothing from payments for territories.
func payTerritory(ctx context.Context, tx *paidaction.Tx, name string, change func(*db.Territory)) error {
	t, err := tx.DB.LockTerritory(ctx, name)
	if err != nil {
		return fmt.Errorf("lock territory %s: %w", name, err)
	}
	if t.PendingAction == nil || *t.PendingAction != tx.Action {
		return errNotReserved(name, tx.Action)
	}
	change(&t)
	if err := saveTerritory(ctx, tx.DB, t); err != nil {
		return err
	}
	return tx.Pay(ledger.Rewards(tx.Asset()), tx.Cost, "territory")
}

// rentAnew opens a territory whose periods are counted from now on.
func rentAnew(t *db.Territory, tx *paidaction.Tx) {
	t.PeriodDay = new(int16(tx.Now.UTC().Day()))
	rent(t, tx.Now, tx.Cost)
}

// rent opens a territory for a period of its billing.
func rent(t *db.Territory, start time.Time, paid paidaction.Msat) {
	t.PeriodStart, t.PaidUntil, t.PaidMsat = &start, Billing(t.Billing).End(start, int(*t.PeriodDay)), int64(paid)
	t.State, t.GraceUntil, t.BillAt = territoryActive, nil, t.PaidUntil
}

// saveTerritory stores a territory that the caller has locked, and ends its reservation.
func saveTerritory(ctx context.Context, q *db.Queries, t db.Territory) error {
	err := q.SaveTerritory(ctx, db.SaveTerritoryParams{Name: t.Name, FounderID: t.FounderID, BaseCostMsat: t.BaseCostMsat,
		ReplyCostMsat: t.ReplyCostMsat, State: t.State, Billing: t.Billing, AutoRenew: t.AutoRenew, Description: t.Description,
		PeriodStart: t.PeriodStart, PeriodDay: t.PeriodDay, PaidUntil: t.PaidUntil, PaidMsat: t.PaidMsat, GraceUntil: t.GraceUntil, BillAt: t.BillAt})
	if err != nil {
		return fmt.Errorf("store territory %s: %w", t.Name, err)
	}
	return nil
}
