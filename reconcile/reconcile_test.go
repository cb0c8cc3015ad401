package reconcile_test

import (
	"context"
	"fmt"
	"slices"
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
	w := enginetest.NewNodes(t, []string{"sim", "other"}, paidaction.Settings{})
	w.Clock.Advance(23 * time.Hour)
	author, payer := w.User("author", 100*sat, 100*sat), w.User("payer", 100*sat, 100*sat)
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
		if _, err := w.Engine.Retry(w.Ctx, enginetest.Caller(payer), failed.ID, "", paidaction.Terms{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.Drain()
	sent(w, author, payer, post)
	reward(w)
	return w
}

// sent makes payments leave: a zap to a receiver's own wallet, a withdrawal, and one that fails.
func sent(w *enginetest.World, author, payer, post int64) {
	w.Helper()
	receiver := w.Wallets.Add(author).Receiver
	zap := w.Pay(payer, community.KindZap, community.ZapArgs{Item: post, Sats: 100}, paidaction.P2P)
	if err := w.Node.PayBolt11(zap.Invoice.Bolt11, simnode.Payment{}); err != nil {
		w.Fatal(err)
	}
	w.Advance(zap.ID)
	withdraw := func(act simnode.Act) int64 {
		inv := receiver.Issue(simnode.Ask{Amount: 20 * sat, Act: act})
		return w.Pay(payer, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "").ID
	}
	paid, failed := withdraw(simnode.Pays), withdraw(simnode.Refuses)
	stop := w.Run(w.Relay)
	w.AwaitLeft(zap.ID, paidaction.Forwarding)
	w.Await(paid, paidaction.Paid)
	w.Await(failed, paidaction.Failed)
	stop()
	w.Drain()
	w.WantState(zap.ID, paidaction.Paid)
	w.Advance(zap.ID) // books the routing fee
}

// reward ends the day, and pays its rewards to whom was zapped.
func reward(w *enginetest.World) {
	w.Helper()
	w.Clock.Advance(2 * time.Hour)
	if days, err := community.PayRewards(w.Ctx, db.New(w.Pool), w.Clock.Now(), community.DefaultSettings()); err != nil || days != 1 {
		w.Fatalf("%d days were paid, error %v", days, err)
	}
}

// copied is a world to break and to look at: a database as this one, with the same nodes and at the same time. Nobody
// pays there, since the nodes and the clock are those of other tests as well.
func copied(t *testing.T, w *enginetest.World) *enginetest.World {
	t.Helper()
	return &enginetest.World{TB: t, Ctx: t.Context(), Pool: pgtest.Copy(t, w.Pool), Nodes: w.Nodes, Clock: w.Clock}
}

func compared(w *enginetest.World) reconcile.Config {
	return reconcile.Config{Pool: w.Pool, Nodes: w.Nodes, Senders: w.Nodes.Names(), Issuers: w.Nodes.Names(), Now: w.Clock.Now}
}

func run(t *testing.T, w *enginetest.World) *reconcile.Report {
	t.Helper()
	report, err := reconcile.Run(w.Ctx, compared(w))
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
		if invariant.Checked == 0 && invariant.ID != 7 { // nothing is open
			t.Errorf("invariant %d looked at nothing", invariant.ID)
		}
	}
}

func TestWhatIsUnderWayIsNoDifference(t *testing.T) {
	t.Parallel()
	w := lived(t)
	pa := openZap(w)
	if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	if found := run(t, w).Invariants[8]; found.Broken != 0 {
		t.Errorf("%+v", found)
	}
	// The same payment is a break long after its deadline, for as long as the action is open.
	for _, later := range []time.Duration{time.Hour, 48 * time.Hour} {
		w.Clock.Advance(later)
		if found := run(t, w).Invariants[8]; found.Broken != 1 {
			t.Errorf("after %s: %+v", later, found)
		}
	}
}

// Spec 05.16g: the database has forgotten a payment that a node made. A failed one moved nothing.
func TestAPaymentThatIsNotRecordedIsFound(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	carol := w.Network.AddReceiver("carol")
	issue := func(act simnode.Act) string { return carol.Issue(simnode.Ask{Amount: 5 * sat, Act: act}).Bolt11 }
	pay(w, w.Node, issue(simnode.Refuses))
	look := func() reconcile.Invariant { return run(t, w).Invariants[8] }
	if found := look(); found.ID != 9 || found.Broken != 0 {
		t.Errorf("%+v", found)
	}
	pay(w, w.Node, issue(simnode.Pays))
	if found := look(); found.Broken != 1 {
		t.Errorf("%+v", found)
	}
	// One that is under way may have been begun a moment before its record was written, but not long ago.
	ctx, stop := context.WithCancel(w.Ctx)
	defer stop()
	_ = w.Node.Pay(ctx, paidaction.PaymentRequest{Bolt11: issue(simnode.Holds), FeeLimit: 10 * sat, Timeout: time.Second},
		func(paidaction.PaymentUpdate) error { stop(); return nil })
	if found := look(); found.Broken != 1 {
		t.Errorf("%+v", found)
	}
	w.Clock.Advance(2 * time.Minute)
	if found := look(); found.Broken != 2 {
		t.Errorf("%+v", found)
	}
}

// hangs withdraws to somebody who lets the payment hang. It returns once the node has shown it.
func hangs(w *enginetest.World) {
	w.Helper()
	inv := w.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 20 * sat, Act: simnode.Holds})
	pa := w.Pay(w.User("alice", 0, 100_000), community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	stop := w.Run(w.Relay)
	w.AwaitShown(pa.ID)
	stop()
}

