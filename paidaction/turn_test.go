package paidaction_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/turns"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// watched tells when a request has taken its place.
type watched struct {
	paidaction.Turns
	queued chan struct{}
}

func (t watched) Queue(payer int64) paidaction.Turn {
	turn := t.Turns.Queue(payer)
	t.queued <- struct{}{}
	return turn
}

func inMemory() (lock.Store, error) { return lock.NewMemory(0), nil }

func inDatabase(dsn string) func() (lock.Store, error) {
	return func() (lock.Store, error) { return postgres.Open(context.Background(), postgres.Options{DSN: dsn}) }
}

// ordered is an engine on the world's database whose requests have turns; taken gets a value for each place.
func ordered(w *enginetest.World, store func() (lock.Store, error), settings lock.Settings) (e *paidaction.Engine, taken chan struct{}) {
	w.Helper()
	locker := locktest.Open(w, locktest.Strategy{Open: store}, settings)
	taken = make(chan struct{}, 100)
	config := w.Engine.Config
	config.Turns = watched{turns.New(locker), taken}
	e, err := paidaction.New(config)
	if err != nil {
		w.Fatal(err)
	}
	return e, taken
}

// donation is the request for a donation, by invoice unless the balance suffices.
func donation(user, sats int64, key string) paidaction.Request {
	return paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: sats}, Key: key, Caller: enginetest.Caller(user)}
}

type answer struct {
	pa  *paidaction.PaidAction
	err error
}

func start(w *enginetest.World, e *paidaction.Engine, r paidaction.Request) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		pa, err := e.Pay(w.Ctx, r)
		done <- answer{pa, err}
	}()
	return done
}

// heldUp keeps the next invoice at the node until goOn is closed; arrived is closed when it has come there. Invoices after it
// take the node a different time each: that brings those out of order which do not wait for each other, and no signal says that all do.
func heldUp(w *enginetest.World) (arrived, goOn chan struct{}) {
	arrived, goOn = make(chan struct{}), make(chan struct{})
	var slow func(paidaction.Hash)
	slow = func(paidaction.Hash) {
		w.Node.Before(simnode.MethodOpen, slow)
		timer := time.NewTimer(rand.N(5 * time.Millisecond))
		defer timer.Stop()
		<-timer.C
	}
	w.Node.Before(simnode.MethodOpen, func(paidaction.Hash) {
		close(arrived)
		<-goOn
		w.Node.Before(simnode.MethodOpen, slow)
	})
	return arrived, goOn
}

// wantInOrder fails the test if the answers are not invoices in this order, in the database and at the node.
func wantInOrder(w *enginetest.World, answers []<-chan answer) {
	w.Helper()
	var hashes []paidaction.Hash
	last := int64(0)
	for i, from := range answers {
		a := locktest.Wait(w, fmt.Sprint("the answer to request ", i), from)
		if a.err != nil || a.pa.Invoice == nil || a.pa.Invoice.Bolt11 == "" {
			w.Fatalf("request %d: %+v, %v", i, a.pa, a.err)
		}
		if a.pa.ID <= last {
			w.Errorf("request %d got action %d after %d", i, a.pa.ID, last)
		}
		last = a.pa.ID
		hashes = append(hashes, a.pa.Invoice.Hash)
	}
	var opened []paidaction.Hash
	for _, c := range w.Node.Calls() {
		if c.Method == simnode.MethodOpen && slices.Contains(hashes, c.Hash) {
			opened = append(opened, c.Hash)
		}
	}
	if !slices.Equal(opened, hashes) {
		w.Errorf("the node was asked in another order: %v, want %v", opened, hashes)
	}
}

