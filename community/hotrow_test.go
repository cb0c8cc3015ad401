package community_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// slowSats is what those pay whose transactions stand still at their commit, with all their locks, until they are let go.
const slowSats = 13

// standStill makes transactions that have paid slowSats wait at their commit. waiting is how many do; letGo may be called twice.
func standStill(w *enginetest.World) (waiting func() int64, letGo func()) {
	w.Helper()
	gate, err := w.Pool.Acquire(w.Ctx)
	if err == nil {
		_, err = gate.Exec(w.Ctx, `CREATE FUNCTION test_gate() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				IF NEW.to_state = 'PAID' AND EXISTS (SELECT FROM paid_action WHERE id = NEW.action_id AND cost_msat = 13000) THEN
					PERFORM pg_advisory_xact_lock_shared(7);
				END IF;
				RETURN NULL;
			END $$;
			CREATE CONSTRAINT TRIGGER test_gate AFTER INSERT ON action_history DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW EXECUTE FUNCTION test_gate();
			SELECT pg_advisory_lock(7)`)
	}
	if err != nil {
		w.Fatal(err)
	}
	letGo = sync.OnceFunc(func() {
		if _, err := gate.Exec(context.WithoutCancel(w.Ctx), `SELECT pg_advisory_unlock(7)`); err != nil {
			w.Error(err)
		}
		gate.Release()
	})
	return func() int64 {
		return w.Count(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	}, letGo
}

// manyConnections is the world's engine on a pool of so many connections.
func manyConnections(w *enginetest.World, n int32) *paidaction.Engine {
	w.Helper()
	settings := w.Pool.Config()
	settings.MaxConns = n
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(pool.Close)
	config := w.Engine.Config
	config.Pool = pool
	engine, err := paidaction.New(config)
	if err != nil {
		w.Fatal(err)
	}
	return engine
}

// spec 05.20: what many pay to is no row that they wait for. Payments that have done everything and are not committed, to a popular post, its
// author, a friend, the founder, the rewards and from the anonymous, hold up nobody else's; and the author spends meanwhile.
func TestNoRowIsHot(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	founder, author, friend := w.User("founder", 0, 0), w.User("author", 1000*sat, 0), w.User("friend", 0, 0)
	territory(w, "bitcoin", founder)
	post := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: "popular", Territory: "bitcoin",
		Forwards: []community.Forward{{User: friend, Pct: 50}}}, paidaction.FeeCredit))
	comment := w.Item(w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Parent: post, Body: "so is this"}, paidaction.FeeCredit))
	before := w.Balance(ledger.UserCredits(friend))
	waiting, letGo := standStill(w)

	// everything is one payment of each kind that meets the others somewhere; each is somebody else's.
	everything := func(ctx context.Context, e *paidaction.Engine, who string, sats int64) (payments []func() error) {
		for i, target := range []struct {
			kind string
			args any
		}{
			{community.KindZap, community.ZapArgs{Item: post, Sats: sats}},
			{community.KindZap, community.ZapArgs{Item: comment, Sats: sats}},
			{community.KindDonate, community.DonateArgs{Sats: sats}},
		} {
			for j, method := range []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats, paidaction.Pessimistic} {
				caller := enginetest.Caller(0)
				if method != paidaction.Pessimistic {
					caller = enginetest.Caller(w.User(fmt.Sprintf("%s_%d_%d", who, i, j), 100*sat, 100*sat))
				}
				payments = append(payments, func() error {
					pa, err := e.Pay(ctx, paidaction.Request{Kind: target.kind, Args: target.args, Terms: paidaction.Terms{Method: method}, Caller: caller})
					if err != nil || pa.Invoice == nil {
						return err
					}
					if err := w.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
						return err
					}
					for _, want := range []paidaction.Progress{paidaction.Moved, paidaction.Moved, paidaction.Done} {
						if got, err := e.Advance(ctx, pa.ID); err != nil || got != want {
							return fmt.Errorf("progress %d: %w", got, err)
						}
					}
					return nil
				})
			}
		}
		return payments
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer letGo()
	slow := everything(w.Ctx, manyConnections(w, 20), "slow", slowSats)
	for _, pay := range slow {
		all.Go(func() {
			if err := pay(); err != nil {
				t.Errorf("a slow payment: %v", err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(w.Ctx, 5*time.Minute)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for ; waiting() < int64(len(slow)); <-again.C {
		if ctx.Err() != nil || t.Failed() {
			t.Fatalf("%d of %d stand still, the others wait for them", waiting(), len(slow))
		}
	}
	for i, pay := range everything(ctx, w.Engine, "quick", 10) {
		if err := pay(); err != nil {
			t.Fatalf("payment %d is held up: %v", i, err)
		}
	}
	if _, err := w.Engine.Pay(ctx, paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 900}, Terms: paidaction.Terms{Method: paidaction.FeeCredit},
		Caller: enginetest.Caller(author)}); err != nil {
		t.Fatalf("the author cannot spend: %v", err)
	}
	if n := waiting(); n != int64(len(slow)) {
		t.Errorf("%d of %d stand still by now", n, len(slow))
	}
	letGo()
	all.Wait()
	for range 3 {
		fold(w)
	}
	// Half of 70 percent of each zap of the post: three of ten sats, three of thirteen.
	w.WantBalance(ledger.UserCredits(friend), before+3*(10*sat+slowSats*sat)*7/10/2)
	w.WantConserved()
	if w.Faults.Conflicts != 0 || len(w.Faults.Errors) != 0 {
		t.Errorf("%d conflicts, faults %v", w.Faults.Conflicts, w.Faults.Errors)
	}
}

// spec 05.17: those who forward to each other, in whatever order, and pay each other at once, wait for nobody in a circle. A deadlock
// fails the test by itself (internal/pgtest).
func TestForwardeesInEveryOrder(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	engine := manyConnections(w, 16)
	people := make([]int64, 4)
	for i := range people {
		people[i] = w.User(fmt.Sprint("friend_", i), 100_000*sat, 100_000*sat)
	}
	var posts []int64
	for i, author := range people {
		for _, order := range [][]int{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}} {
			args := community.ItemCreateArgs{Title: fmt.Sprint("post ", i, order)}
			for _, n := range order {
				args.Forwards = append(args.Forwards, community.Forward{User: people[(i+n)%len(people)], Pct: 30})
			}
			posts = append(posts, w.Item(w.Pay(author, community.KindItemCreate, args, paidaction.FeeCredit)))
			w.Clock.Advance(time.Hour)
		}
	}
	before := w.Balance(ledger.RewardCredits) + w.Balance(ledger.RewardSats)
	ctx, cancel := context.WithTimeout(w.Ctx, 5*time.Minute)
	defer cancel()
	var zaps, folds sync.WaitGroup
	done := make(chan struct{})
	folds.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				fold(w)
			}
		}
	})
	const rounds = 6
	var paid int64
	for i, payer := range people {
		for j, post := range posts {
			if j/3 == i { // nobody zaps what is their own
				continue
			}
			for _, method := range []paidaction.Method{paidaction.FeeCredit, paidaction.RewardSats} {
				paid += rounds * 10 * sat
				zaps.Go(func() {
					for range rounds {
						_, err := engine.Pay(ctx, paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: post, Sats: 10}, Terms: paidaction.Terms{Method: method},
							Caller: enginetest.Caller(payer)})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
	zaps.Wait()
	close(done)
	folds.Wait()
	if got := w.Balance(ledger.RewardCredits) + w.Balance(ledger.RewardSats) - before; got != paid*3/10 {
		t.Errorf("the rewards got %d of the fees of %d", got, paid*3/10)
	}
	w.WantConserved()
	if w.Faults.Conflicts != 0 {
		t.Errorf("%d conflicts", w.Faults.Conflicts)
	}
}
