package paidaction_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// notNow refuses what is new, as while the database is in doubt.
func notNow() error { return paidaction.Errorf(paidaction.CodeTryAgain, "Not now.") }

// accept is an operator who accepts a history of the database that was doubted for a minute.
func accept(w *enginetest.World) {
	w.Helper()
	w.Clock.Advance(time.Minute)
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO timeline (name, met_at, accepted_at) VALUES ('restored', $1, $2)`,
		w.Clock.Now().Add(-time.Minute), w.Clock.Now()); err != nil {
		w.Fatal(err)
	}
}

// elsewhere is an engine with a pool of its own on the world's database, as another process has.
func elsewhere(w *enginetest.World, connects func(*pgxpool.Config), mayBegin func() error) *paidaction.Engine {
	w.Helper()
	settings := w.Pool.Config()
	connects(settings)
	config := w.Engine.Config
	var err error
	if config.Pool, err = pgxpool.NewWithConfig(w.Ctx, settings); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(config.Pool.Close)
	config.MayBegin = mayBegin
	e, err := paidaction.New(config)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// That another server has taken over shows only on a connection to it, and the first may be that of the very transaction
// that begins something: whether it may is asked once there is one, whatever is begun.
func TestWhetherAnythingMayBeBegunIsAskedOnceThereIsAConnection(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	post := w.Post(w.User("author", 1000*sat, 0), "a post")
	user := w.User("payer", 100*sat, 100*sat)
	outside := w.Network.AddReceiver("outside").Issue(simnode.Ask{Amount: 10 * sat})
	actions := w.Count(`SELECT count(*) FROM paid_action`)
	for name, request := range map[string]paidaction.Request{
		"alone": {Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Terms: paidaction.Terms{Method: paidaction.FeeCredit}},
		"together with others": {Kind: community.KindZap, Args: community.ZapArgs{Item: post, Sats: 10},
			Terms: paidaction.Terms{Method: paidaction.FeeCredit}},
		"a withdrawal": {Kind: community.KindWithdraw, Args: community.WithdrawArgs{To: outside.Bolt11, MaxFeeSats: 5}},
	} {
		var doubted atomic.Bool
		e := elsewhere(w, func(c *pgxpool.Config) {
			c.AfterConnect = func(context.Context, *pgx.Conn) error { doubted.Store(true); return nil }
		}, func() error {
			if doubted.Load() {
				return notNow()
			}
			return nil
		})
		request.Caller = enginetest.Caller(user)
		_, err := e.Pay(w.Ctx, request)
		t.Log(name)
		w.WantRefusal(err, paidaction.CodeTryAgain)
		if n := w.Count(`SELECT count(*) FROM paid_action`); n != actions {
			t.Errorf("%d actions were begun", n-actions)
		}
		w.WantBalance(ledger.UserCredits(user), 100*sat)
		w.WantBalance(ledger.UserSats(user), 100*sat)
	}
}

// looks does something once, right after somebody has read an action.
type looks struct {
	what func()
	now  bool
}

func (l *looks) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	l.now = strings.HasPrefix(q.SQL, "-- name: GetAction ")
	return ctx
}

func (l *looks) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	if what := l.what; l.now && what != nil {
		l.what = nil
		what()
	}
}

// Spec 05.16g: whoever cancels a hold invoice stands still once they have read the action. Meanwhile its payment is
// taken, and a database that has forgotten that is restored and accepted: nothing is given back.
func TestWhoStoodStillWhileADatabaseWasRestoredCancelsNothingThatWasTaken(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	pa := donate(w, user, paidaction.Pessimistic)
	restore := pgtest.Backup(t, w.Pool)
	l := &looks{}
	e := elsewhere(w, func(c *pgxpool.Config) { c.ConnConfig.Tracer = l }, nil)
	l.what = func() {
		pay(w, pa, simnode.Payment{})
		if _, err := w.Engine.Drive(w.Ctx, pa.ID); err != nil {
			t.Fatal(err)
		}
		w.WantState(pa.ID, paidaction.Paid)
		restore()
		accept(w)
		e.Pool.Reset() // its connections are those to the database that is gone
	}
	_, err := e.Cancel(w.Ctx, enginetest.Caller(user), pa.ID)
	w.WantRefusal(err, paidaction.CodeTryAgain)
	w.WantState(pa.ID, paidaction.PendingHeld)
	if _, err := w.Engine.Sweep(w.Ctx); err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Paid)
	w.WantBalance(ledger.RewardSats, 10*sat)
	w.WantConserved()
}

// Whoever has seen that an action is paid stands still before performing it, which they cannot. Meanwhile it is performed,
// and its payment taken, and a database that has forgotten that is restored and accepted.
func TestWhoStoodStillWhileADatabaseWasRestoredRefusesNothingThatWasTaken(t *testing.T) {
	t.Parallel()
	fails := true
	w := enginetest.New(t, paidaction.Settings{}, paidaction.Define(broken{price: new(paidaction.Msat(10 * sat)), perform: func(*paidaction.Tx) error {
		if fails {
			return paidaction.Errorf(paidaction.CodeDuplicate, "Not twice.")
		}
		return nil
	}}))
	pa := w.Pay(w.User("payer", 0, 0), "BROKEN", struct{}{}, paidaction.Pessimistic)
	pay(w, pa, simnode.Payment{})
	restore := pgtest.Backup(t, w.Pool)
	e := elsewhere(w, func(*pgxpool.Config) {}, nil)
	w.Node.After(simnode.MethodLookup, func(paidaction.Hash) {
		fails = false
		if _, err := w.Engine.Drive(w.Ctx, pa.ID); err != nil {
			t.Fatal(err)
		}
		w.WantState(pa.ID, paidaction.Paid)
		restore()
		accept(w)
		e.Pool.Reset() // its connections are those to the database that is gone
		fails = true
	})
	if progress, err := e.Advance(w.Ctx, pa.ID); progress != paidaction.Owing || err != nil {
		t.Errorf("progress %d, error %v", progress, err)
	}
	w.WantState(pa.ID, paidaction.PendingHeld)
	fails = false
	if _, err := w.Engine.Sweep(w.Ctx); err != nil {
		t.Fatal(err)
	}
	w.WantState(pa.ID, paidaction.Paid)
	w.WantBalance(ledger.RewardSats, 10*sat)
	w.WantConserved()
}

// A payment that is HELD may have been taken, too: by the settle that the database has forgotten was permitted. At its
// safety height it waits until that is no longer in doubt.
func TestWhatIsHeldIsNotGivenBackWhileTheDatabaseIsInDoubt(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	pa := donate(w, 0, "")
	pay(w, pa, simnode.Payment{})
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Held)
	w.Engine.MayBegin = notNow
	w.Node.Mine(uint32(w.Count(`SELECT deadline_height FROM paid_action WHERE id = $1`, pa.ID)) - w.Node.Height())
	progress, err := w.Engine.Advance(w.Ctx, pa.ID)
	if progress != paidaction.Owing {
		t.Errorf("progress %d", progress)
	}
	w.WantRefusal(err, paidaction.CodeTryAgain)
	w.WantState(pa.ID, paidaction.Held)
	if n := w.Node.Count(simnode.MethodCancel, pa.Invoice.Hash); n != 0 {
		t.Errorf("%d cancels", n)
	}
	w.Engine.MayBegin = func() error { return nil }
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Canceling)
	w.Drain()
	w.WantState(pa.ID, paidaction.Failed)
	w.WantConserved()
}
