package paidaction_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/timeline"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A hold invoice was taken, and the database was restored to before that, or failed over to a copy that lagged behind: the payer has paid, and gets what
// they paid for.
func TestAHeldPaymentThatWasTakenBeforeARestoreCounts(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(*enginetest.World, int64){
		"by the sweep": func(w *enginetest.World, _ int64) {
			if _, err := w.Engine.Sweep(w.Ctx); err != nil {
				w.Fatal(err)
			}
		},
		"by an event": func(w *enginetest.World, id int64) {
			if _, err := w.Engine.Drive(w.Ctx, id); err != nil {
				w.Fatal(err)
			}
		},
		"once its invoice has expired": func(w *enginetest.World, _ int64) {
			w.Clock.Advance(time.Hour)
			if _, err := w.Engine.SweepOverdue(w.Ctx); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			pa := donate(w, w.User("payer", 0, 0), paidaction.Pessimistic)
			restore := pgtest.Backup(t, w.Pool)
			pay(w, pa, simnode.Payment{Msat: 12 * sat})
			w.Drain()
			if _, err := w.Engine.Drive(w.Ctx, pa.ID); err != nil {
				t.Fatal(err)
			}
			w.WantState(pa.ID, paidaction.Paid)
			restore()
			w.WantState(pa.ID, paidaction.PendingHeld)
			bring(w, pa.ID)
			w.WantState(pa.ID, paidaction.Paid)
			w.WantBalance(ledger.RewardSats, 10*sat)
			w.WantBalance(ledger.Lightning, -12*sat)
			w.WantConserved()
		})
	}
}

// Its payer sees it waiting again, and gives it up: while the database is in doubt, what may have been taken is not given back.
func TestAPaymentThatMayHaveBeenTakenIsNotGivenUp(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	pa, open := donate(w, user, paidaction.Pessimistic), donate(w, user, paidaction.Pessimistic)
	restore := pgtest.Backup(t, w.Pool)
	pay(w, pa, simnode.Payment{})
	w.Drain()
	if _, err := w.Engine.Drive(w.Ctx, pa.ID); err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Paid)
	restore()
	w.Engine.MayBegin = func() error { return paidaction.Errorf(paidaction.CodeTryAgain, "Not now.") }
	for _, id := range []int64{pa.ID, open.ID} {
		_, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), id)
		w.WantRefusal(err, paidaction.CodeTryAgain)
		w.WantState(id, paidaction.PendingHeld)
	}
	if _, err := w.Engine.Sweep(w.Ctx); err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Paid)
	w.Engine.MayBegin = func() error { return nil }
	if got, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), open.ID); err != nil || got.State != paidaction.Failed {
		t.Errorf("%+v, %v", got, err)
	}
	w.WantBalance(ledger.RewardSats, 10*sat)
	w.WantConserved()
}

// There is nothing to give back of what was taken: the price that was paid is the price, and where the action cannot be performed any more it stays open.
func TestWhatWasTakenIsNotGivenBack(t *testing.T) {
	t.Parallel()
	price, refusal := paidaction.Msat(5*sat), error(paidaction.Errorf(paidaction.CodeDuplicate, "This was done before."))
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(broken{price: &price, perform: func(*paidaction.Tx) error { return refusal }}))
	pa := w.Pay(0, "BROKEN", struct{}{}, "")
	pay(w, pa, simnode.Payment{})
	var preimage []byte
	if err := w.Pool.QueryRow(w.Ctx, `SELECT preimage FROM invoice`).Scan(&preimage); err != nil {
		t.Fatal(err)
	}
	if err := w.Node.SettleInvoice(w.Ctx, paidaction.Preimage(preimage)); err != nil {
		t.Fatal(err)
	}
	if p, err := w.Engine.Advance(w.Ctx, pa.ID); p != paidaction.Owing || err == nil {
		t.Errorf("progress %d, error %v", p, err)
	}
	w.WantState(pa.ID, paidaction.PendingHeld)
	price, refusal = 6*sat, nil
	for w.Advance(pa.ID) == paidaction.Moved {
	}
	w.WantState(pa.ID, paidaction.Paid)
	w.WantBalance(ledger.RewardSats, 5*sat)
	w.WantConserved()
}

// The numbers that were given between the backup and its loss are known outside: to an anonymous payer by the secret that
// is derived from it.
func TestNoNumberIsGivenTwiceAfterARestore(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	watch := &timeline.Watch{Log: slog.New(slog.DiscardHandler)}
	if err := watch.Look(w.Ctx, w.Pool); err != nil {
		t.Fatal(err)
	}
	restore := pgtest.Backup(t, w.Pool)
	lost := anonymousPost(w, "before the restore")
	restore()
	if err := watch.Look(w.Ctx, w.Pool); err != nil {
		t.Fatal(err)
	}
	other := anonymousPost(w, "of somebody else")
	if got, err := w.Engine.Get(w.Ctx, paidaction.Caller{Secret: lost.Secret}, other.ID); err == nil {
		t.Errorf("the secret of action %d opens action %d of somebody else: %s", lost.ID, other.ID, got.Args)
	}
	other = w.Look(other.ID)
	pay(w, other, simnode.Payment{})
	w.Advance(other.ID)
	w.Drain()
	w.WantState(other.ID, paidaction.Paid)
	w.WantConserved()
}

// Whoever has just read what the database then forgot finds no action: none of its code is at fault for that.
func TestAForgottenActionIsNoFault(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	restore := pgtest.Backup(t, w.Pool)
	pa := donate(w, user, paidaction.Pessimistic)
	pay(w, pa, simnode.Payment{})
	read, err := w.Engine.OpenOf(w.Ctx, []paidaction.Hash{pa.Invoice.Hash})
	if err != nil || len(read) != 1 {
		t.Fatal(read, err)
	}
	restore()
	if _, err := w.Engine.DriveRead(w.Ctx, read[0]); !errors.Is(err, paidaction.ErrNoAction) {
		t.Errorf("got %v", err)
	}
	if len(w.Faults.Errors) != 0 {
		t.Errorf("faults: %v", w.Faults.Errors)
	}
}

// During a fail-over we may be led to a server that only reads, for a moment: no payment is given back for that, and nobody is told of a fault of ours.
func TestAStandbyIsAPassingThing(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100*sat, 0)
	pa := donate(w, user, paidaction.Pessimistic)
	pay(w, pa, simnode.Payment{})
	readOnly := func(value string) {
		t.Helper()
		err := pgx.BeginTxFunc(w.Ctx, w.Pool, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
			_, err := tx.Exec(w.Ctx, "ALTER DATABASE "+w.Pool.Config().ConnConfig.Database+" SET default_transaction_read_only = "+value)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Pool.Reset()
	}
	readOnly("on")
	if p, err := w.Engine.Advance(w.Ctx, pa.ID); p != paidaction.Owing || err == nil || len(w.Faults.Errors) != 0 {
		t.Errorf("progress %d, error %v, faults %v", p, err, w.Faults.Errors)
	}
	_, err := w.Try(user, community.KindDonate, community.DonateArgs{Sats: 10}, paidaction.FeeCredit, "")
	w.WantRefusal(err, paidaction.CodeTryAgain)
	readOnly("off")
	w.Advance(pa.ID)
	w.Drain()
	w.WantState(pa.ID, paidaction.Paid)
}
