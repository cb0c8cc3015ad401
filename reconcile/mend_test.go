package reconcile_test

import (
	"os"
	"strings"
	"testing"
)

// mends are what an operator does who does what the advice about a break says.
var mends = map[string]string{
	"1 balance":        `UPDATE account SET balance = balance - 1 WHERE id = 17`,
	"1 account":        `INSERT INTO account (id, balance) VALUES (8, 0)`,
	"1 routing":        `{transfer} VALUES (NULL, 32, 6, 5, 'x', '2026-01-01') {booked}`,
	"1 backing":        `{transfer} VALUES (NULL, 17, 1, 5, 'x', '2026-01-01') {booked}`,
	"1 clearing":       `{transfer} VALUES (NULL, 5, 17, 5, 'x', '2026-01-01') {booked}`,
	"1 range":          `UPDATE action_range SET archived_at = NULL, steps = NULL, postings = NULL WHERE first_action = 1`,
	"1 unused":         `{transfer} VALUES (NULL, 9, 17, 5, 'x', '2026-01-01') {booked}`,
	"2 ended":          changing(`action_history`, `history_append_only`, `DELETE FROM action_history WHERE id = (SELECT max(id) FROM action_history WHERE action_id = {opt})`),
	"2 not-refunded":   `{transfer} VALUES ({refunded}, 6, 32, 25000, 'refund by hand', '2026-01-01') {booked}`,
	"3 counts":         `UPDATE zap SET state = 'FAILED' WHERE action_id IN (SELECT id FROM paid_action WHERE state IN ('FAILED', 'RETRYING'))`,
	"3 does-not-count": `UPDATE item SET state = 'PAID'`,
	"3 not-undone":     `UPDATE zap SET state = 'FAILED' WHERE state = 'PENDING'`,
	"3 amount":         `UPDATE invoice SET amount_msat = amount_msat - 1 WHERE action_id = {opt}`,
	"3 author":         `UPDATE item SET author_id = (SELECT payer_id FROM paid_action WHERE id = item.action_id)`,
	"3 other-item": `UPDATE paid_action SET result = jsonb_set(result, '{item}', to_jsonb((SELECT id FROM item WHERE action_id = paid_action.id)))
		WHERE id = (SELECT min(action_id) FROM item)`,
	"3 counter":   `UPDATE item_count SET msat = msat - 1`,
	"3 listing":   `UPDATE item SET state = state`,
	"3 vote":      `UPDATE vote_event SET author_id = (SELECT author_id FROM item WHERE id = item_id) WHERE action_id = {opt}`,
	"3 territory": `UPDATE territory SET bill_at = paid_until`,
	"4 not-noted": `INSERT INTO foreign_hash (payment_hash, used) SELECT payment_hash, 'WITHDRAWN' FROM relay_payment WHERE receiver_id IS NULL
		UNION SELECT payment_hash, 'WRAPPED' FROM relay_payment WHERE receiver_id IS NOT NULL`,
	"6 step": changing(`action_history`, `history_append_only`, `UPDATE action_history SET to_state = 'RETRYING' WHERE from_state = 'FAILED'`),
	"6 gap": `INSERT INTO action_history (id, action_id, from_state, to_state, fact, at) OVERRIDING SYSTEM VALUE
		SELECT min(n), {held}, 'PENDING_HELD', 'HELD', 'INVOICE_ACCEPTED', now() FROM generate_series(
			(SELECT min(id) FROM action_history WHERE action_id = {held}), (SELECT max(id) FROM action_history)) n WHERE NOT EXISTS (SELECT FROM action_history WHERE id = n)`,
	"6 end":         `INSERT INTO action_history (action_id, from_state, to_state, fact, at) VALUES ({opt}, 'PENDING', 'PAID', 'INVOICE_SETTLED', now())`,
	"6 attempt":     `UPDATE paid_action SET successor_id = (SELECT id FROM paid_action n WHERE n.genesis_id = paid_action.id) WHERE id = {retried}`,
	"7 undelivered": `UPDATE webhook_message SET queued_at = NULL`,
	"8 two-actions": `{transfer} VALUES (NULL, 8, 32, 10000, 'paid twice', '2026-01-01') {booked}; UPDATE paid_action SET idempotency_key = id WHERE idempotency_key = 'x';
		CREATE UNIQUE INDEX paid_action_key ON paid_action (payer_id, idempotency_key) WHERE payer_id IS NOT NULL AND idempotency_key IS NOT NULL`,
	"9 claim":      `UPDATE relay_payment SET node = (SELECT node FROM relay_attempt WHERE payment_id = relay_payment.id AND outcome = 'PAID') WHERE action_id = {withdrawn}`,
	"9 terms":      `UPDATE relay_payment SET amount_msat = amount_msat - 1 WHERE action_id = {wrapped}`,
	"9 booked-fee": `UPDATE relay_payment SET fee_msat = fee_msat - 1 WHERE action_id = {withdrawn}`,
	"9 set-aside":  `{transfer} SELECT action_id, 6, 32, budget_msat - fee_msat, 'unused routing fee', '2026-01-01' FROM relay_payment WHERE action_id = {withdrawn} {booked}`,
}

