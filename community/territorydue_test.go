package community_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const oneDay = 24 * time.Hour

// newsOf is of which kinds somebody was told, the newest first.
func newsOf(w *enginetest.World, user int64) string {
	w.Helper()
	rows, err := db.New(w.Pool).NotificationsOf(w.Ctx, db.NotificationsOfParams{UserID: user, Before: 1 << 62, Page: 10})
	if err != nil {
		w.Fatal(err)
	}
	var kinds []string
	for _, n := range rows {
		kinds = append(kinds, n.Kind)
	}
	return strings.Join(kinds, " ")
}

// Who has paid for a year that is over pays nothing for a month and then nothing for that year again: neither ends the grace, nor begins another one.
func TestChangesThatCostNothingDoNotEndAGrace(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	found(w, founder, "bitcoin", community.Yearly)
	change := func(b community.Billing, cost paidaction.Msat, state string, until *time.Time, paid paidaction.Msat) {
		t.Helper()
		pa := w.Pay(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "bitcoin", Billing: &b}, "")
		if pa.Cost != cost {
			t.Errorf("%s costs %d, want %d", b, pa.Cost, cost)
		}
		wantTerritory(w, "bitcoin", state, until, paid)
	}
	w.Clock.Advance(365 * oneDay)
	change(community.Monthly, 0, "ACTIVE", date(2027, 1, 1), year) // nobody has looked yet that it is over
	change(community.Yearly, 0, "ACTIVE", date(2027, 1, 1), year)
	bill(w)
	wantTerritory(w, "bitcoin", "GRACE", date(2027, 1, 1), year)
	w.Clock.Advance(5*oneDay - time.Second)
	change(community.Monthly, 0, "GRACE", date(2027, 1, 1), year)
	change(community.Yearly, 0, "GRACE", date(2027, 1, 1), year)
	bill(w)
	wantTerritory(w, "bitcoin", "GRACE", date(2027, 1, 1), year)
	w.Clock.Advance(time.Second)
	bill(w)
	wantTerritory(w, "bitcoin", "STOPPED", date(2027, 1, 1), year)
}

// A longer billing that reaches beyond now ends a grace: it is paid for.
func TestALongerBillingEndsAGrace(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	found(w, founder, "bitcoin", community.Monthly)
	w.Clock.Advance(32 * oneDay)
	bill(w)
	wantTerritory(w, "bitcoin", "GRACE", date(2026, 2, 1), month)
	yearly := community.Yearly
	give(w, founder, int64(year-month), 0)
	pa := w.Pay(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "bitcoin", Billing: &yearly}, "")
	if pa.Cost != year-month {
		t.Errorf("it costs %d", pa.Cost)
	}
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 1, 1), year)
}

// Due, in grace, stopped, taken over: what everybody can do in a territory meanwhile, and what its founder is told.
func TestTerritoryThatIsNotPaidFor(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder, author := w.User("founder", 0, 0), w.User("author", 1000*sat, 0)
	found(w, founder, "bitcoin", community.Monthly)
	post := func(title string) (int64, error) {
		pa, err := w.Try(author, community.KindItemCreate, community.ItemCreateArgs{Title: title, Territory: "bitcoin"}, "", "")
		if err != nil {
			return 0, err
		}
		return w.Item(pa), nil
	}
	step := func(d time.Duration, state, news string) {
		t.Helper()
		w.Clock.Advance(d)
		for range 3 { // as often as one likes
			bill(w)
		}
		wantTerritory(w, "bitcoin", state, date(2026, 2, 1), month)
		if got := newsOf(w, founder); got != news {
			t.Errorf("the founder was told %q, want %q", got, news)
		}
	}
	step(31*oneDay-time.Second, "ACTIVE", "")
	step(time.Second, "GRACE", "TERRITORY_DUE")
	step(5*oneDay-time.Second, "GRACE", "TERRITORY_DUE")
	last, err := post("open while in grace")
	if err != nil {
		t.Fatal(err)
	}
	heir := w.User("heir", month, 0)
	takeOver := community.TerritoryUnarchiveArgs{Name: "bitcoin", Billing: community.Monthly}
	_, err = w.Try(heir, community.KindTerritoryUnarchive, takeOver, "", "")
	w.WantRefusal(err, paidaction.CodeInvalidInput) // it is its founder's until the grace is over
	step(time.Second, "STOPPED", "TERRITORY_STOPPED TERRITORY_DUE")
	step(365*oneDay, "STOPPED", "TERRITORY_STOPPED TERRITORY_DUE")
	_, err = post("closed")
	w.WantRefusal(err, community.CodeArchived)
	_, err = w.Try(author, community.KindItemCreate, community.ItemCreateArgs{Body: "closed", Parent: last}, "", "")
	w.WantRefusal(err, community.CodeArchived)
	if got := item(w, last); got.Title == nil || got.Territory == nil { // and yet read
		t.Errorf("%+v", got)
	}
	w.Pay(heir, community.KindTerritoryUnarchive, takeOver, "")
	if _, err := post("open again"); err != nil {
		t.Error(err)
	}
	w.WantConserved()
}