// spec 04 §4.1, 05.32: one payer's invoices come in the order of the requests. Nobody else waits, nor does what they pay from
// their balance.
func TestInvoicesOfOnePayerComeInTheOrderOfTheRequests(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	e, taken := ordered(w, inMemory, lock.Settings{})
	user, other := w.User("payer", 5*sat, 0), w.User("other", 0, 0)
	arrived, goOn := heldUp(w)
	var answers []<-chan answer
	for range 10 {
		answers = append(answers, start(w, e, donation(user, 10, "")))
		<-taken
	}
	<-arrived
	for name, r := range map[string]paidaction.Request{
		"another payer": donation(other, 10, ""), "an anonymous payer": donation(0, 10, ""), "a balance": donation(user, 2, ""),
	} {
		a := locktest.Wait(t, name, start(w, e, r))
		if a.err != nil || (a.pa.State == paidaction.Paid) != (name == "a balance") {
			t.Errorf("%s: %+v, %v", name, a.pa, a.err)
		}
	}
	if n := w.Count(`SELECT count(*) FROM paid_action WHERE payer_id = $1 AND method = 'PESSIMISTIC'`, user); n != 1 {
		t.Errorf("%d requests were begun before the first had its invoice", n)
	}
	close(goOn)
	wantInOrder(w, answers)
	w.WantBalance(ledger.UserCredits(user), 3*sat)
}

// spec 05.32: what a request does before it is known that it needs an invoice does not cost it its place.
func TestThePlaceIsTakenBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	e, taken := ordered(w, inMemory, lock.Settings{})
	user := w.User("payer", 5*sat, 0)
	busy, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Rollback(context.Background()) }()
	if _, err := busy.Exec(w.Ctx, `SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE`, ledger.UserCredits(user)); err != nil {
		t.Fatal(err)
	}
	first := start(w, e, donation(user, 10, "")) // it looks for the balance first, and has to wait for the account
	locktest.Wait(t, "the first one's place", taken)
	byInvoice := donation(user, 10, "")
	byInvoice.Method = paidaction.Pessimistic
	second := start(w, e, byInvoice)
	locktest.Wait(t, "the second one's place", taken)
	if err := busy.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	wantInOrder(w, []<-chan answer{first, second})
}

// Nor does the look at the attempt that is to be tried again.
func TestARetryTakesItsPlaceBeforeItLooks(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	e, taken := ordered(w, inMemory, lock.Settings{})
	user := w.User("payer", 0, 0)
	failed, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(user), donate(w, user, "").ID)
	if err != nil || failed.State != paidaction.Failed {
		t.Fatalf("%+v, %v", failed, err)
	}
	busy, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Rollback(context.Background()) }()
	if _, err := busy.Exec(w.Ctx, `LOCK TABLE invoice`); err != nil {
		t.Fatal(err)
	}
	first := make(chan answer, 1)
	go func() {
		pa, err := e.Retry(w.Ctx, enginetest.Caller(user), failed.ID, "", paidaction.Terms{}, nil)
		first <- answer{pa, err}
	}()
	locktest.Wait(t, "the place of the retry", taken)
	second := start(w, e, donation(user, 10, ""))
	locktest.Wait(t, "the second one's place", taken)
	if err := busy.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	wantInOrder(w, []<-chan answer{first, second})
}

// The same where the requests come to two processes.
func TestTurnsReachOverProcesses(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	store := inDatabase(w.Pool.Config().ConnString())
	first, _ := ordered(w, store, lock.Settings{})
	second, _ := ordered(w, store, lock.Settings{})
	arrived, goOn := heldUp(w)
	answers := []<-chan answer{start(w, first, donation(user, 10, ""))}
	<-arrived
	for i := range int64(10) {
		e := first
		if i%2 == 0 {
			e = second
		}
		answers = append(answers, start(w, e, donation(user, 10, "")))
		locktest.Eventually(t, "the request waits", func() bool {
			held, err := postgres.List(w.Ctx, w.Pool, 10, 0)
			if err != nil || len(held) != 1 || held[0].Key != turns.Key(user) {
				t.Fatalf("%+v, %v", held, err)
			}
			return held[0].Waiting == i+1
		})
	}
	close(goOn)
	wantInOrder(w, answers)
}

