package wallet_test

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/wallet"
)

func down(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }

// hang never answers, but sees the client go.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestWalletsAreAskedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.user()
	var servers []*lnbitsServer
	var ids []int64
	for i := range 3 {
		servers = append(servers, newLNbits(t, w.mint))
		saved := w.save(user, servers[i].settings())
		if ids = append(ids, saved.ID); saved.Priority != i+1 {
			t.Errorf("wallet %d has priority %d", i, saved.Priority)
		}
	}
	w.want(user, 0, ids[0])
	servers[0].breaks(down)
	w.want(user, 0, ids[1])
	if _, err := w.Enable(w.ctx, user, ids[1], false, nil); err != nil {
		t.Fatal(err)
	}
	w.want(user, 0, ids[2])
	servers[2].breaks(down)
	w.want(user, 0, 0)
	servers[2].breaks(nil)
	if _, err := w.Enable(w.ctx, user, ids[1], true, nil); err != nil {
		t.Fatal(err)
	}
	list, err := w.Reorder(w.ctx, user, []int64{ids[2], ids[0], ids[1]}, nil)
	if err != nil || len(list) != 3 || list[0].ID != ids[2] || list[1].ID != ids[0] || list[2].ID != ids[1] {
		t.Errorf("reordered to %+v, error %v", list, err)
	}
	w.want(user, 0, ids[2])
	if err := w.Remove(w.ctx, user, ids[2], nil); err != nil {
		t.Fatal(err)
	}
	w.want(user, 0, ids[1]) // the next, ids[0], is down
	w.want(w.user(), 0, 0)  // somebody without a wallet
	w.wantLog(ids[0], "ok INVOICE_ISSUED", "ok INVOICE_ISSUED", "WALLET_BAD_ANSWER", "WALLET_BAD_ANSWER", "WALLET_BAD_ANSWER", "WALLET_BAD_ANSWER")
	w.wantLog(ids[2])
}

// A failed payment counts if, and only if, the transaction that ends it is committed (spec 01 §1.7).
func TestAFailureOfATransactionThatIsUndoneDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, genesis := w.user(), w.genesis()
	a, b := w.save(user, newLNbits(t, w.mint).settings()).ID, w.save(user, newLNbits(t, w.mint).settings()).ID
	undone := errors.New("undone")
	err := db.InTransaction(w.ctx, w.pool, func(tx *db.Transaction) error {
		if err := w.Failed(w.ctx, db.New(tx), a, genesis, "NO_ROUTE"); err != nil {
			return err
		}
		w.want(user, genesis, a) // others do not see it yet
		return undone
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	w.want(user, genesis, a)
	w.wantLog(a, "ok INVOICE_ISSUED", "ok INVOICE_ISSUED", "ok INVOICE_ISSUED") // when it was saved, and twice here
	if err := w.failed(a, genesis, "NO_ROUTE"); err != nil {
		t.Fatal(err)
	}
	w.want(user, genesis, b)
}

// Failed twice for the same genesis, it is skipped; for another genesis it is not (spec 03 §3.1).
func TestFailedTwiceForOneGenesisIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, genesis, other := w.user(), w.genesis(), w.genesis()
	first, second := newLNbits(t, w.mint), newLNbits(t, w.mint)
	a, b := w.save(user, first.settings()).ID, w.save(user, second.settings()).ID

	first.breaks(down)
	for range 3 {
		w.want(user, 0, b) // before there is an action, nothing can be counted
	}
	w.want(user, genesis, b)
	first.breaks(nil)
	w.want(user, genesis, b) // the next attempt is for the next wallet (spec 01 §1.7)
	second.breaks(down)
	w.want(user, genesis, a) // failed once only
	second.breaks(nil)
	w.want(user, genesis, a) // both have
	if err := w.failed(a, genesis, "NO_ROUTE"); err != nil {
		t.Fatal(err)
	}
	w.want(user, genesis, b)
	w.want(user, other, a)
	w.want(user, 0, a)

	// A payment that failed by our own fault, or that our operator has cancelled at the node, is no fault of the wallet.
	for _, reason := range slices.Repeat([]paidaction.FailureReason{paidaction.ReasonInsufficientBalance, paidaction.ReasonCanceled}, 3) {
		if err := w.failed(b, genesis, reason); err != nil {
			t.Fatal(err)
		}
	}
	w.want(user, genesis, b)
	for range 3 {
		err := w.Each(w.ctx, user, genesis, 1000, "", func(int64, string) error {
			return paidaction.Errorf(paidaction.CodeLightningUnavailable, "No node of ours answers.")
		})
		if !isNone(err) {
			t.Fatal(err)
		}
	}
	w.want(user, genesis, b)
	for _, reason := range []paidaction.FailureReason{paidaction.ReasonTimeout, paidaction.ReasonIncorrectDetails} {
		if err := w.failed(b, genesis, reason); err != nil {
			t.Fatal(err)
		}
	}
	w.want(user, genesis, 0) // none is left
	w.want(user, other, a)
	if err := w.failed(1<<40, genesis, "NO_ROUTE"); err != nil {
		t.Errorf("of a wallet that was removed: %v", err)
	}
	if err := w.failed(b, other, "the node at 10.0.0.1 said something new"); err != nil {
		t.Error(err)
	}
	if log := w.log(b); strings.Join(log[len(log)-3:], " ") != "PAYMENT_TIMEOUT PAYMENT_REFUSED PAYMENT_FAILED" {
		t.Errorf("logged %q", log)
	}
	if strings.Contains(w.everything(), "10.0.0.1") {
		t.Error("a node's words are in the log")
	}
}