// A post by invoice that is held when its territory is stopped goes back to its payer.
func TestPostThatComesTooLateForItsTerritory(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder, author := w.User("founder", 0, 0), w.User("author", 0, 0)
	found(w, founder, "bitcoin", community.Monthly)
	w.Clock.Advance(31 * oneDay)
	bill(w)
	w.Clock.Advance(5 * oneDay)
	pa := w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "x", Territory: "bitcoin"}, paidaction.Pessimistic)
	bill(w)
	payInvoice(w, pa)
	w.Advance(pa.ID)
	if got := w.WantState(pa.ID, paidaction.Failed); got.Failure.Code != community.CodeArchived {
		t.Errorf("%v", got.Failure)
	}
}

// Whoever was not looked at for long, because nothing ran, pays for all periods that have begun, as far as the balance
// goes, and is told that the territory is due only where it does not.
func TestGraceBeginsWhenTheFounderIsTold(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	found(w, founder, "bitcoin", community.Monthly)
	w.Clock.Advance(100 * oneDay)
	bill(w)
	w.Clock.Advance(4 * oneDay)
	bill(w)
	wantTerritory(w, "bitcoin", "GRACE", date(2026, 2, 1), month)
	w.Clock.Advance(oneDay)
	bill(w)
	wantTerritory(w, "bitcoin", "STOPPED", date(2026, 2, 1), month)
}

// Paid in its grace a territory goes on from where it ended; no more than one period ahead can be paid.
func TestManualBilling(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 10*month, 0)
	found(w, founder, "bitcoin", community.Monthly)
	pay := func() error {
		_, err := w.Try(founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "bitcoin"}, "", "")
		return err
	}
	w.Clock.Advance(33 * oneDay)
	bill(w)
	if err := pay(); err != nil {
		t.Fatal(err)
	}
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 3, 1), month)
	errs := allAtOnce(pay, pay, pay)
	wantOne(w, errs, paidaction.CodeDuplicate)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 4, 1), month)
	w.Clock.Advance(40 * oneDay) // the period that was paid ahead has begun
	bill(w)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 4, 1), month)
	if err := pay(); err != nil {
		t.Fatal(err)
	}
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 5, 1), month)
	w.WantBalance(ledger.UserCredits(founder), 7*month)
	w.WantConserved()
}

// Of several payments at once for a period that is due, one counts where each says until when its founder has seen the
// territory paid: else a second one would pay for the next period. An invoice that was made before, and is paid after,
// counts as little: its money goes back.
func TestAPeriodIsPaidOnceWhereItIsNamed(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	found(w, founder, "bitcoin", community.Monthly)
	w.Clock.Advance(33 * oneDay)
	bill(w)
	args := community.TerritoryBillingArgs{Name: "bitcoin", PaidUntil: date(2026, 2, 1)}
	byInvoice := w.Pay(founder, community.KindTerritoryBilling, args, "")
	give(w, founder, 10*month, 0)
	pay := func() error {
		_, err := w.Try(founder, community.KindTerritoryBilling, args, "", "")
		return err
	}
	wantOne(w, allAtOnce(pay, pay, pay), paidaction.CodeDuplicate)
	payInvoice(w, byInvoice)
	w.Advance(byInvoice.ID)
	if got := w.WantState(byInvoice.ID, paidaction.Failed); got.Failure.Code != paidaction.CodeDuplicate {
		t.Errorf("%v", got.Failure)
	}
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 3, 1), month)
	w.WantBalance(ledger.UserCredits(founder), 9*month)
	w.WantConserved()
}

