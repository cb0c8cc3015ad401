package paidaction_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// keys is how many keys TestOneKeyOfManyClients tries; docs/known-failures.md says what came of 10,000 and what a key costs.
var keys = flag.Int("keys", 300, "keys that 32 clients use at once, one after the other")

// clients are those who send the same request at once, each on a connection of its own.
const clients = 32

// keyed is the request of one key: from credits, from sats, for nothing, or by invoice.
func keyed(i int, user, post int64) (r, other paidaction.Request) {
	r = paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Key: fmt.Sprint("key ", i), Caller: enginetest.Caller(user)}
	other = r
	other.Args = community.DonateArgs{Sats: 11}
	switch i % 4 {
	case 0:
		r.Method = paidaction.FeeCredit
	case 1:
		r.Method = paidaction.RewardSats
	case 2:
		r.Method = paidaction.Pessimistic
	default:
		r.Kind, r.Args, r.Method = community.KindItemUpdate, community.ItemUpdateArgs{Item: post, Body: new(fmt.Sprint("text ", i))}, ""
		other.Kind, other.Args = r.Kind, community.ItemUpdateArgs{Item: post, Body: new("another text")}
	}
	other.Method = r.Method
	return r, other
}

// Who finds only under their locks that their key was used waits for nobody who changes that action, as its next step
// does: that one may wait for the same locks.
func TestAKeyThatWasUsedMeanwhileWaitsForNobody(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 1000*sat, 0)
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO upload (id, token, client_hash, bytes, content_type, fee_msat, created_at, unclaimed_at)
		VALUES (1, repeat('a', 22), '\x00', 1, 'image/png', 0, now(), now())`); err != nil {
		t.Fatal(err)
	}
	begin := func() pgx.Tx {
		tx, err := w.Pool.Begin(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	for _, c := range []struct {
		of     string
		caller paidaction.Caller
		method paidaction.Method
		lock   string // what the price of the later post locks
		post   community.ItemCreateArgs
	}{
		{"a known payer", enginetest.Caller(user), paidaction.FeeCredit, `SELECT FROM usr WHERE name = 'payer' FOR NO KEY UPDATE`,
			community.ItemCreateArgs{Title: "late"}},
		{"the anonymous", paidaction.Caller{Client: "192.0.2.1"}, paidaction.Pessimistic, `SELECT FROM upload WHERE id = 1 FOR NO KEY UPDATE`,
			community.ItemCreateArgs{Title: "late", Uploads: []int64{1}}},
	} {
		gate, paying := begin(), begin()
		if _, err := gate.Exec(w.Ctx, c.lock); err != nil {
			t.Fatal(err)
		}
		posted, paid := make(chan error, 1), make(chan error, 1)
		request := paidaction.Request{Terms: paidaction.Terms{Method: c.method}, Key: strings.Repeat("key", 8), Caller: c.caller}
		go func() {
			r := request
			r.Kind, r.Args = community.KindItemCreate, c.post
			_, err := w.Engine.Pay(w.Ctx, r)
			posted <- err
		}()
		w.AwaitBlocked(1)
		request.Kind, request.Args = community.KindDonate, community.DonateArgs{Sats: 10}
		if c.caller.User == nil {
			request.Caller.Client = "192.0.2.2" // one client's requests begin one after the other
		}
		first, err := w.Engine.Pay(w.Ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := paying.Exec(w.Ctx, `UPDATE paid_action SET changed_at = changed_at WHERE id = $1`, first.ID); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := paying.Exec(w.Ctx, c.lock)
			paid <- errors.Join(err, paying.Commit(w.Ctx))
		}()
		w.AwaitBlocked(2)
		if err := gate.Rollback(w.Ctx); err != nil {
			t.Fatal(err)
		}
		w.WantRefusal(<-posted, paidaction.CodeIdempotencyConflict)
		if err := <-paid; err != nil {
			t.Errorf("the step of %s: %v", c.of, err)
		}
	}
}

// spec 01 §1.8.8: the same key from 32 clients at once is one action, one debit, one invoice, one effect; with other arguments it is
// refused.
func TestOneKeyOfManyClients(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	settings := w.Pool.Config()
	settings.MaxConns = clients
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	config := w.Engine.Config
	config.Pool = pool
	engine, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	const each = 100 // keys of one payer, so that nobody has too many open invoices
	type payer struct{ id, post int64 }
	var payers []payer
	begun := time.Now()
	for i := range *keys {
		if i%each == 0 {
			id := w.User(fmt.Sprint("payer_", i), 1000*sat, 1000*sat)
			payers = append(payers, payer{id, w.Post(id, fmt.Sprint("post ", i))})
		}
		p := payers[i/each]
		r, other := keyed(i, p.id, p.post)
		begin := make(chan struct{})
		var all sync.WaitGroup
		got := make([]int64, clients)
		for c := range clients {
			all.Go(func() {
				<-begin
				pa, err := engine.Pay(w.Ctx, r)
				if err != nil {
					t.Errorf("key %d: %v", i, err)
					return
				}
				got[c] = pa.ID
			})
		}
		close(begin)
		all.Wait()
		for _, id := range got {
			if id != got[0] || id == 0 {
				t.Fatalf("key %d: actions %v", i, got)
			}
		}
		_, err := engine.Pay(w.Ctx, other)
		w.WantRefusal(err, paidaction.CodeIdempotencyConflict)
	}
	t.Logf("%d keys, each of %d clients at once and of one with other arguments: %v", *keys, clients, time.Since(begun))
	wantOncePerKey(w, *keys)
	for n, p := range payers {
		made := make([]int64, 4)
		for i := n * each; i < min((n+1)*each, *keys); i++ {
			made[i%4]++
		}
		w.WantBalance(ledger.UserCredits(p.id), (1000-1)*sat-made[0]*10*sat) // the post has cost one
		w.WantBalance(ledger.UserSats(p.id), 1000*sat-made[1]*10*sat)
	}
	w.WantConserved()
	if w.Faults.Conflicts != 0 || len(w.Faults.Errors) != 0 {
		t.Errorf("%d conflicts, faults %v", w.Faults.Conflicts, w.Faults.Errors)
	}
}

// wantOncePerKey counts what has come of the keys, in the database and at the node.
func wantOncePerKey(w *enginetest.World, keys int) {
	w.Helper()
	made := [4]int64{}
	for i := range keys {
		made[i%4]++
	}
	for query, want := range map[string]int64{
		`SELECT count(*) FROM paid_action WHERE idempotency_key IS NOT NULL`:                                                    int64(keys),
		`SELECT count(DISTINCT idempotency_key) FROM paid_action`:                                                               int64(keys),
		`SELECT count(*) FROM action_history WHERE action_id IN (SELECT id FROM paid_action WHERE idempotency_key IS NOT NULL)`: int64(keys),
		`SELECT count(*) FROM paid_action WHERE idempotency_key IS NOT NULL AND state = 'PAID'`:                                 made[0] + made[1] + made[3],
		`SELECT count(*) FROM donation WHERE state = 'PAID'`:                                                                    made[0] + made[1],
		`SELECT count(*) FROM posting WHERE action_id IN (SELECT id FROM paid_action WHERE idempotency_key IS NOT NULL)`:        made[0] + made[1],
		`SELECT count(*) FROM invoice`: made[2],
		`SELECT count(*) FROM test_job j JOIN paid_action a ON a.id = j.action WHERE a.idempotency_key IS NOT NULL AND j.kind = 'advance'`: 2 * made[2],
	} {
		if n := w.Count(query); n != want {
			w.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	if n := len(w.Node.Invoices()); int64(n) != made[2] {
		w.Errorf("the node has %d invoices for %d keys", n, made[2])
	}
	w.WantBalance(ledger.RewardCredits, made[0]*10*sat+w.Count(`SELECT count(*) FROM paid_action WHERE kind = 'ITEM_CREATE'`)*sat)
	w.WantBalance(ledger.RewardSats, made[1]*10*sat)
}

// What was done under a key is the answer also once its arguments are no longer accepted, as after a restart with a lower
// bound: whoever did not get the first answer must not be told that nothing was done.
func TestAKeyTellsWhatWasDoneUnderOtherBounds(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	post := w.Post(w.User("author", 1000*sat, 0), "a post")
	reader := w.User("reader", 10_000*sat, 0)
	r := paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: post, Sats: 5000}, Terms: paidaction.Terms{Method: paidaction.FeeCredit}, Key: "a key", Caller: enginetest.Caller(reader)}
	done, err := w.Engine.Pay(w.Ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	bounds := community.DefaultSettings()
	bounds.MaxZap = 1000 * sat
	config := w.Engine.Config
	config.Actions = community.Actions(bounds)
	restarted, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	again, err := restarted.Pay(w.Ctx, r)
	if err != nil || again.ID != done.ID || again.State != paidaction.Paid {
		t.Errorf("%+v, %v", again, err)
	}
	other := r
	other.Key = "another key"
	_, err = restarted.Pay(w.Ctx, other)
	w.WantRefusal(err, paidaction.CodeInvalidAmount)
	other.Key, other.Args = "a key", community.ZapArgs{Item: post, Sats: 6000}
	_, err = restarted.Pay(w.Ctx, other)
	w.WantRefusal(err, paidaction.CodeIdempotencyConflict)
}