// A receiver lets a payment hang, and the node loses its data: nothing ends that payment, no deadline has passed, and
// the payer's money is held for it.
func TestAPaymentThatItsNodeHasForgottenIsFound(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	hangs(w)
	w.Clock.Advance(time.Hour)
	if found := run(t, w).Invariants[8]; found.Broken != 0 {
		t.Errorf("while it hangs: %+v", found)
	}
	w.Node.Wipe()
	for _, later := range []time.Duration{0, 48 * time.Hour} {
		w.Clock.Advance(later)
		if found := run(t, w).Invariants[8]; found.Broken != 1 || found.Breaks[0].Kind != "payment-lost" {
			t.Errorf("after %s: %+v", later, found)
		}
	}
}

// A payment in work whose claim is closed is looked at by nobody, and one that is claimed and counts as waiting cannot be
// claimed: either hangs for ever, with what was set aside for it.
func TestAPaymentWithoutItsClaimIsFound(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	hangs(w)
	for broken, mended := range map[string]string{
		`UPDATE relay_attempt SET outcome = 'FAILED', reason = 'x', ended_at = now()`: `UPDATE relay_attempt SET outcome = NULL, reason = NULL, ended_at = NULL`,
		`UPDATE relay_payment SET stage = 'incoming'`:                                 `UPDATE relay_payment SET stage = 'in_work'`,
		`UPDATE relay_payment SET node = 'elsewhere'`:                                 `UPDATE relay_payment SET node = (SELECT node FROM relay_attempt)`,
	} {
		exec(w, broken)
		if found := run(t, w).Invariants[8]; found.Broken != 1 || found.Breaks[0].Kind != "claim" {
			t.Errorf("%s: %+v", broken, found)
		}
		exec(w, mended)
		if found := run(t, w).Invariants[8]; found.Broken != 0 {
			t.Errorf("%s: %+v", mended, found)
		}
	}
}