// A territory that is upgraded in its grace is paid until the end of the longer period.
func TestUpgradeInGrace(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", year, 0)
	found(w, founder, "bitcoin", community.Monthly)
	w.Clock.Advance(33 * oneDay)
	bill(w)
	w.Pay(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "bitcoin", Billing: new(community.Yearly)}, "")
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 1, 1), year)
	w.Clock.Advance(300 * oneDay)
	bill(w)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2027, 1, 1), year)
}

// renewing is a territory for a month that renews itself.
func renewing(w *enginetest.World, founder int64, name string) {
	w.Helper()
	found(w, founder, name, community.Monthly)
	w.Pay(founder, community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: name, AutoRenew: new(true)}, "")
}

// The founder's balance pays when it is due: credits, else sats; in the grace too, up to its end.
func TestTerritoryRenewsItself(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	renewing(w, founder, "bitcoin")
	give(w, founder, month, 0)
	w.Clock.Advance(31*oneDay - time.Second)
	bill(w)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 2, 1), month)
	w.Clock.Advance(time.Second)
	bill(w)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 3, 1), month)
	w.WantBalance(ledger.UserCredits(founder), 0)

	give(w, founder, month-1, month)
	w.Clock.Advance(28 * oneDay)
	bill(w)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 4, 1), month)
	w.WantBalance(ledger.UserCredits(founder), month-1)
	w.WantBalance(ledger.UserSats(founder), 0)
	if got := newsOf(w, founder); got != "" {
		t.Errorf("told %q of what was paid", got)
	}

	give(w, founder, 0, month-1) // credits and sats are never added up
	w.Clock.Advance(31 * oneDay)
	bill(w)
	wantTerritory(w, "bitcoin", "GRACE", date(2026, 4, 1), month)
	w.Clock.Advance(5*oneDay - time.Minute)
	bill(w)
	give(w, founder, 1, 0)
	w.Clock.Advance(time.Minute)
	bill(w)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 5, 1), month)
	w.WantConserved()
}

// However many workers look, and whatever the founder pays by hand meanwhile, a period is paid once.
func TestTerritoryRenewsItselfOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	renewing(w, founder, "bitcoin")
	give(w, founder, 10*month, 10*month)
	w.Clock.Advance(31 * oneDay)
	work := func() error { return community.BillTerritories(w.Ctx, w.Engine, community.DefaultSettings()) }
	for _, err := range allAtOnce(work, work, work, work, work, work) {
		if err != nil {
			t.Error(err)
		}
	}
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 3, 1), month)
	w.WantBalance(ledger.UserCredits(founder), 9*month)
	w.WantBalance(ledger.UserSats(founder), 10*month)
	if n := pgtest.Deadlocks(t, w.Pool); n != 0 || w.Faults.Conflicts != 0 {
		t.Errorf("%d deadlocks, %d conflicts", n, w.Faults.Conflicts)
	}
	w.WantConserved()
}

// Two workers, of which one finds the credits and the other, a moment later, the sats: still once.
func TestTerritoryRenewsItselfOnceFromEitherBalance(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	renewing(w, founder, "bitcoin")
	give(w, founder, 0, 10*month)
	w.Clock.Advance(31 * oneDay)
	work := func() error { return community.BillTerritories(w.Ctx, w.Engine, community.DefaultSettings()) }
	arrive := func() error { give(w, founder, 10*month, 0); return nil }
	for _, err := range allAtOnce(work, work, arrive, work, work) {
		if err != nil {
			t.Error(err)
		}
	}
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 3, 1), month)
	if left := w.Balance(ledger.UserCredits(founder)) + w.Balance(ledger.UserSats(founder)); left != 19*month {
		t.Errorf("%d msat are left of twenty months", left)
	}
	w.WantConserved()
}

// Whoever was not looked at for long, because nothing ran, pays for all periods that have begun, as far as the balance goes, and is told that the
// territory is due only where it does not.
func TestTerritoryRenewsItselfForAllPeriodsThatHaveBegun(t *testing.T) {
	t.Parallel()
	for had, want := range map[int64]struct {
		state string
		until *time.Time
		news  string
	}{3: {"ACTIVE", date(2026, 5, 1), ""}, 2: {"GRACE", date(2026, 4, 1), "TERRITORY_DUE"}} {
		w := enginetest.New(t, paidaction.Settings{})
		founder := w.User("founder", 0, 0)
		renewing(w, founder, "bitcoin")
		give(w, founder, had*month, 0)
		w.Clock.Advance(100 * oneDay)
		bill(w)
		wantTerritory(w, "bitcoin", want.state, want.until, month)
		if got := newsOf(w, founder); got != want.news {
			t.Errorf("with %d months in the balance the founder was told %q", had, got)
		}
		w.WantBalance(ledger.UserCredits(founder), 0)
		w.WantConserved()
	}
}

