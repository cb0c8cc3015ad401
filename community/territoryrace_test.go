package community_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// heldPayment asks for an action by invoice, and takes it to where its payment is held.
func heldPayment(w *enginetest.World, user int64, kind string, args any) *paidaction.PaidAction {
	w.Helper()
	pa := w.Pay(user, kind, args, paidaction.Pessimistic)
	payInvoice(w, pa)
	w.WantState(pa.ID, paidaction.Held)
	return pa
}

// giveBack lets the blocks run out for a payment that is held.
func giveBack(w *enginetest.World, pa *paidaction.PaidAction) {
	w.Helper()
	w.Node.Mine(uint32(w.Count(`SELECT deadline_height FROM paid_action WHERE id = $1`, pa.ID)) - w.Node.Height())
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
}

// allAtOnce does all of these in the same moment, and returns their errors.
func allAtOnce(all ...func() error) []error {
	errs, begin := make([]error, len(all)), make(chan struct{})
	var wg sync.WaitGroup
	for i, do := range all {
		wg.Go(func() { <-begin; errs[i] = do() })
	}
	close(begin)
	wg.Wait()
	return errs
}

// wantOne fails the test unless one of them was done, and all others refused with this code.
func wantOne(w *enginetest.World, errs []error, code paidaction.Code) {
	w.Helper()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else {
			w.WantRefusal(err, code)
		}
	}
	if done != 1 {
		w.Errorf("%d of %d were done", done, len(errs))
	}
}

func TestOneNameIsFoundedOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	var all []func() error
	for i := range 8 {
		user := w.User(fmt.Sprint("founder", i), month, 0)
		all = append(all, func() error {
			_, err := w.Try(user, community.KindTerritoryCreate, createArgs("bitcoin", community.Monthly), paidaction.FeeCredit, "")
			return err
		})
	}
	wantOne(w, allAtOnce(all...), paidaction.CodeDuplicate)
	w.WantBalance(ledger.RewardCredits, month)
	w.WantConserved()
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// By invoice, the name is whose payment is held first; the others' money goes back.
func TestOneNameIsFoundedOnceByInvoice(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	slow, fast := w.User("slow", 0, 0), w.User("fast", 0, 0)
	first := w.Pay(slow, community.KindTerritoryCreate, createArgs("bitcoin", community.Monthly), "")
	second := heldPayment(w, fast, community.KindTerritoryCreate, createArgs("bitcoin", community.Monthly))
	payInvoice(w, first)
	w.Drain()
	if pa := w.WantState(first.ID, paidaction.Failed); pa.Failure.Code != paidaction.CodeDuplicate {
		t.Errorf("%v", pa.Failure)
	}
	w.WantState(second.ID, paidaction.Paid)
	if got := lookAt(w, "bitcoin"); got.FounderID != fast || got.State != "ACTIVE" {
		t.Errorf("%+v", got)
	}
	w.WantBalance(ledger.RewardSats, month)
	w.WantBalance(ledger.UserCredits(slow), 0)
	w.WantConserved()
}

// Two changes at once cost what one after the other would.
func TestTwoUpgradesAtOnceCostOne(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 10*year, 0)
	found(w, founder, "bitcoin", community.Monthly)
	upgrade := func() error {
		_, err := w.Try(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "bitcoin", Billing: new(community.Yearly)}, "", "")
		return err
	}
	for _, err := range allAtOnce(upgrade, upgrade, upgrade, upgrade) {
		if err != nil {
			t.Error(err)
		}
	}
	w.WantBalance(ledger.UserCredits(founder), 10*year-(year-month))
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 1, 1), year)
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// While a payment is held nothing else is paid for the territory; one that comes after it finds another price, and goes back.
func TestHeldPaymentReservesTheTerritory(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 10*once, 0)
	found(w, founder, "bitcoin", community.Monthly)
	upgrade := community.TerritoryUpdateArgs{Name: "bitcoin", Billing: new(community.Yearly)}
	early := w.Pay(founder, community.KindTerritoryUpdate, upgrade, paidaction.Pessimistic)
	late := w.Pay(founder, community.KindTerritoryUpdate, upgrade, paidaction.Pessimistic)
	pa := heldPayment(w, founder, community.KindTerritoryUpdate, upgrade)
	before := lookAt(w, "bitcoin")
	if before.Billing != "MONTHLY" || before.PendingAction == nil || *before.PendingAction != pa.ID {
		t.Fatalf("%+v", before)
	}
	for kind, args := range map[string]any{community.KindTerritoryUpdate: upgrade, community.KindTerritoryBilling: community.TerritoryBillingArgs{Name: "bitcoin"}} {
		_, err := w.Try(founder, kind, args, "", "")
		w.WantRefusal(err, paidaction.CodeTryAgain)
	}
	fail := func(pa *paidaction.PaidAction, code paidaction.Code) {
		t.Helper()
		payInvoice(w, pa)
		for w.Look(pa.ID).State == paidaction.Canceling {
			w.Advance(pa.ID)
		}
		if got := w.WantState(pa.ID, paidaction.Failed); got.Failure.Code != code {
			t.Errorf("%v, want %s", got.Failure, code)
		}
	}
	fail(early, paidaction.CodeTryAgain)
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 1, 1), year)
	fail(late, paidaction.CodePriceChanged)
	w.WantBalance(ledger.RewardSats, year-month)
	w.WantConserved()

	// One that is given back leaves the territory as it was, and free.
	billing := heldPayment(w, founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "bitcoin"})
	giveBack(w, billing)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 1, 1), year)
	w.Pay(founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "bitcoin"}, paidaction.FeeCredit)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2028, 1, 1), year)
}