// A part of a zap hangs for long at its receiver, who has told the preimage, so the zap is PAID. Once the payment is final
// somebody has to book what it cost: what was set aside for it belongs to the rewards.
func TestAPaymentThatIsFinalAndNotBookedIsFound(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	author := w.User("author", 100*sat, 0)
	wallet := w.Wallets.Add(author)
	wallet.Ask.Act = simnode.Splits
	zap := w.Pay(w.User("payer", 0, 0), community.KindZap, community.ZapArgs{Item: w.Post(author, "a post"), Sats: 100}, paidaction.P2P)
	if err := w.Node.PayBolt11(zap.Invoice.Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(zap.ID)
	stop := w.Run(w.Relay)
	w.Await(zap.ID, paidaction.Paid)
	stop()
	w.Clock.Advance(10 * time.Minute)
	if found := run(t, w).Invariants[8]; found.Broken != 0 {
		t.Errorf("while a part hangs: %+v", found)
	}
	if err := wallet.Receiver.Settle(zap.Invoice.Hash); err != nil {
		t.Fatal(err)
	}
	if found := run(t, w).Invariants[8]; found.Broken != 1 || found.Breaks[0].Kind != "not-booked" {
		t.Errorf("%+v", found)
	}
	w.Advance(zap.ID)
	if found := run(t, w).Invariants[8]; found.Broken != 0 {
		t.Errorf("once it is booked: %+v", found)
	}
}

// A withdrawal failed and the next one of the same invoice was made, and the node is restored from between: what failed is not what counts as
// made. Whoever took it for that would give the payer the money back.
func TestAFailureFromBeforeTheSendIsNoneOfWhatWasPaid(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	carol := w.Network.AddReceiver("carol")
	inv := carol.Issue(simnode.Ask{Amount: 20 * sat, Act: simnode.Refuses})
	alice := w.User("alice", 0, 100_000)
	w.Run(w.Relay)
	withdraw := func(until paidaction.State) {
		pa := w.Pay(alice, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
		w.Await(pa.ID, until)
	}
	withdraw(paidaction.Failed)
	backup := w.Node.Backup()
	carol.Change(inv.Hash, simnode.Pays)
	withdraw(paidaction.Paid)
	w.Node.Restore(backup)
	if found := run(t, w).Invariants[8]; found.Broken != 1 || found.Breaks[0].Kind != "payment-lost" {
		t.Errorf("%+v", found)
	}
}

// A withdrawal may wait for a node that can send it, and is past its deadline meanwhile. One that has waited for longer is a
// break, as is one that a node may have.
func TestAWithdrawalThatWaitsForANodeIsNoBreak(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	inv := w.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 20 * sat})
	pa := w.Pay(w.User("alice", 0, 100_000), community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	want := func(after time.Duration, overdue bool) {
		t.Helper()
		w.Clock.Advance(pa.CreatedAt.Add(after).Sub(w.Clock.Now()))
		found := run(t, w).Invariants[6].Breaks
		if is := slices.ContainsFunc(found, func(b reconcile.Break) bool { return b.Kind == "overdue" }); is != overdue {
			t.Errorf("after %s: %v, overdue %t", after, found, overdue)
		}
	}
	want(pa.Deadline.Add(2*time.Minute).Sub(pa.CreatedAt), false)
	exec(w, `UPDATE relay_payment SET node = 'sim'`)
	want(pa.Deadline.Add(2*time.Minute).Sub(pa.CreatedAt), true)
	exec(w, `UPDATE relay_payment SET node = NULL`)
	want(paidaction.MaxWait+89*time.Second, false)
	want(paidaction.MaxWait+91*time.Second, true)
	exec(w, `UPDATE relay_payment SET requeued_at = created_at + interval '1 minute'`) // it waits anew
	want(paidaction.MaxWait+91*time.Second, false)
	want(paidaction.MaxWait+151*time.Second, true)
	for ahead, overdue := range map[string]bool{"1 minute": false, "61 seconds": true, "1 day": true} { // by that clock it failed, and was put back now
		exec(w, fmt.Sprintf(`UPDATE relay_payment SET requeued_at = created_at + interval '%d seconds' + interval '%s'`, int(2*paidaction.MaxWait.Seconds()), ahead))
		want(2*paidaction.MaxWait, overdue)
	}
}

// One job may be for several actions: it counts for each of them.
func TestAJobOfSeveralIsAJobOfEach(t *testing.T) {
	t.Parallel()
	w := lived(t)
	payer := w.User("late", 0, 0)
	donate := func() *paidaction.PaidAction {
		return w.Pay(payer, community.KindDonate, community.DonateArgs{Sats: 1}, paidaction.Pessimistic)
	}
	first, second, third := donate(), donate(), donate()
	for args, want := range map[string]int64{
		fmt.Sprintf(`{"action": %d}`, first.ID):                                          2,
		fmt.Sprintf(`{"action": %d, "with": [%d]}`, first.ID, second.ID):                 1,
		fmt.Sprintf(`{"action": %d, "with": [%d, %d]}`, third.ID, first.ID, second.ID):   0,
		fmt.Sprintf(`{"action": %d, "with": [%d, %d, 5]}`, first.ID, first.ID, first.ID): 2,
	} {
		if _, err := w.Pool.Exec(w.Ctx, `DELETE FROM river_job`); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO river_job (kind, queue, args, max_attempts) VALUES ('advance', 'money', $1, 1)`, args); err != nil {
			t.Fatal(err)
		}
		if found := run(t, w).Invariants[6]; found.Broken != want {
			t.Errorf("%s: %d actions have no job, want %d", args, found.Broken, want)
		}
	}
}

// A job that has come to its end moves nothing any more.
func TestAJobThatHasEndedIsNone(t *testing.T) {
	t.Parallel()
	w := lived(t)
	pa := openZap(w)
	for state, want := range map[string]int64{"completed": 1, "cancelled": 1, "discarded": 1, "running": 0, "retryable": 0} {
		if _, err := w.Pool.Exec(w.Ctx, `DELETE FROM river_job`); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO river_job (kind, queue, args, max_attempts, state, finalized_at)
			VALUES ('advance', 'money', jsonb_build_object('action', $1::bigint), 1, $2::river_job_state, CASE WHEN $3 THEN now() END)`, pa.ID, state, want == 1); err != nil {
			t.Fatal(err)
		}
		if found := run(t, w).Invariants[6]; found.Broken != want {
			t.Errorf("%s: %+v, want %d", state, found, want)
		}
	}
}