// What a founder's keys were used for holds up no renewal: whoever had the founder's API key for a while could else have
// the territory stopped long after, for nothing, by a payment that was never made.
func TestNoKeyOfTheFounderHoldsUpARenewal(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	renewing(w, founder, "bitcoin")
	give(w, founder, 10*month, 0)
	const key = "territory bitcoin from 2026-02-01T00:00:00Z"
	unpaid, err := w.Try(founder, community.KindDonate, community.DonateArgs{Sats: 1}, paidaction.Pessimistic, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Engine.Cancel(w.Ctx, paidaction.Caller{User: &founder}, unpaid.ID); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(31 * oneDay)
	bill(w)
	wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 3, 1), month)
	bill(w)
	w.WantBalance(ledger.UserCredits(founder), 9*month)
	w.WantConserved()
}

// A territory that cannot be looked at holds up no other.
func TestOneTerritoryHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	for _, name := range []string{"a", "b", "c"} {
		found(w, founder, name, community.Monthly)
	}
	mustExec(w, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	mustExec(w, `CREATE TRIGGER fail BEFORE UPDATE ON territory FOR EACH ROW WHEN (NEW.name = 'a') EXECUTE FUNCTION fail()`)
	w.Clock.Advance(31 * oneDay)
	if err := community.BillTerritories(w.Ctx, w.Engine, community.DefaultSettings()); err == nil || !strings.Contains(err.Error(), "territory a") {
		t.Errorf("%v", err)
	}
	if n := w.Count(`SELECT count(*) FROM territory WHERE state = 'GRACE'`); n != 2 {
		t.Errorf("%d in grace", n)
	}
	mustExec(w, `DROP TRIGGER fail ON territory`)
	bill(w)
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'TERRITORY_DUE'`); n != 3 {
		t.Errorf("told %d times", n)
	}
}

// A payment that is held when the grace ends keeps the territory from being stopped until it is clear what becomes of it: it counts
// then, or the territory is stopped with the payment given back.
func TestBillingThatIsHeldWhenTheGraceEnds(t *testing.T) {
	t.Parallel()
	for _, settled := range []bool{true, false} {
		w := enginetest.New(t, paidaction.Settings{})
		founder := w.User("founder", 0, 0)
		renewing(w, founder, "bitcoin")
		w.Clock.Advance(31 * oneDay)
		bill(w)
		w.Clock.Advance(5*oneDay - time.Minute)
		pa := heldPayment(w, founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "bitcoin"})
		w.Clock.Advance(time.Hour)
		bill(w)
		if got := lookAt(w, "bitcoin"); got.State != "GRACE" || got.PendingAction == nil {
			t.Errorf("%+v", got)
		}
		if settled {
			w.Drain()
			w.WantState(pa.ID, paidaction.Paid)
			bill(w)
			wantTerritory(w, "bitcoin", "ACTIVE", date(2026, 3, 1), month)
			w.WantBalance(ledger.RewardSats, month)
		} else {
			giveBack(w, pa)
			bill(w)
			wantTerritory(w, "bitcoin", "STOPPED", date(2026, 2, 1), month)
			w.WantBalance(ledger.RewardSats, 0)
		}
		w.WantConserved()
	}
}

// An invoice that is still open when the grace ends reserves nothing: paid afterwards, the payment goes back.
func TestBillingThatComesTooLate(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	found(w, founder, "bitcoin", community.Monthly)
	w.Clock.Advance(31 * oneDay)
	bill(w)
	w.Clock.Advance(5*oneDay - time.Minute)
	pa := w.Pay(founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "bitcoin"}, "")
	w.Clock.Advance(time.Minute)
	bill(w)
	payInvoice(w, pa)
	w.Advance(pa.ID)
	if got := w.WantState(pa.ID, paidaction.Failed); got.Failure.Code != community.CodeArchived {
		t.Errorf("%v", got.Failure)
	}
	wantTerritory(w, "bitcoin", "STOPPED", date(2026, 2, 1), month)
	w.WantConserved()
}

// A payment that comes to be held while the check is under way is left alone as well.
func TestBillingThatIsHeldWhileTheCheckRuns(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	renewing(w, founder, "a")
	found(w, founder, "b", community.Monthly)
	give(w, founder, month, 0)
	w.Clock.Advance(31 * oneDay)
	pa := w.Pay(founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "b"}, paidaction.Pessimistic)
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	hold := sync.OnceFunc(func() { w.Advance(pa.ID) })
	w.Engine.Hooks.Moved = func(s paidaction.Step) {
		if s.To == paidaction.Paid {
			hold() // a is paid for; b is found to be due already
		}
	}
	bill(w)
	if got := lookAt(w, "b"); got.State != "ACTIVE" || got.PendingAction == nil {
		t.Errorf("%+v", got)
	}
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	wantTerritory(w, "a", "ACTIVE", date(2026, 3, 1), month)
	wantTerritory(w, "b", "ACTIVE", date(2026, 3, 1), month)
	w.WantConserved()
}

// What is due is found some time before it is paid for, one territory after the other. What its founder has done meanwhile counts: who has paid by hand, or
// for a longer period, owes nothing more, and who has said that it is not to be renewed is not asked to pay.
func TestRenewalOfWhatIsNotDueAnyMore(t *testing.T) {
	t.Parallel()
	yearly := community.Yearly
	for name, c := range map[string]struct {
		kind  string
		args  any
		costs int64
		until *time.Time
		paid  paidaction.Msat
		state string
	}{
		"paid by hand":      {community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "b"}, month, date(2026, 3, 1), month, "ACTIVE"},
		"paid for a year":   {community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "b", Billing: &yearly}, year - month, date(2027, 1, 1), year, "ACTIVE"},
		"not to be renewed": {community.KindTerritoryUpdate, community.TerritoryUpdateArgs{Name: "b", AutoRenew: new(false)}, 0, date(2026, 2, 1), month, "GRACE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			other, founder := w.User("other", 0, 0), w.User("founder", 0, 0)
			renewing(w, other, "a")
			renewing(w, founder, "b")
			give(w, other, month, 0)
			give(w, founder, 2*year, 2*year)
			w.Clock.Advance(31 * oneDay)
			w.Engine.Hooks.Moved = func(paidaction.Step) { // a is paid for; b is found to be due already
				w.Engine.Hooks.Moved = nil
				w.Pay(founder, c.kind, c.args, paidaction.FeeCredit)
			}
			bill(w)
			wantTerritory(w, "b", c.state, c.until, c.paid)
			w.WantBalance(ledger.UserCredits(founder), 2*year-c.costs)
			w.WantBalance(ledger.UserSats(founder), 2*year)
			w.WantConserved()
		})
	}
}

// A database that was restored has forgotten that a founder paid. Until somebody has looked, which is when nobody can
// pay, no territory comes closer to being stopped: what was paid is found at the node, and then could not count.
func TestNoTerritoryIsStoppedWhileTheDatabaseIsInDoubt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder := w.User("founder", 0, 0)
	found(w, founder, "due", community.Monthly)
	found(w, founder, "paid", community.Monthly)
	w.Clock.Advance(31 * oneDay)
	bill(w)
	w.Clock.Advance(5*oneDay - time.Minute)
	pa := w.Pay(founder, community.KindTerritoryBilling, community.TerritoryBillingArgs{Name: "paid"}, "")
	restore := pgtest.Backup(t, w.Pool)
	payInvoice(w, pa)
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
	restore()
	w.Engine.MayBegin = func() error { return paidaction.Errorf(paidaction.CodeTryAgain, "Not now.") }
	w.Clock.Advance(oneDay)
	bill(w)
	for _, name := range []string{"due", "paid"} {
		wantTerritory(w, name, "GRACE", date(2026, 2, 1), month)
	}
	if _, err := w.Engine.Sweep(w.Ctx); err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Paid)
	w.Engine.MayBegin = func() error { return nil }
	bill(w)
	wantTerritory(w, "due", "STOPPED", date(2026, 2, 1), month)
	wantTerritory(w, "paid", "ACTIVE", date(2026, 3, 1), month)
	w.WantConserved()
}
