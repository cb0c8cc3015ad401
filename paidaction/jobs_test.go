package paidaction_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// forgetful are jobs that cannot be stored while they are away.
type forgetful struct {
	paidaction.Jobs
	away atomic.Bool
}

var errNoJobs = errors.New("no jobs today")

func (f *forgetful) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	if len(jobs) > 0 && f.away.Load() {
		return errNoJobs
	}
	return f.Jobs.Insert(ctx, tx, jobs...)
}

// spec 05.26, 05.29: what follows a step is stored with it. Where the job cannot be stored, nothing has happened: neither the state nor
// the money has moved, and the next one to look finds everything as it was.
func TestAStepAndItsJobsAreOne(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	config := w.Engine.Config
	jobs := &forgetful{Jobs: config.Jobs}
	config.Jobs = jobs
	engine, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	user, author := w.User("payer", 100*sat, 0), w.User("author", 100*sat, 0)
	item := w.Post(author, "a post")
	w.Drain()
	trace := func() [4]int64 {
		return [4]int64{w.Count(`SELECT count(*) FROM paid_action`), w.Count(`SELECT count(*) FROM action_history`),
			w.Count(`SELECT count(*) FROM posting`), w.Count(`SELECT count(*) FROM test_job`)}
	}
	// without has something tried without the queue, and then with it.
	without := func(what string, do func() error) {
		t.Helper()
		before := trace()
		jobs.away.Store(true)
		if err := do(); err == nil {
			t.Errorf("%s: no error", what)
		}
		jobs.away.Store(false)
		if now := trace(); now != before {
			t.Errorf("%s without its jobs: actions, steps, postings and jobs %v, before %v", what, now, before)
		}
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	var pa *paidaction.PaidAction
	ask := func(method paidaction.Method) func() error {
		return func() (err error) {
			pa, err = engine.Pay(w.Ctx, paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: item, Sats: 10},
				Terms: paidaction.Terms{Method: method}, Caller: enginetest.Caller(user)})
			return err
		}
	}
	advance := func() error { _, err := engine.Advance(w.Ctx, pa.ID); return err }
	cancel := func() error { _, err := engine.Cancel(w.Ctx, enginetest.Caller(user), pa.ID); return err }

	without("a payment from the balance, and the notification", ask(paidaction.FeeCredit))
	without("an optimistic invoice and its deadline", ask(paidaction.Optimistic))
	pay(w, pa, simnode.Payment{})
	without("a payment by invoice, and the notification", advance)
	w.WantState(pa.ID, paidaction.Paid)
	without("a hold invoice and its deadline", ask(paidaction.Pessimistic))
	pay(w, pa, simnode.Payment{})
	without("a held payment and its settling", advance)
	w.WantState(pa.ID, paidaction.Held)
	without("a settled payment, and the notification", advance)
	w.WantState(pa.ID, paidaction.Paid)
	without("another invoice", ask(paidaction.Optimistic))
	without("a cancelling and the call that is owed", cancel)
	w.WantState(pa.ID, paidaction.Failed)

	w.Drain()
	if n := w.Count(`SELECT count(*) FROM notification WHERE kind = 'ZAP' AND user_id = $1`, author); n != 3 {
		t.Errorf("the author was told of %d zaps, want 3", n)
	}
	w.WantBalance(ledger.UserCredits(user), 90*sat)
	w.WantConserved()
}