// spec 05.12: the anonymous are not one person.
func TestAnonymousPayersWaitForNobody(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	e, taken := ordered(w, inMemory, lock.Settings{})
	arrived, goOn := heldUp(w)
	slow := start(w, e, donation(0, 10, ""))
	<-arrived
	if a := locktest.Wait(t, "another anonymous payer", start(w, e, donation(0, 10, ""))); a.err != nil {
		t.Error(a.err)
	}
	close(goOn)
	if a := <-slow; a.err != nil || len(taken) != 0 {
		t.Errorf("%v, %d places taken", a.err, len(taken))
	}
}

// A request that takes too long loses its turn, and nothing else: the next goes on, and both have their invoices.
func TestALostTurnStopsNothing(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	e, _ := ordered(w, inMemory, lock.Settings{Options: lock.Options{MaxHold: 100 * time.Millisecond}})
	user := w.User("payer", 0, 0)
	arrived, goOn := heldUp(w)
	slow := start(w, e, donation(user, 10, ""))
	<-arrived
	if a := locktest.Wait(t, "the next", start(w, e, donation(user, 10, ""))); a.err != nil || a.pa.Invoice.Bolt11 == "" {
		t.Errorf("%+v, %v", a.pa, a.err)
	}
	close(goOn)
	if a := <-slow; a.err != nil || a.pa.Invoice.Bolt11 == "" {
		t.Errorf("%+v, %v", a.pa, a.err)
	}
}

// spec 04 §4.1, 05.33: what goes on while the lock's store is away, and what does not.
func TestWithoutTheStoreOfTurns(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	registry := prometheus.NewRegistry()
	e, _ := ordered(w, inDatabase("postgres://127.0.0.1:1/none"), lock.Settings{Metrics: lock.NewMetrics(registry)})
	user := w.User("payer", 5*sat, 0)
	failed := donate(w, user, "")
	if _, err := e.Cancel(w.Ctx, enginetest.Caller(user), failed.ID); err != nil {
		t.Errorf("cancel: %v", err)
	}
	refused := func(what string, err error) {
		t.Helper()
		w.WantRefusal(err, paidaction.CodeTryAgain)
		if r, ok := paidaction.AsRefusal(err); ok && (strings.Contains(r.Message, "lock") || strings.Contains(r.Message, "127.0.0.1")) {
			t.Errorf("%s says %q", what, r.Message)
		}
	}
	_, err := e.Retry(w.Ctx, enginetest.Caller(user), failed.ID, "", paidaction.Terms{}, nil)
	refused("a retry", err)
	_, err = e.Retry(w.Ctx, enginetest.Caller(user), failed.ID, "a key", paidaction.Terms{}, nil)
	refused("a retry under a key", err)
	w.WantState(failed.ID, paidaction.Failed)
	_, err = e.Pay(w.Ctx, donation(user, 10, ""))
	refused("a request without a key", err)
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != 1 {
		t.Errorf("%d actions, want the old one", n)
	}
	if n := locktest.Metric(t, registry, "holdfast_lock_errors_total"); n == 0 {
		t.Error("the failures were not counted")
	}

	for _, key := range []string{"a", "b", "a"} {
		pa, err := e.Pay(w.Ctx, donation(user, 10, key))
		if err != nil || pa.Invoice.Bolt11 == "" {
			t.Errorf("with a key: %+v, %v", pa, err)
		}
	}
	if n := w.Count(`SELECT count(*) FROM paid_action WHERE state = 'PENDING_HELD'`); n != 2 {
		t.Errorf("%d open actions for two keys", n)
	}
	if pa, err := e.Pay(w.Ctx, donation(user, 5, "")); err != nil || pa.State != paidaction.Paid {
		t.Errorf("from a balance: %+v, %v", pa, err)
	}
	if _, err := e.Pay(w.Ctx, donation(0, 5, "")); err != nil {
		t.Errorf("an anonymous payer: %v", err)
	}
}

