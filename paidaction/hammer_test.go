package paidaction_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Everything at once: posts, comments, zaps, cancels, retries, payments, sweeps, folds; then the books and the deadlocks.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	var users []int64
	for i := range 4 {
		users = append(users, w.User(fmt.Sprint("u", i), 5000*sat, 3000*sat))
	}
	root := w.Post(users[0], "root", community.Forward{User: users[1], Pct: 50})
	stop := make(chan struct{})
	var bg, wg sync.WaitGroup
	for _, fold := range []func(*db.Queries) (int, error){
		func(q *db.Queries) (int, error) { return ledger.Fold(w.Ctx, q, 100) },
		func(q *db.Queries) (int, error) { return community.FoldItems(w.Ctx, q, 100) },
	} {
		bg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
					q := db.New(tx)
					if err := q.PlanOnce(w.Ctx); err != nil {
						return err
					}
					_, err := fold(q)
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	bg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, _ = w.Engine.Sweep(w.Ctx)
		}
	})
	for n := range 6 {
		rnd := rand.New(rand.NewPCG(1, uint64(n)))
		wg.Go(func() {
			for i := range 25 {
				u := users[rnd.IntN(len(users))]
				c := enginetest.Caller(u)
				var pa *paidaction.PaidAction
				var err error
				method := []paidaction.Method{"", paidaction.FeeCredit, paidaction.RewardSats, paidaction.Optimistic, paidaction.Pessimistic}[rnd.IntN(5)]
				key := ""
				if rnd.IntN(2) == 0 {
					key = fmt.Sprint("k", rnd.IntN(40))
				}
				switch rnd.IntN(3) {
				case 0:
					pa, err = w.Try(u, community.KindZap, community.ZapArgs{Item: root, Sats: int64(1 + rnd.IntN(30))}, method, key)
				case 1:
					pa, err = w.Try(u, community.KindItemCreate, community.ItemCreateArgs{Parent: root, Body: fmt.Sprint("b", n, i%3)}, method, key)
				case 2:
					pa, err = w.Try(u, community.KindItemCreate, community.ItemCreateArgs{Title: fmt.Sprint("t", i%5)}, method, key)
				}
				if err != nil {
					if _, ok := paidaction.AsRefusal(err); !ok {
						t.Errorf("fault: %v", err)
					}
					continue
				}
				if pa.Invoice == nil || pa.Invoice.Bolt11 == "" {
					continue
				}
				var both sync.WaitGroup
				both.Go(func() {
					_ = w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{})
					_, _ = w.Engine.Advance(w.Ctx, pa.ID)
				})
				if rnd.IntN(2) == 0 {
					both.Go(func() {
						_, _ = w.Engine.Cancel(w.Ctx, c, pa.ID)
						_, _ = w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{}, nil)
					})
					both.Go(func() { _, _ = w.Engine.Retry(w.Ctx, c, pa.ID, "", paidaction.Terms{}, nil) })
				}
				both.Wait()
			}
		})
	}
	wg.Wait()
	close(stop)
	bg.Wait()
	w.Drain()
	w.Clock.Advance(time.Hour)
	w.Drain()
	_, _ = w.Engine.Sweep(w.Ctx)
	w.WantConserved()
	if w.Faults.Conflicts != 0 || len(w.Faults.Errors) != 0 {
		t.Errorf("%d conflicts, faults %v", w.Faults.Conflicts, w.Faults.Errors)
	}
	if n := w.Count(`SELECT count(*) FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING')`); n != 0 {
		t.Errorf("%d open", n)
	}
	if n := w.Count(`SELECT count(*) FROM item JOIN paid_action a ON a.id = item.action_id WHERE (item.state = 'PAID') <> (a.state = 'PAID')`); n != 0 {
		t.Errorf("%d items differ from their actions", n)
	}
	if n := w.Count(`SELECT count(*) FROM zap JOIN paid_action a ON a.id = zap.action_id WHERE (zap.state = 'PAID') <> (a.state = 'PAID')`); n != 0 {
		t.Errorf("%d zaps differ from their actions", n)
	}
	for _, inv := range w.Node.Invoices() {
		h := inv.Request.Hash
		n := w.Count(`SELECT count(*) FROM paid_action a JOIN invoice i ON i.action_id = a.id WHERE i.payment_hash = $1 AND a.state = 'PAID'`, h[:])
		if (inv.State == paidaction.InvoiceSettled) != (n == 1) {
			t.Errorf("invoice %s, paid actions %d", inv.State, n)
		}
	}
}