// A failure counts for as long as its payment can be tried again, and is forgotten later.
func TestAFailureIsNotForgottenTooSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.save(w.user(), newLNbits(t, w.mint).settings()).ID
	recent, old := w.genesis(), w.genesis()
	for genesis, days := range map[int64]int{recent: 29, old: 31} {
		if _, err := w.pool.Exec(w.ctx, `UPDATE paid_action SET created_at = now() - make_interval(days => $2) WHERE id = $1`, genesis, days); err != nil {
			t.Fatal(err)
		}
		if err := w.failed(first, genesis, "NO_ROUTE"); err != nil {
			t.Fatal(err)
		}
	}
	if more, err := wallet.Sweep(w.ctx, db.New(w.pool), time.Now()); more || err != nil {
		t.Errorf("more is left: %t, error %v", more, err)
	}
	var left []int64
	if err := w.pool.QueryRow(w.ctx, `SELECT array_agg(genesis_id) FROM wallet_failure`).Scan(&left); err != nil || !slices.Equal(left, []int64{recent}) {
		t.Errorf("left are those for %v of %d and %d, error %v", left, recent, old, err)
	}
}

// Only who has a wallet that may be asked can be paid directly.
func TestWhoHasAWallet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	has := func(user int64, want bool) {
		t.Helper()
		if has, err := w.Has(w.ctx, user); has != want || err != nil {
			t.Errorf("user %d has one: %t, error %v", user, has, err)
		}
	}
	asked := func(id int64, want bool) {
		t.Helper()
		if asked, err := w.Asked(w.ctx, id); asked != want || err != nil {
			t.Errorf("wallet %d is asked: %t, error %v", id, asked, err)
		}
	}
	user, other := w.user(), w.user()
	has(user, false)
	saved := w.save(user, newLNbits(t, w.mint).settings())
	has(user, true)
	asked(saved.ID, true)
	if _, err := w.Save(w.ctx, user, saved.ID, "replaced", newLNbits(t, w.mint).settings(), nil); err != nil {
		t.Fatal(err)
	}
	asked(saved.ID, true)
	has(other, false)
	if _, err := w.pool.Exec(w.ctx, `UPDATE receiver_wallet SET enabled = false WHERE id = $1`, saved.ID); err != nil {
		t.Fatal(err)
	}
	has(user, false)
	asked(saved.ID, false)
	if err := w.Remove(w.ctx, user, saved.ID, nil); err != nil {
		t.Fatal(err)
	}
	asked(saved.ID, false)
}

// One wallet that hangs costs its time, not more; many that hang cost no more than the search.
func TestSlowWalletsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.user()
	var ids []int64
	var servers []*lnbitsServer
	for range 4 {
		s := newLNbits(t, w.mint)
		servers = append(servers, s)
		ids = append(ids, w.save(user, s.settings()).ID)
	}
	w.Limits.Call, w.Limits.Search = 2*time.Second, time.Minute
	servers[0].breaks(hang)
	w.want(user, 0, ids[1])
	w.wantLog(ids[0], "ok INVOICE_ISSUED", "WALLET_TIMEOUT")

	for _, s := range servers {
		s.breaks(hang)
	}
	w.Limits.Search = 3 * time.Second
	w.want(user, 0, 0)
	if log := w.log(ids[3]); len(log) != 1 {
		t.Errorf("the last wallet was asked when time was up: %q", log)
	}
}

// A removed wallet, and one removed while it is asked, take nothing with them.
func TestRemovedWhileAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, genesis := w.user(), w.genesis()
	s := newLNbits(t, w.mint)
	id := w.save(user, s.settings()).ID
	err := w.Each(w.ctx, user, genesis, 1000, "", func(int64, string) error { return w.Remove(w.ctx, user, id, nil) })
	if err != nil {
		t.Error(err)
	}
	if err := w.failed(id, genesis, "NO_ROUTE"); err != nil {
		t.Error(err)
	}
	if strings.Contains(w.out.String(), "could not be noted") {
		t.Errorf("the operator was told: %s", w.out)
	}
}

