package paidaction_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// withConnections has the engine do with so many database connections.
func withConnections(w *enginetest.World, most int32) {
	w.Helper()
	config := w.Pool.Config()
	config.MaxConns = most
	pool, err := pgxpool.NewWithConfig(w.Ctx, config)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(pool.Close)
	w.Engine.Pool = pool
}

// However many anonymous payers behind one address ask at once, one of them has a database connection to begin with:
// others pay meanwhile, and so do the anonymous behind other addresses.
func TestAnAddressTakesOneConnection(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	withConnections(w, 4)
	from := func(address string) paidaction.Request {
		r := donation(0, 10, "")
		r.Caller.Client = address
		return r
	}
	user := w.User("payer", 100*sat, 0)

	slow, err := w.Pool.Begin(w.Ctx) // another process begins for the same address
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(w.Ctx, `SELECT pg_advisory_xact_lock(hashtextextended(encode($1, 'hex'), 7277))`, w.Engine.ClientHash("203.0.113.7")); err != nil {
		t.Fatal(err)
	}
	var answers []<-chan answer
	for range 20 {
		answers = append(answers, start(w, w.Engine, from("203.0.113.7")))
	}
	leaving, leave := context.WithCancel(w.Ctx)
	left := make(chan error)
	go func() {
		_, err := w.Engine.Pay(leaving, from("203.0.113.7"))
		left <- err
	}()
	w.AwaitBlocked(1)
	for range 3 {
		for who, r := range map[string]paidaction.Request{"somebody who is known": donation(user, 10, ""), "an anonymous payer elsewhere": from("203.0.113.8")} {
			if a := locktest.Wait(t, who, start(w, w.Engine, r)); a.err != nil {
				t.Errorf("%s: %v", who, a.err)
			}
		}
	}
	if n := w.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); n != 1 {
		t.Errorf("%d connections wait for one address", n)
	}
	leave()
	if err := locktest.Wait(t, "whoever leaves", left); err == nil {
		t.Error("whoever leaves the line is served")
	}
	if err := slow.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	for _, answer := range answers {
		if a := locktest.Wait(t, "the line", answer); a.err != nil || a.pa.Invoice.Bolt11 == "" {
			t.Errorf("%+v, %v", a.pa, a.err)
		}
	}
}

// However much one user pays for at once from their balance, two of it have a database connection: others pay
// meanwhile.
func TestAPayerTakesTwoConnections(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	withConnections(w, 4)
	busy, other := w.User("busy", 1000*sat, 0), w.User("other", 1000*sat, 0)
	slow, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(w.Ctx, `SELECT FROM account WHERE id / 16 = $1 FOR UPDATE`, busy); err != nil {
		t.Fatal(err)
	}
	var answers []<-chan answer
	for range 20 {
		answers = append(answers, start(w, w.Engine, donation(busy, 10, "")))
	}
	w.AwaitBlocked(2)
	for range 3 {
		if a := locktest.Wait(t, "somebody else", start(w, w.Engine, donation(other, 10, ""))); a.err != nil || a.pa.State != paidaction.Paid {
			t.Errorf("%+v, %v", a.pa, a.err)
		}
	}
	if n := w.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); n != 2 {
		t.Errorf("%d connections wait for one payer", n)
	}
	if err := slow.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	for _, answer := range answers {
		if a := locktest.Wait(t, "the line", answer); a.err != nil || a.pa.State != paidaction.Paid {
			t.Errorf("%+v, %v", a.pa, a.err)
		}
	}
}

// Zaps are paid in groups, which have connections of their own. What a group that failed leaves to be done one by one has
// no more than all else that its payer pays for.
func TestZapsOfAFailedGroupTakeTwoConnections(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	withConnections(w, 4)
	item := w.Post(w.User("author", 1000*sat, 0), "popular")
	busy, other := w.User("busy", 1000*sat, 0), w.User("other", 1000*sat, 0)
	var requests []paidaction.Request
	for i := range paidaction.GroupsAtOnce { // these hold the places of groups
		requests = append(requests, zapBy(w.User(fmt.Sprint("first", i), 100*sat, 0), item, 10, ""))
	}
	for range 10 {
		requests = append(requests, zapBy(busy, item, 10, ""))
	}
	open, answers := gathered(w, requests)
	slow, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(w.Ctx, `SELECT FROM account WHERE id / 16 = $1 FOR UPDATE`, busy); err != nil {
		t.Fatal(err)
	}
	open()
	for w.Count(`SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))`, slow.Conn().PgConn().PID()) == 0 {
		runtime.Gosched() // until the group waits for the payer's account
	}
	w.AwaitBlocked(2)
	for range 3 {
		if a := locktest.Wait(t, "somebody else", start(w, w.Engine, donation(other, 10, ""))); a.err != nil || a.pa.State != paidaction.Paid {
			t.Errorf("%+v, %v", a.pa, a.err)
		}
	}
	if n := w.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); n != 2 {
		t.Errorf("%d connections wait for one payer", n)
	}
	if err := slow.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	for _, err := range answers() {
		if err != nil {
			t.Error(err)
		}
	}
	w.WantBalance(ledger.UserCredits(busy), 900*sat)
}

// However many ask for what somebody else pays, as everybody does who redeems an invite, the payer waits for none of them:
// neither to pay from the balance nor for an invoice.
func TestWhoAsksOnBehalfOfAPayerHoldsUpNone(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inviter := w.User("inviter", 1000*sat, 0)
	invite, err := community.CreateInvite(w.Ctx, db.New(w.Pool), inviter, 1, 100, w.Clock.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := ordered(w, inMemory, lock.Settings{})
	slow, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(w.Ctx, `SELECT FROM invite FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var gifts []<-chan answer
	for i := range 20 {
		newcomer := w.User(fmt.Sprintf("newcomer%d", i), 0, 0)
		gifts = append(gifts, start(w, e, paidaction.Request{Kind: community.KindInviteGift, Args: community.InviteGiftArgs{Code: invite.Code, User: newcomer},
			Terms: paidaction.Terms{Method: paidaction.FeeCredit}, Caller: enginetest.Caller(inviter), OnBehalf: true}))
	}
	w.AwaitBlocked(2)
	for _, method := range []paidaction.Method{paidaction.FeeCredit, paidaction.Pessimistic} {
		own := donation(inviter, 10, "")
		own.Method = method
		if a := locktest.Wait(t, "the payer", start(w, e, own)); a.err != nil {
			t.Errorf("%s: %v", method, a.err)
		}
	}
	if n := w.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); n != 2 {
		t.Errorf("%d connections wait for one invite", n)
	}
	if err := slow.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	for _, gift := range gifts {
		if a := locktest.Wait(t, "a newcomer", gift); a.err != nil || a.pa.State != paidaction.Paid {
			t.Errorf("%+v, %v", a.pa, a.err)
		}
	}
}