// Money that goes back, or is taken, waits for no turn.
func TestCancellingAndSettlingWaitForNoTurn(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	store := inDatabase(w.Pool.Config().ConnString())
	e, _ := ordered(w, store, lock.Settings{Options: lock.Options{MaxWait: 3 * time.Second}})
	w.Engine = e
	user := w.User("payer", 0, 0)
	paid, open := donate(w, user, ""), donate(w, user, "")
	somebody := locktest.Open(t, locktest.Strategy{Open: store}, lock.Settings{})
	defer locktest.Release(t, locktest.Acquire(t, somebody, turns.Key(user), lock.Options{}))

	if pa, err := e.Cancel(w.Ctx, enginetest.Caller(user), open.ID); err != nil || pa.State != paidaction.Failed {
		t.Errorf("cancel: %+v, %v", pa, err)
	}
	pay(w, paid, simnode.Payment{})
	w.Advance(paid.ID)
	w.Drain()
	w.WantState(paid.ID, paidaction.Paid)

	for what, ask := range map[string]func() (*paidaction.PaidAction, error){
		"an invoice with a key": func() (*paidaction.PaidAction, error) { return e.Pay(w.Ctx, donation(user, 10, "key")) },
		"a retry": func() (*paidaction.PaidAction, error) {
			return e.Retry(w.Ctx, enginetest.Caller(user), open.ID, "", paidaction.Terms{}, nil)
		},
	} {
		if _, err := ask(); err == nil {
			t.Errorf("%s did not wait for its turn", what)
		} else {
			w.WantRefusal(err, paidaction.CodeTryAgain)
		}
	}
	w.WantConserved()
}

// ending is the context of a request whose time is over once it waits for its turn.
type ending struct {
	context.Context
	over chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.over }

func (e ending) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// hurried are turns of requests that have little time.
type hurried struct {
	paidaction.Turns
	over func()
}

func (h hurried) Queue(payer int64) paidaction.Turn { return hurry{h.Turns.Queue(payer), h.over} }

type hurry struct {
	paidaction.Turn
	over func()
}

func (h hurry) Wait(ctx context.Context, open bool) error {
	h.over()
	return h.Turn.Wait(ctx, open)
}

// A request whose time is over before its turn has come is told so, with a key as without one: nothing was begun. If
// something was begun under the key before, it is told that, as ever.
func TestARequestWhoseTimeIsOverBeforeItsTurn(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 0, 0)
	byInvoice := func(key string) paidaction.Request {
		r := donation(user, 10, key)
		r.Method = paidaction.Pessimistic // nothing but its turn comes before what is done under the key
		return r
	}
	before, err := w.Engine.Pay(w.Ctx, byInvoice("used"))
	if err != nil {
		t.Fatal(err)
	}
	e, _ := ordered(w, func() (lock.Store, error) {
		return locktest.Answering{Memory: lock.NewMemory(0), State: lock.Queued}, nil
	}, lock.Settings{})
	never := e.Turns
	ask := func(key string) (*paidaction.PaidAction, error) {
		ctx := ending{w.Ctx, make(chan struct{})}
		e.Turns = hurried{never, func() { close(ctx.over) }}
		return e.Pay(ctx, byInvoice(key))
	}
	for _, key := range []string{"", "new"} {
		_, err := ask(key)
		if r, ok := paidaction.AsRefusal(err); !ok || r.Code != paidaction.CodeTryAgain || !strings.Contains(r.Message, "earlier requests") {
			t.Errorf("with the key %q: %v", key, err)
		}
	}
	if n := w.Count(`SELECT count(*) FROM paid_action`); n != 1 {
		t.Errorf("%d actions, want the one that was asked for before", n)
	}
	if again, err := ask("used"); err != nil || again.ID != before.ID || again.Invoice.Bolt11 != before.Invoice.Bolt11 {
		t.Errorf("under a key that was used: %+v, %v", again, err)
	}
}