// A message to a webhook that has a job, or waits for one, or has ended, or was given its job just now, is no break.
func TestAMessageThatIsDeliveredIsNone(t *testing.T) {
	t.Parallel()
	once := lived(t)
	exec(once, message)
	job := func(state, finalized string) string {
		return `INSERT INTO river_job (kind, queue, args, max_attempts, state, finalized_at)
			SELECT 'delivery', 'deliveries', jsonb_build_object('message', id), 1, '` + state + `', ` + finalized + ` FROM webhook_message`
	}
	for sql, want := range map[string]int64{
		job("running", "NULL"): 0, job("scheduled", "NULL"): 0, job("completed", "now()"): 1, job("discarded", "now()"): 1,
		`UPDATE webhook_message SET ended_at = now()`: 0, `UPDATE webhook_message SET queued_at = NULL`: 0, `UPDATE webhook_message SET queued_at = '2026-01-02 01:00Z'`: 0,
	} {
		w := copied(t, once)
		exec(w, sql)
		if found := run(t, w).Invariants[6]; found.Broken != want {
			t.Errorf("%s: %+v, want %d", sql, found, want)
		}
	}
}

// The cost of a page does not grow with the actions, the claims and the keys that came after its own.
func TestAPageDoesNotReadWhatCameLater(t *testing.T) {
	t.Parallel()
	const looked = 20 // actions
	w := lived(t)
	cost := func() (pages int64) {
		t.Helper()
		tx, err := w.Pool.Begin(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(w.Ctx) }()
		q := db.New(tx)
		actions := make([]int64, looked)
		for i := range actions {
			actions[i] = int64(i + 1)
		}
		seen := func() (n int64) {
			if err := tx.QueryRow(w.Ctx, `SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid)) FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
				AND (c.relname LIKE 'paid_action%' OR c.relname LIKE 'relay_%')`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := seen()
		if _, err := q.BreaksOfKeys(w.Ctx, actions); err != nil {
			t.Fatal(err)
		}
		if _, err := q.PaymentsToCompare(w.Ctx, db.PaymentsToCompareParams{Actions: actions}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.BreaksOfAttempts(w.Ctx, actions); err != nil {
			t.Fatal(err)
		}
		if _, err := q.LostRecords(w.Ctx, actions); err != nil {
			t.Fatal(err)
		}
		if _, err := q.BreaksOfEffects(w.Ctx, actions); err != nil {
			t.Fatal(err)
		}
		if _, err := q.BreaksOfInvoices(w.Ctx, actions); err != nil {
			t.Fatal(err)
		}
		if _, err := q.BreaksOfVotes(w.Ctx, actions); err != nil {
			t.Fatal(err)
		}
		if _, err := q.BreaksOfVotesInPolls(w.Ctx, actions); err != nil {
			t.Fatal(err)
		}
		if _, err := q.MissingEffects(w.Ctx, db.MissingEffectsParams{Actions: actions}); err != nil {
			t.Fatal(err)
		}
		return seen() - before
	}
	// later adds ten thousand actions, their payments and claims: so many that no plan reads a whole table. The indexes are
	// as deep with two such crowds as with one.
	later := func(crowd string) {
		t.Helper()
		for _, sql := range []string{
			`INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, args, idempotency_key, args_hash)
				SELECT 'DONATE', 'BALANCE', 'FEE_CREDIT', 'PAID', (SELECT min(id) FROM usr), 1, now(), now(), '{}', $1 || g, '' FROM generate_series(1, 10000) AS g`,
			`INSERT INTO relay_payment (action_id, stage, payment_hash, bolt11, amount_msat, budget_msat, final_cltv, expires_at, failure_code, created_at, changed_at)
				SELECT id, 'failed', sha256(id::text::bytea), '', 1, 0, 0, now(), $1, now(), now() FROM paid_action WHERE idempotency_key LIKE $1 || '%'`,
			`INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until, outcome, ended_at)
				SELECT p.id, a.node, '', 1, now(), now(), 'NOT_SENT', now() FROM relay_payment p CROSS JOIN (SELECT min(node) AS node FROM relay_attempt) AS a
				WHERE p.failure_code = $1`,
		} {
			if _, err := w.Pool.Exec(w.Ctx, sql, crowd); err != nil {
				t.Fatal(err)
			}
		}
	}
	later("first ")
	cost() // what is read of the catalogue is read before
	few := cost()
	later("second ")
	if many := cost(); many > few+looked {
		t.Errorf("%d pages, and %d with ten thousand more behind", few, many)
	}
}
