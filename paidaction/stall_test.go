package paidaction_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// stalls are jobs whose storing stands still, as a process does that is stopped inside a transaction.
type stalls struct {
	paidaction.Jobs
	first   bool          // before the job's own statement; else after it, right before the commit
	stopped chan struct{} // closed when it stands still
	goOn    chan struct{}
}

func (s *stalls) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	stall := func() error {
		// From here on, and not from the beginning: a busy machine can stand still by itself.
		_, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 300`)
		close(s.stopped)
		<-s.goOn
		return err
	}
	if s.first {
		if err := stall(); err != nil {
			return err
		}
	}
	err := s.Jobs.Insert(ctx, tx, jobs...)
	if !s.first && err == nil {
		err = stall()
	}
	return err
}

// stalling is the world's engine, of which every transaction that stores a job stands still; PostgreSQL bears that for a moment.
func stalling(w *enginetest.World, first bool) (*paidaction.Engine, *stalls) {
	w.Helper()
	config := w.Engine.Config
	s := &stalls{Jobs: config.Jobs, first: first, stopped: make(chan struct{}), goOn: make(chan struct{})}
	config.Jobs = s
	engine, err := paidaction.New(config)
	if err != nil {
		w.Fatal(err)
	}
	return engine, s
}

// A process stands still inside a transaction that holds the payer's row. PostgreSQL ends the transaction, others go on, and the process
// learns that nothing was changed: before the next statement, and before the commit.
func TestATransactionThatStandsStillHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		w := enginetest.New(t, paidaction.Settings{})
		user := w.User("payer", 0, 0)
		item := w.Post(w.User("author", 100*sat, 0), "a post")
		request := paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: item, Sats: 10}, Terms: paidaction.Terms{Method: paidaction.Optimistic}, Key: "key",
			Caller: enginetest.Caller(user)}
		engine, s := stalling(w, first)
		ended := make(chan error, 1)
		go func() {
			_, err := engine.Pay(w.Ctx, request)
			ended <- err
		}()
		<-s.stopped
		// The same payer, whose row is locked, in another process: it waits no longer than PostgreSQL bears the first.
		ctx, cancel := context.WithTimeout(w.Ctx, 20*time.Second)
		defer cancel()
		other := request
		other.Key = "other"
		if pa, err := w.Engine.Pay(ctx, other); err != nil || pa.State != paidaction.Pending {
			t.Errorf("%+v, %v", pa, err)
		}
		close(s.goOn)
		w.WantRefusal(<-ended, paidaction.CodeTryAgain)
		if n := w.Count(`SELECT count(*) FROM paid_action WHERE idempotency_key = 'key'`); n != 0 {
			t.Errorf("%d actions of a transaction that PostgreSQL ended", n)
		}
		if pa, err := w.Engine.Pay(w.Ctx, request); err != nil || pa.State != paidaction.Pending {
			t.Errorf("again: %+v, %v", pa, err)
		}
	}
}

// The same at the step that performs what a held payment is for: the payment is neither taken nor given back, and the next worker
// takes the step.
func TestAStepThatStandsStillLosesNoPayment(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		w := enginetest.New(t, paidaction.Settings{})
		pa := donate(w, 0, "")
		if err := w.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
		engine, s := stalling(w, first)
		ended := make(chan error, 1)
		go func() {
			_, err := engine.Advance(w.Ctx, pa.ID)
			ended <- err
		}()
		<-s.stopped
		// It waits for the row's lock, which is free once PostgreSQL has ended the first.
		if p := w.Advance(pa.ID); p != paidaction.Moved {
			t.Errorf("progress %d", p)
		}
		close(s.goOn)
		if err := <-ended; err == nil {
			t.Error("a transaction that PostgreSQL ended was taken for a step")
		}
		if len(w.Faults.Errors) != 0 {
			t.Errorf("faults %v", w.Faults.Errors)
		}
		w.Drain()
		w.WantState(pa.ID, paidaction.Paid)
		w.WantBalance(ledger.RewardSats, 10*sat)
		w.WantConserved()
	}
}
