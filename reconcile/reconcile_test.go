package reconcile_test

import (
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const sat = 1000 // msat

// lived is a database in which a little of everything has happened and ended.
func lived(t *testing.T) *enginetest.World {
	t.Helper()
	w := enginetest.New(t, paidaction.Settings{})
	w.Clock.Advance(23 * time.Hour)
	author, payer := w.User("author", 100*sat, 0), w.User("payer", 100*sat, 100*sat)
	post := w.Post(author, "a post")
	args := community.ZapArgs{Item: post, Sats: 10}
	w.Pay(payer, community.KindZap, args, "")
	w.Pay(payer, community.KindBuyCredits, community.BuyCreditsArgs{Credits: 5}, paidaction.RewardSats)
	for _, method := range []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic} {
		paid, failed := w.Pay(payer, community.KindZap, args, method), w.Pay(payer, community.KindZap, args, method)
		if err := w.Node.PayBolt11(paid.Invoice.Bolt11, simnode.Payment{Msat: 12 * sat}); err != nil {
			t.Fatal(err)
		}
		w.Advance(paid.ID)
		w.Drain()
		w.WantState(paid.ID, paidaction.Paid)
		if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(payer), failed.ID); err != nil {
			t.Fatal(err)
		}
		if method == paidaction.Optimistic {
			continue
		}
		if _, err := w.Engine.Retry(w.Ctx, enginetest.Caller(payer), failed.ID); err != nil {
			t.Fatal(err)
		}
	}
	w.Drain()
	reward(w, author)
	return w
}