// What was never booked is not in the balances either.
var unbooked = map[string]string{
	"2 not-refunded": `UPDATE account SET balance = balance + CASE id WHEN 6 THEN 25000 ELSE -25000 END WHERE id IN (6, 32); `,
	"9 set-aside": `UPDATE account SET balance = balance + CASE id WHEN 6 THEN 1 ELSE -1 END * (SELECT budget_msat - fee_msat FROM relay_payment WHERE action_id = {withdrawn})
		WHERE id IN (6, 32); `,
}

// changing changes rows that a trigger keeps, as docs/reconcile.md says.
func changing(table, trigger, sql string) string {
	return `ALTER TABLE ` + table + ` DISABLE TRIGGER ` + trigger + `; ` + sql + `; ALTER TABLE ` + table + ` ENABLE TRIGGER ` + trigger
}

// Whoever does what the advice about a break says has ended it, and has broken nothing else: the next one to be woken would
// mend that, with people's money. The guards of the database refuse none of it.
func TestFollowingTheAdviceMends(t *testing.T) {
	t.Parallel()
	once := lived(t)
	for name, mend := range mends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copied(t, once)
			exec(w, guardsOff+someAction.Replace(unbooked[name]+breakings[name].sql)+guardsOn)
			if run(t, w).OK {
				t.Fatal("nothing is broken")
			}
			exec(w, someAction.Replace(mend))
			for _, i := range run(t, w).Invariants {
				for _, b := range i.Breaks {
					t.Errorf("%d %s: %s", i.ID, b.Kind, b.What)
				}
			}
		})
	}
}

// What went to the rewards, or was booked to them by mistake, is taken from there again: that is nobody's reward, and
// no break of its own, which would be told for ever.
func TestWhatIsTakenBackFromTheRewardsIsNoBreak(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, guardsOff+someAction.Replace(`UPDATE posting SET to_account = 3 WHERE action_id = {held} AND from_account = 1 AND reason = 'overpaid';
		UPDATE account SET balance = balance + CASE id WHEN 3 THEN 2000 ELSE -2000 END WHERE id IN (3, 33)`)+guardsOn)
	if run(t, w).OK {
		t.Fatal("nothing is broken")
	}
	for _, sql := range []string{`NULL, 3, 5, 2000, 'put right by hand'`, `{held}, 5, 33, 2000, 'put right by hand'`,
		`NULL, 32, 4, 7, 'given by hand, to nobody'`, `NULL, 4, 32, 7, 'put right by hand'`} {
		exec(w, someAction.Replace(`{transfer} VALUES (`+sql+`, '2026-01-01') {booked}`))
	}
	if report := run(t, w); !report.OK {
		t.Errorf("%+v", report)
	}
	exec(w, someAction.Replace(`{transfer} VALUES (NULL, 3, 33, 7, 'taken', '2026-01-01') {booked}`))
	if broken := run(t, w).Invariants[0].Breaks; len(broken) != 1 || broken[0].Kind != "reward" {
		t.Errorf("what was taken is told as %+v", broken)
	}
}

// The page's statements change a row that a trigger keeps, and leave the trigger as it was.
func TestThePageSaysHowARowIsChanged(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/reconcile.md")
	if err != nil {
		t.Fatal(err)
	}
	_, statements, _ := strings.Cut(string(text), "state of its last step:\n\n```sql\n")
	statements, _, there := strings.Cut(statements, "```")
	if !there {
		t.Fatal("the page has no statements for a row")
	}
	w := lived(t)
	exec(w, guardsOff+someAction.Replace(`UPDATE paid_action SET state = 'FAILED_FORWARD', deadline = now() WHERE id = {refunded}`)+guardsOn)
	exec(w, strings.ReplaceAll(statements, "= 42", "= "+someAction.Replace(`(SELECT max(id) FROM paid_action WHERE state = 'FAILED_FORWARD')`)))
	if report := run(t, w); !report.OK {
		t.Errorf("%+v", report)
	}
}