func transfers(w *enginetest.World, name string) []db.TransfersOfTerritoriesRow {
	w.Helper()
	rows, err := db.New(w.Pool).TransfersOfTerritories(w.Ctx, db.TransfersOfTerritoriesParams{Territories: []string{name}, Before: 1 << 60, Page: 10})
	if err != nil {
		w.Fatal(err)
	}
	return rows
}

// Anybody may take over what is stopped, one of them does, and it is recorded.
func TestStoppedTerritoryIsTakenOverOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	stopped(w, founder, "bitcoin") // on the 6th of February
	var all []func() error
	for i := range 8 {
		user := w.User(fmt.Sprint("heir", i), year, 0)
		all = append(all, func() error {
			_, err := w.Try(user, community.KindTerritoryUnarchive, community.TerritoryUnarchiveArgs{Name: "bitcoin", Billing: community.Yearly, AutoRenew: true},
				paidaction.FeeCredit, "")
			return err
		})
	}
	wantOne(w, allAtOnce(all...), paidaction.CodeInvalidInput)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 2, 6), year)
	got := lookAt(w, "bitcoin")
	rows := transfers(w, "bitcoin")
	if len(rows) != 1 || rows[0].TerritoryTransfer.FromUser != founder || rows[0].TerritoryTransfer.ToUser != got.FounderID || got.FounderID == founder || !got.AutoRenew {
		t.Errorf("%+v, %+v", rows, got)
	}
	w.WantBalance(ledger.RewardCredits, month+year)
	w.WantConserved()
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// By invoice, the reservation decides; the one whose payment is held second gets it back, also if the first comes to nothing.
func TestStoppedTerritoryIsTakenOverByInvoice(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder, a, b := w.User("founder", 0, 0), w.User("a", 0, 0), w.User("b", 0, 0)
	stopped(w, founder, "bitcoin")
	args := community.TerritoryUnarchiveArgs{Name: "bitcoin", Billing: community.Monthly}
	second := w.Pay(b, community.KindTerritoryUnarchive, args, "")
	first := heldPayment(w, a, community.KindTerritoryUnarchive, args)
	if got := lookAt(w, "bitcoin"); got.State != "STOPPED" || got.FounderID != founder {
		t.Errorf("taken over before it was paid: %+v", got)
	}
	payInvoice(w, second)
	w.Advance(second.ID)
	if pa := w.WantState(second.ID, paidaction.Failed); pa.Failure.Code != paidaction.CodeTryAgain {
		t.Errorf("%v", pa.Failure)
	}
	giveBack(w, first)
	wantTerritory(w, "bitcoin", "STOPPED", date(2026, 2, 1), month)
	if rows := transfers(w, "bitcoin"); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
	// The old founder may too.
	give(w, founder, month, 0)
	w.Pay(founder, community.KindTerritoryUnarchive, args, paidaction.FeeCredit)
	if rows := transfers(w, "bitcoin"); len(rows) != 1 || rows[0].TerritoryTransfer.FromUser != founder || rows[0].TerritoryTransfer.ToUser != founder {
		t.Errorf("%+v", rows)
	}
	w.WantBalance(ledger.RewardSats, 0)
	w.WantConserved()
}