// reward lets the day end, and pays its rewards to somebody.
func reward(w *enginetest.World, author int64) {
	w.Helper()
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO vote_event (action_id, item_id, author_id, micros, at) VALUES (1, 1, $1, 5, $2)`, author, w.Clock.Now()); err != nil {
		w.Fatal(err)
	}
	w.Clock.Advance(2 * time.Hour)
	if days, err := community.PayRewards(w.Ctx, db.New(w.Pool), w.Clock.Now(), community.DefaultSettings()); err != nil || days != 1 {
		w.Fatalf("%d days were paid, error %v", days, err)
	}
}

func run(t *testing.T, w *enginetest.World) *reconcile.Report {
	t.Helper()
	report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: simnode.Nodes{w.Node}, Now: w.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestNothingIsBrokenWhereNothingIs(t *testing.T) {
	t.Parallel()
	report := run(t, lived(t))
	if !report.OK || len(report.Invariants) != 10 {
		t.Errorf("%+v", report)
	}
	for i, invariant := range report.Invariants {
		if invariant.ID != i+1 || invariant.Broken != 0 || len(invariant.Breaks) != 0 {
			t.Errorf("%+v", invariant)
		}
		// 5 has nothing to look at before payments go out, 7 nothing while nothing is open, 8 no keys here.
		if invariant.Checked == 0 && invariant.ID != 5 && invariant.ID != 7 && invariant.ID != 8 {
			t.Errorf("invariant %d looked at nothing", invariant.ID)
		}
	}
}

// Each invariant is broken alone, past every guard of the database, and is found: by its own check.
func TestEveryBreakIsFound(t *testing.T) {
	t.Parallel()
	off := `ALTER TABLE paid_action DISABLE TRIGGER USER; ALTER TABLE action_history DISABLE TRIGGER USER; ALTER TABLE posting DISABLE TRIGGER USER; ` +
		`ALTER TABLE reward DISABLE TRIGGER USER; ALTER TABLE reward_day DISABLE TRIGGER USER;`
	for name, c := range map[string]struct {
		invariant int
		sql       string
		do        func(w *enginetest.World)
	}{
		"balance without a posting":   {1, `UPDATE account SET balance = balance + 1 WHERE id = 17`, nil},
		"posting without a balance":   {1, `INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES (0, 32, 1, 'x', now())`, nil},
		"delta lost":                  {1, `DELETE FROM balance_delta WHERE id = (SELECT max(id) FROM balance_delta)`, nil},
		"credits without backing":     {1, `WITH p AS (INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES (1, 17, 5, 'x', now())) INSERT INTO balance_delta (account_id, msat) VALUES (1, -5), (17, 5)`, nil},
		"reward that nobody was paid": {1, `UPDATE reward SET credits_msat = credits_msat + 1 WHERE rank = 1`, nil},
		"reward that was paid twice":  {1, `WITH p AS (INSERT INTO posting (from_account, to_account, msat, reason, at) SELECT from_account, to_account, msat, reason, at FROM posting WHERE from_account = 3 ORDER BY id LIMIT 1 RETURNING *) INSERT INTO balance_delta (account_id, msat) SELECT from_account, -msat FROM p UNION ALL SELECT to_account, msat FROM p`, nil},
		"money out of the pool":       {1, `WITH p AS (INSERT INTO posting (from_account, to_account, msat, reason, at) VALUES (3, 17, 1, 'x', now())) INSERT INTO balance_delta (account_id, msat) VALUES (3, -1), (17, 1)`, nil},
		"more rewards than the pool":  {1, `ALTER TABLE reward_day DROP CONSTRAINT all_or_nothing; UPDATE reward_day SET pool_credits_msat = paid_credits_msat - 1`, nil},
		"paid and not booked":         {2, `UPDATE posting SET action_id = NULL WHERE action_id = (SELECT max(id) FROM paid_action WHERE method = 'OPTIMISTIC' AND state = 'PAID')`, nil},
		"booked and not paid":         {2, `UPDATE posting SET action_id = (SELECT min(id) FROM paid_action WHERE state = 'RETRYING') WHERE id = (SELECT max(id) FROM posting WHERE action_id IS NOT NULL)`, nil},
		"paid twice":                  {2, `INSERT INTO action_history (action_id, from_state, to_state, fact, at) SELECT id, 'PENDING', 'PAID', 'x', now() FROM paid_action WHERE method = 'OPTIMISTIC' AND state = 'PAID'`, nil},
		"counts and not paid":         {3, `UPDATE zap SET state = 'PAID' WHERE state = 'FAILED'`, nil},
		"a change paid and not done":  {3, `INSERT INTO item_edit SELECT action_id, id, title, body, url, created_at FROM item WHERE state = 'PAID' LIMIT 1`, nil},
		"a file shown and not paid": {3, `INSERT INTO upload (id, token, owner_id, bytes, content_type, fee_msat, item_id, action_id, paid_at, created_at, unclaimed_at)
			SELECT 1, repeat('a', 22), item.author_id, 1, 'image/png', 0, item.id, paid_action.id, now(), now(), now()
			FROM item, paid_action WHERE paid_action.state = 'RETRYING' AND item.author_id IS NOT NULL LIMIT 1`, nil},
		"paid and does not count":      {3, `UPDATE item SET state = 'PENDING'`, nil},
		"two invoices, one hash":       {4, `ALTER TABLE invoice DROP CONSTRAINT invoice_payment_hash_key; UPDATE invoice SET payment_hash = (SELECT payment_hash FROM invoice LIMIT 1)`, nil},
		"a step the machine lacks":     {6, `UPDATE action_history SET to_state = 'HELD' WHERE id = (SELECT max(id) FROM action_history WHERE to_state = 'RETRYING')`, nil},
		"an end that is not the state": {6, `DELETE FROM action_history WHERE id = (SELECT max(h.id) FROM action_history h JOIN paid_action a ON a.id = h.action_id WHERE a.method = 'OPTIMISTIC' AND a.state = 'PAID')`, nil},
		"open without a job": {7, ``, func(w *enginetest.World) {
			w.Pay(w.User("more", 0, 0), community.KindDonate, community.DonateArgs{Sats: 1}, "")
		}},
		"one key, two actions":          {8, `DROP INDEX paid_action_key; UPDATE paid_action SET idempotency_key = 'x', args_hash = 'x' WHERE payer_id IS NOT NULL`, nil},
		"settled at the node, not here": {9, `UPDATE paid_action SET state = 'FAILED', failure_code = 'X' WHERE method = 'PESSIMISTIC' AND state = 'PAID'`, nil},
		"paid here, not at the node":    {9, `UPDATE paid_action SET state = 'PAID', successor_id = NULL, result = '{}' WHERE method = 'PESSIMISTIC' AND state = 'RETRYING'`, nil},
		"another amount":                {9, `UPDATE posting SET msat = msat + 1 WHERE from_account = 0 AND action_id IS NOT NULL`, nil},
		"a wiped node":                  {9, ``, func(w *enginetest.World) { w.Node.Wipe() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := lived(t)
			if c.do != nil {
				c.do(w)
			}
			if c.sql != "" {
				if _, err := w.Pool.Exec(w.Ctx, off+c.sql); err != nil {
					t.Fatal(err)
				}
			}
			report := run(t, w)
			found := report.Invariants[c.invariant-1]
			if report.OK || found.Broken == 0 || len(found.Breaks) == 0 || found.Mend == "" {
				t.Errorf("not found: %+v", report)
			}
		})
	}
}

func TestWhatIsUnderWayIsNoDifference(t *testing.T) {
	t.Parallel()
	w := lived(t)
	pa := w.Pay(w.User("more", 0, 0), community.KindDonate, community.DonateArgs{Sats: 1}, "")
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	if found := run(t, w).Invariants[8]; found.Broken != 0 {
		t.Errorf("%+v", found)
	}
	// The same long after its deadline is one.
	w.Clock.Advance(time.Hour)
	if found := run(t, w).Invariants[8]; found.Broken != 1 {
		t.Errorf("%+v", found)
	}
}

// Spec 05.16g: the database has forgotten a payment that a node made. One that failed moved nothing.
func TestAPaymentThatIsNotRecordedIsFound(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	carol := w.Network.AddReceiver("carol")
	pay := func(act simnode.Act) {
		inv := carol.Issue(simnode.Ask{Amount: 5 * sat, Act: act})
		err := w.Node.Pay(w.Ctx, paidaction.PaymentRequest{Bolt11: inv.Bolt11, FeeLimit: 10 * sat, Timeout: time.Second},
			func(paidaction.PaymentUpdate) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	pay(simnode.Refuses)
	look := func() reconcile.Invariant {
		report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: w.Nodes, Senders: w.Nodes.Names(), Now: w.Clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		return report.Invariants[8]
	}
	if found := look(); found.ID != 9 || found.Broken != 0 {
		t.Errorf("%+v", found)
	}
	pay(simnode.Pays)
	if found := look(); found.Broken != 1 {
		t.Errorf("%+v", found)
	}
}