// Whatever fails in whatever order, the wallet that is taken is the first in the order that works, is enabled, and has failed less
// than twice for the genesis; of those that have not failed for it, if there is one.
func TestTheFirstThatWorksIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const most = 4
	var servers [most]*lnbitsServer
	for i := range servers {
		servers[i] = newLNbits(t, w.mint)
	}
	rapid.Check(t, func(t *rapid.T) {
		user, genesis := w.user(), w.genesis()
		type model struct {
			id              int64
			enabled, broken bool
			failures        int
			server          *lnbitsServer
		}
		var wallets []*model
		for i := range rapid.IntRange(0, most).Draw(t, "wallets") {
			servers[i].breaks(nil)
			wallets = append(wallets, &model{id: w.save(user, servers[i].settings()).ID, enabled: true, server: servers[i]})
		}
		for range 12 {
			if len(wallets) > 0 {
				m := rapid.SampledFrom(wallets).Draw(t, "wallet")
				switch rapid.IntRange(0, 3).Draw(t, "what") {
				case 0:
					if m.broken = !m.broken; m.broken {
						m.server.breaks(down)
					} else {
						m.server.breaks(nil)
					}
				case 1:
					m.enabled = !m.enabled
					if _, err := w.Enable(w.ctx, user, m.id, m.enabled, nil); err != nil {
						t.Fatal(err)
					}
				case 2:
					m.failures++
					if err := w.failed(m.id, genesis, "TIMEOUT"); err != nil {
						t.Fatal(err)
					}
				case 3:
					wallets = rapid.Permutation(wallets).Draw(t, "order")
					var ids []int64
					for _, m := range wallets {
						ids = append(ids, m.id)
					}
					if _, err := w.Reorder(w.ctx, user, ids, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			var want int64
			asked := slices.Clone(wallets)
			slices.SortStableFunc(asked, func(x, y *model) int { return cmp.Compare(x.failures, y.failures) })
			for _, m := range asked {
				if !m.enabled || m.failures >= 2 {
					continue
				}
				if !m.broken {
					want = m.id
					break
				}
				m.failures++
			}
			got, _, err := w.each(user, genesis, 1000)
			if got != want || want == 0 && !isNone(err) {
				t.Fatalf("wallet %d was taken, error %v; want %d", got, err, want)
			}
		}
	})
}

// The log keeps the newest entries of each wallet.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	const kept, slack = 20, 53
	w := newWorld(t, func(c *wallet.Config) { c.Limits.Log = kept })
	user, genesis := w.user(), w.genesis()
	s := newLNbits(t, w.mint)
	rare := w.save(w.user(), s.settings()).ID
	a, b := w.save(user, s.settings()).ID, w.save(user, s.settings()).ID
	// In turn, as where the first always fails and the second is taken.
	const rounds = 3 * slack
	for i := range rounds {
		reason := paidaction.ReasonTimeout
		if i == rounds-1 {
			reason = paidaction.ReasonNoRoute
		}
		for _, id := range []int64{a, b} {
			if err := w.failed(id, genesis, reason); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range []int64{a, b} {
		log := w.log(id)
		if len(log) < kept || len(log) > kept+slack {
			t.Errorf("%d entries of wallet %d are kept, want %d to %d", len(log), id, kept, kept+slack)
		}
		if log[len(log)-1] != "PAYMENT_NO_ROUTE" {
			t.Errorf("the newest is %s", log[len(log)-1])
		}
	}
	if n := len(w.log(rare)); n != 1 {
		t.Errorf("%d entries are kept of a wallet that was asked once, want 1", n)
	}
	// What was forgotten still counts.
	w.want(user, genesis, 0)
}

// Of a wallet's invoices so many wait inside of ours that one more would find no place: another wallet is asked, and the full one is left alone until there is room.
func TestAFullWalletIsPassedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *wallet.Config) { c.Limits.Pending = 2 })
	user := w.user()
	a, b := w.save(user, newLNbits(t, w.mint).settings()).ID, w.save(user, newLNbits(t, w.mint).settings()).ID
	wait := func(inside int64, many int) {
		t.Helper()
		_, err := w.pool.Exec(w.ctx, `INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, deadline, args, inner_wallet_id)
			SELECT 'ZAP', 'WRAPPED', 'P2P', 'PENDING_HELD', 1000, now(), now(), now(), '{}', $1 FROM generate_series(1, $2)`, inside, many)
		if err != nil {
			t.Fatal(err)
		}
	}
	wait(a, 1)
	w.want(user, 0, a)
	wait(a, 1)
	w.want(user, 0, b)
	wait(b, 2)
	w.want(user, 0, 0)
	if _, err := w.pool.Exec(w.ctx, `UPDATE paid_action SET state = 'CANCELING' WHERE id = (SELECT min(id) FROM paid_action WHERE inner_wallet_id = $1)`, a); err != nil {
		t.Fatal(err)
	}
	w.want(user, 0, a)
	w.wantLog(a, slices.Repeat([]string{"ok INVOICE_ISSUED"}, 3)...) // the first when it was saved
	w.wantLog(b, slices.Repeat([]string{"ok INVOICE_ISSUED"}, 2)...)
}
