package reconcile_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
)

// look asks the database for one kind of break, and returns how many there are.
type look func(ctx context.Context, q *db.Queries, actions []int64) (int, error)

func count[T any](rows []T, err error) (int, error) { return len(rows), err }

// wrong are the rows that actions have made, and of which this is true.
func wrong(ctx context.Context, q *db.Queries, actions []int64, is func(db.BreaksOfEffectsRow) bool) ([]db.BreaksOfEffectsRow, error) {
	rows, err := q.BreaksOfEffects(ctx, actions)
	return slices.DeleteFunc(rows, func(r db.BreaksOfEffectsRow) bool { return !is(r) }), err
}

var (
	effects look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(wrong(ctx, q, a, func(r db.BreaksOfEffectsRow) bool { return r.Differs }))
	}
	amounts look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(wrong(ctx, q, a, func(r db.BreaksOfEffectsRow) bool { return r.OtherAmount }))
	}
	owners look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(wrong(ctx, q, a, func(r db.BreaksOfEffectsRow) bool { return r.Others }))
	}
	subjects look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(wrong(ctx, q, a, func(r db.BreaksOfEffectsRow) bool { return r.OtherItem }))
	}
	missing look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.MissingEffects(ctx, db.MissingEffectsParams{Actions: a}))
	}
	counters look = func(ctx context.Context, q *db.Queries, _ []int64) (int, error) {
		return count(q.BreaksOfCounters(ctx, 100))
	}
	listing look = func(ctx context.Context, q *db.Queries, _ []int64) (int, error) {
		return count(q.BreaksOfListing(ctx, 100))
	}
	options look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.BreaksOfVotesInPolls(ctx, a))
	}
	votes look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.BreaksOfVotes(ctx, a))
	}
	territories look = func(ctx context.Context, q *db.Queries, _ []int64) (int, error) {
		return count(q.BreaksOfTerritories(ctx, 100))
	}
	invites look = func(ctx context.Context, q *db.Queries, _ []int64) (int, error) {
		return count(q.InvitesOfNobody(ctx, 100))
	}
	hashes look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.ClaimsOfHashes(ctx, a))
	}
	unnoted look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.UnnotedHashes(ctx, a))
	}
	attempts look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.BreaksOfAttempts(ctx, a))
	}
	payments look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.BreaksOfPayment(ctx, a))
	}
	returns look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.BreaksOfReturns(ctx, a))
	}
	preimages look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.WrongPreimages(ctx, a))
	}
	accounts look = func(ctx context.Context, q *db.Queries, _ []int64) (int, error) {
		return count(q.MissingAccounts(ctx, db.MissingAccountsParams{System: []int64{0}, Users: true, Page: 1}))
	}
	records look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.LostRecords(ctx, a))
	}
	keys look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.BreaksOfKeys(ctx, a))
	}
	weak look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.WeakKeys(ctx, a))
	}
	caught look = func(ctx context.Context, q *db.Queries, _ []int64) (int, error) {
		id, err := q.CaughtByRest(ctx)
		return int(id), err
	}
	ranges look = func(ctx context.Context, q *db.Queries, _ []int64) (int, error) {
		return count(q.BreaksOfRanges(ctx))
	}
	relayed look = func(ctx context.Context, q *db.Queries, a []int64) (int, error) {
		return count(q.BreaksOfRelay(ctx, db.BreaksOfRelayParams{Actions: a}))
	}
)

// parts are what a kind of break consists of: TestEveryKindOfBreakIsFound makes each kind in one way only. {bought} is an
// action that has none of the rows that others make.
var parts = []struct {
	what string
	look look
	sql  string
}{
	{"a user's account, though a node was paid", payments, `UPDATE posting SET from_account = (SELECT payer_id * 16 FROM paid_action WHERE id = {opt}) WHERE action_id = {opt} AND from_account = 0`},
	{"credits, where the method says sats", payments, `UPDATE paid_action SET method = 'REWARD_SATS' WHERE id = {credits}`},

	{"somebody else has what was overpaid", returns, `UPDATE posting SET to_account = 17 WHERE action_id = {opt} AND from_account = 1 AND reason = 'overpaid'`},
	{"the rewards have what was overpaid", returns, `UPDATE posting SET to_account = 3 WHERE action_id = {held} AND from_account = 1 AND reason = 'overpaid'`},
	{"somebody else has the credits", returns, `UPDATE posting SET to_account = 17 WHERE action_id = {bought} AND from_account = 1`},
	{"somebody else has what a withdrawal did not need", returns, `UPDATE posting SET to_account = 16 WHERE action_id = {withdrawn} AND reason = 'unused routing fee'`},
	{"what goes back has left", returns, `UPDATE posting SET to_account = 0 WHERE action_id = {refunded} AND from_account = 6`},

	{"no sats of a user", accounts, `DELETE FROM account WHERE id = 16`},
	{"no credits of a user", accounts, `DELETE FROM account WHERE id = 33`},
	{"no account of the system", accounts, `DELETE FROM account WHERE id = 0`},

	{"an item that was paid for does not count", effects, `UPDATE item SET state = 'PENDING'`},
	{"a zap counts that was not paid for", effects, `UPDATE zap SET state = 'PAID' WHERE state = 'FAILED'`},
	{"a donation that was paid for does not count", effects, `INSERT INTO donation (action_id, msat, state) VALUES ({opt}, 1, 'PENDING')`},
	{"a donation counts that was not paid for", effects, `INSERT INTO donation (action_id, msat, state) VALUES ({retried}, 1, 'PAID')`},
	{"a vote counts that was not paid for", effects, `INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state) SELECT {retried}, 1, 1, min(id), 'PAID' FROM usr`},
	{"a bounty counts that was not paid", effects, `INSERT INTO bounty_payment SELECT min(item.id), {retried}, min(item.id), min(usr.id), now() FROM item, usr`},
	{"a boost counts that was not paid for", effects, `INSERT INTO boost (action_id, item_id, msat, state, paid_at, expires_at) VALUES ({retried}, 1, 1, 'PAID', now(), now())`},
	{"a boost that failed still waits", effects, `INSERT INTO boost (action_id, item_id, msat, state) VALUES ({retried}, 1, 1, 'PENDING')`},
	{"a change that was paid for waits", effects, `INSERT INTO item_edit (action_id, item_id, body, created_at) SELECT {opt}, min(id), 'x', now() FROM item`},
	{"a file is shown that was not paid for", effects, `INSERT INTO upload (id, token, client_hash, bytes, content_type, fee_msat, item_id, action_id, paid_at, created_at, unclaimed_at)
		SELECT 1, repeat('x', 22), sha256('x'), 1, 'image/png', 1, min(id), {retried}, now(), now(), now() FROM item`},
	{"a file that was paid for is not shown", effects, `INSERT INTO upload (id, token, client_hash, bytes, content_type, fee_msat, item_id, action_id, created_at, unclaimed_at)
		SELECT 1, repeat('x', 22), sha256('x'), 1, 'image/png', 1, min(id), {opt}, now(), now() FROM item`},
	{"a territory is reserved by what has ended", effects, `INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at) SELECT 'x', min(id), 1, 1, now() FROM usr;
		UPDATE territory SET pending_action = {opt}`},
	{"a territory was handed over for nothing", effects, `INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at) SELECT 'x', min(id), 1, 1, now() FROM usr;
		INSERT INTO territory_transfer (territory, from_user, to_user, action_id, at) SELECT 'x', min(id), max(id), {retried}, now() FROM usr`},
	{"an invite was redeemed for nothing", effects, `INSERT INTO invite (code, inviter_id, gift_msat, uses_limit, created_at) SELECT repeat('a', 32), min(id), 1000, 1, now() FROM usr;
		INSERT INTO invite_redemption (user_id, code, action_id, at) SELECT max(id), repeat('a', 32), {retried}, now() FROM usr`},

	{"what was paid for was not performed", missing, `ALTER TABLE paid_action DROP CONSTRAINT paid_was_performed; UPDATE paid_action SET result = NULL WHERE id = {opt}`},
	{"no item", missing, `UPDATE paid_action SET kind = 'ITEM_CREATE' WHERE id = {bought}`},
	{"no zap", missing, `UPDATE paid_action SET kind = 'ZAP' WHERE id = {bought}`},
	{"no down-zap", missing, `UPDATE paid_action SET kind = 'DOWN_ZAP' WHERE id = {bought}`},
	{"no donation", missing, `UPDATE paid_action SET kind = 'DONATE' WHERE id = {bought}`},
	{"no vote", missing, `UPDATE paid_action SET kind = 'POLL_VOTE' WHERE id = {bought}`},
	{"no boost", missing, `UPDATE paid_action SET kind = 'BOOST' WHERE id = {bought}`},
	{"no transfer of a territory", missing, `UPDATE paid_action SET kind = 'TERRITORY_UNARCHIVE' WHERE id = {bought}`},
	{"no territory", missing, `UPDATE paid_action SET kind = 'TERRITORY_BILLING', result = '{"territory": "x"}' WHERE id = {bought}`},
	{"a territory that waits for what was paid", missing, `INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at, state, pending_action)
		SELECT 'x', 1, 1, 1, now(), 'PENDING', {bought}; UPDATE paid_action SET kind = 'TERRITORY_CREATE', result = '{"territory": "x"}' WHERE id = {bought}`},
	{"a grace without an end", territories, `INSERT INTO territory (name, founder_id, base_cost_msat, reply_cost_msat, created_at, state, billing, period_start, period_day, paid_until, grace_until, bill_at)
		VALUES ('x', 1, 1, 1, now(), 'GRACE', 'MONTHLY', '2026-01-01', 1, '2026-02-01', '2026-03-01', 'infinity')`},
	{"no file of a post", missing, `UPDATE paid_action SET args = args || '{"uploads": [1]}' WHERE id = (SELECT action_id FROM item)`},
	{"no boost of a post", missing, `UPDATE paid_action SET args = args || '{"boost": 5}' WHERE id = (SELECT action_id FROM item)`},
	{"no redeemed invite", missing, `UPDATE paid_action SET kind = 'INVITE_GIFT' WHERE id = {bought}`},
	{"no withdrawal", missing, `UPDATE paid_action SET kind = 'WITHDRAW' WHERE id = {bought}`},
	{"no credits", missing, `UPDATE paid_action SET kind = 'BUY_CREDITS' WHERE id = {withdrawn}`},

	{"a zap of another amount", amounts, `UPDATE zap SET msat = msat + 1 WHERE action_id = {opt}`},
	{"a donation of another amount", amounts, `INSERT INTO donation (action_id, msat, state) VALUES ({opt}, 1, 'PAID')`},
	{"a boost of another amount", amounts, `UPDATE paid_action SET kind = 'BOOST' WHERE id = {opt};
		INSERT INTO boost (action_id, item_id, msat, state, paid_at, expires_at) VALUES ({opt}, 1, 1, 'PAID', now(), now())`},

	{"a post's boost of another amount", amounts, `UPDATE paid_action SET args = args || '{"boost": 5}' WHERE id = (SELECT action_id FROM item);
		INSERT INTO boost (action_id, item_id, user_id, msat, state, paid_at, expires_at) SELECT action_id, id, author_id, 6000, 'PAID', now(), now() FROM item`},
	{"another's item", owners, `UPDATE item SET author_id = (SELECT max(id) FROM usr)`},
	{"another item", subjects, `UPDATE item SET action_id = {bought}`},
	{"another's zap", owners, `UPDATE zap SET user_id = NULL WHERE action_id = {opt}`},
	{"a zap of another item", subjects, `UPDATE zap SET item_id = 99 WHERE action_id = {opt}`},
	{"another's donation", owners, `INSERT INTO donation (action_id, msat, state) VALUES ({bought}, 1, 'PAID')`},
	{"another's vote", owners, `INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state)
		SELECT id, (result->>'item')::bigint, 1, (SELECT id FROM usr WHERE usr.id <> payer_id LIMIT 1), 'PAID' FROM paid_action WHERE id = {opt}`},
	{"a vote in another poll", subjects, `INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state) SELECT id, 99, 1, payer_id, 'PAID' FROM paid_action WHERE id = {opt}`},
	{"another's boost", owners, `INSERT INTO boost (action_id, item_id, msat, state, paid_at, expires_at)
		SELECT id, (result->>'item')::bigint, 1, 'PAID', now(), now() FROM paid_action WHERE id = {opt}`},
	{"a vote for another option", options, `UPDATE paid_action SET args = '{"option": 999}' WHERE id = {opt};
		INSERT INTO poll_option (item_id, position, text) SELECT min(id), 9, 'another' FROM item;
		INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state) SELECT {opt}, item_id, id, 1, 'PAID' FROM poll_option`},
	{"a vote for an option of another poll", options, `UPDATE paid_action SET args = '{"option": 99}' WHERE id = {opt};
		INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state) VALUES ({opt}, 1, 99, 1, 'PAID')`},
	{"a vote of what was not paid", votes, `UPDATE vote_event SET action_id = {retried} WHERE action_id = {opt}`},
	{"a vote of no zap", votes, `UPDATE vote_event SET action_id = {bought} WHERE action_id = {opt}`},
	{"a vote of nobody", votes, `UPDATE zap SET user_id = NULL WHERE action_id = {opt}`},
	{"a zap without a vote", votes, `DELETE FROM vote_event WHERE action_id = {opt}`},
	{"a vote for another item", votes, `UPDATE vote_event SET item_id = 99, author_id = NULL WHERE action_id = {opt}`},
	{"a vote for another author", votes, `UPDATE vote_event SET author_id = NULL WHERE action_id = {opt}`},
	{"a vote that goes the other way", votes, `UPDATE vote_event SET micros = -micros`},
	{"a vote in another asset", votes, `DELETE FROM reward; DELETE FROM reward_day; UPDATE vote_event SET credits = NOT credits WHERE action_id = {opt}`},
	{"a vote of another day", votes, `UPDATE vote_event SET at = at + interval '1 day' WHERE action_id = {opt}`},
	{"a boost of another item", subjects, `INSERT INTO boost (action_id, item_id, user_id, msat, state, paid_at, expires_at)
		SELECT id, 99, payer_id, 1, 'PAID', now(), now() FROM paid_action WHERE id = {opt}`},

	{"msat", counters, `UPDATE item_count SET msat = msat + 1`},
	{"msat, not folded", counters, `INSERT INTO item_delta (item_id, msat) SELECT min(id), 1 FROM item`},
	{"credit_msat", counters, `UPDATE item_count SET credit_msat = credit_msat + 1`},
	{"credit_msat, not folded", counters, `INSERT INTO item_delta (item_id, credit_msat) SELECT min(id), 1 FROM item`},
	{"down_msat", counters, `UPDATE item_count SET down_msat = down_msat + 1`},
	{"down_msat, not folded", counters, `INSERT INTO item_delta (item_id, down_msat) SELECT min(id), 1 FROM item`},
	{"comment_msat", counters, `UPDATE item_count SET comment_msat = comment_msat + 1`},
	{"comment_msat, not folded", counters, `INSERT INTO item_delta (item_id, comment_msat) SELECT min(id), 1 FROM item`},
	{"boost_msat", counters, `UPDATE item_count SET boost_msat = boost_msat + 1`},
	{"boost_msat, not folded", counters, `INSERT INTO item_delta (item_id, boost_msat) SELECT min(id), 1 FROM item`},
	{"upvotes", counters, `UPDATE item_count SET upvotes = upvotes + 1`},
	{"downvotes", counters, `UPDATE item_count SET downvotes = downvotes + 1`},
	{"vote_micros", counters, `UPDATE item_count SET vote_micros = vote_micros + 1`},
	{"comments", counters, `UPDATE item_count SET comments = comments + 1`},
	{"what somebody has zapped an item with", counters, `UPDATE zap_total SET msat = msat + 1`},
	{"what another has zapped an item with", counters, `UPDATE zap_total SET user_id = user_id + 100`},
	{"what somebody has zapped an item with down", counters, `UPDATE zap_total SET down = true`},
	{"what each of two has zapped an item with", counters, `INSERT INTO zap_total (item_id, user_id, down, msat) SELECT item_id, user_id + 100, down, 1 FROM zap_total LIMIT 1;
		UPDATE zap_total SET msat = msat - 1 WHERE user_id < 100`},
	{"an invite that nobody has redeemed", invites, `INSERT INTO invite (code, inviter_id, gift_msat, uses_limit, used, created_at) VALUES (repeat('a', 32), 1, 1000, 2, 1, now())`},
	{"no counters", counters, `DELETE FROM item_count`},
	{"listed, though not everybody sees it", listing, `ALTER TABLE item DISABLE TRIGGER follow_item; UPDATE item SET deleted_at = now()`},
	{"not listed", listing, `UPDATE item_count SET listed = false`},
	{"listed in another territory", listing, `UPDATE item_count SET territory = 'x'`},
	{"listed at another time", listing, `UPDATE item_count SET created_at = created_at + interval '1 second'`},

	{"a claim that may still be paid", hashes, `INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until)
		SELECT id, 'elsewhere', 'x', 1, now(), now() FROM relay_payment WHERE action_id = {withdrawn}`},
	{"a wrapped hash", unnoted, `DELETE FROM foreign_hash WHERE used = 'WRAPPED'`},
	{"a withdrawn hash", unnoted, `DELETE FROM foreign_hash WHERE used = 'WITHDRAWN'`},

	{"another budget than the receiver's invoice was accepted with", relayed, `UPDATE relay_payment SET budget_msat = budget_msat - 1, fee_msat = fee_msat - 1 WHERE action_id = {wrapped}`},
	{"less than the payer of a withdrawal has set aside", relayed, `UPDATE relay_payment SET amount_msat = amount_msat - 1 WHERE action_id = {withdrawn}`},
	{"a payment that was written off, and is not booked as lost", relayed, `UPDATE action_history SET fact = 'WRITTEN_OFF' WHERE action_id = {wrapped} AND to_state = 'PAID'`},

	{"another receiver's invoice", relayed, `UPDATE relay_payment SET bolt11 = 'another' WHERE action_id = {wrapped}`},
	{"another receiver", relayed, `UPDATE relay_payment SET receiver_id = (SELECT max(id) FROM usr) WHERE action_id = {wrapped}`},
	{"set aside for what was paid, and never booked", relayed, `UPDATE relay_payment SET stage = 'pending_confirmation', fee_msat = NULL WHERE action_id = {withdrawn};
		DELETE FROM posting WHERE action_id = {withdrawn} AND from_account = 6`},

	{"a payment that is not made, of what was paid on", relayed, `UPDATE relay_payment SET stage = 'incoming', preimage = NULL, fee_msat = NULL WHERE action_id = {wrapped}`},
	{"a payment that is not made, of what was withdrawn", relayed, `UPDATE relay_payment SET stage = 'in_work', preimage = NULL, fee_msat = NULL WHERE action_id = {withdrawn}`},
	{"a payment that was given up, of what goes on", relayed, `UPDATE relay_payment SET stage = 'failed', preimage = NULL, fee_msat = NULL, failure_code = 'X' WHERE action_id = {wrapped};
		UPDATE paid_action SET state = 'FORWARDED', deadline = now() WHERE id = {wrapped}`},
	{"a payment that goes on, of what gives the money back", relayed, `UPDATE relay_payment SET stage = 'in_work', preimage = NULL, fee_msat = NULL WHERE action_id = {wrapped};
		UPDATE paid_action SET state = 'FAILED_FORWARD', deadline = now() WHERE id = {wrapped}`},
	{"a payment that goes on, of what is cancelled", relayed, `UPDATE relay_payment SET stage = 'in_work', preimage = NULL, fee_msat = NULL WHERE action_id = {wrapped};
		UPDATE paid_action SET state = 'CANCELING', deadline = now() WHERE id = {wrapped}`},

	{"no payment of a withdrawal", records, `DELETE FROM relay_attempt USING relay_payment r WHERE payment_id = r.id AND r.action_id = {withdrawn}; DELETE FROM relay_payment WHERE action_id = {withdrawn}`},
	{"no payment of a forward", records, `DELETE FROM relay_attempt USING relay_payment r WHERE payment_id = r.id AND r.action_id = {wrapped}; DELETE FROM relay_payment WHERE action_id = {wrapped}`},

	{"no receiver's invoice", records, `DELETE FROM inner_invoice WHERE action_id = {wrapped}`},

	{"no preimage", preimages, `UPDATE invoice SET preimage = NULL WHERE action_id = {opt}`},
	{"no preimage of what was paid on", preimages, `UPDATE invoice SET preimage = NULL WHERE action_id = {wrapped}`},
	{"another preimage of what was paid on", preimages, `UPDATE invoice SET preimage = sha256('x') WHERE action_id = {wrapped}`},

	{"an anonymous payer's key twice", keys, `DROP INDEX paid_action_anonymous_key;
		UPDATE paid_action SET payer_id = NULL, idempotency_key = repeat('x', 22), args_hash = sha256('x') WHERE id IN ({opt}, {held})`},

	{"a key of no arguments", weak, `ALTER TABLE paid_action DROP CONSTRAINT key_has_hash; UPDATE paid_action SET idempotency_key = 'x', args_hash = NULL WHERE id = {opt}`},

	{"a step in no partition of a range", caught, `DO $$ DECLARE first_one bigint; BEGIN
		FOR first_one IN SELECT first_action FROM action_range LOOP EXECUTE format('ALTER TABLE action_history DETACH PARTITION %I', 'action_history_' || first_one); END LOOP; END $$;
		INSERT INTO action_history OVERRIDING SYSTEM VALUE SELECT * FROM action_history_1`},

	{"a range that does not follow the one before", ranges, `UPDATE action_range SET last_action = last_action - 1 WHERE first_action = 1`},
	{"no first range", ranges, `DELETE FROM action_range WHERE first_action = 1`},
	{"a range that is archived before an earlier one", ranges, `UPDATE action_range SET archived_at = now(), steps = 0, postings = 0 WHERE first_action > 1`},

	{"the next attempt but one", attempts, `UPDATE paid_action SET attempt = attempt + 1 WHERE id = (SELECT successor_id FROM paid_action WHERE id = {retried})`},
	{"an attempt at something else", attempts, `UPDATE paid_action SET kind = 'DONATE' WHERE id = (SELECT successor_id FROM paid_action WHERE id = {retried})`},
	{"another's attempt", attempts, `UPDATE paid_action SET payer_id = NULL WHERE id = (SELECT successor_id FROM paid_action WHERE id = {retried})`},
	{"an attempt that comes after none", attempts, `UPDATE paid_action SET genesis_id = {opt}, attempt = 2 WHERE id = {held}`},
	{"an attempt beside a first one that is open", attempts, `ALTER TABLE paid_action DROP CONSTRAINT retried_has_successor;
		UPDATE paid_action SET state = 'PENDING', deadline = now() WHERE id = {retried}`},
	{"an attempt of another beginning", attempts, `UPDATE paid_action SET genesis_id = {opt} WHERE id = (SELECT successor_id FROM paid_action WHERE id = {retried})`},
}

// writes says which table a part of a kind changes.
var writes = regexp.MustCompile(`(?:INSERT INTO|UPDATE) (\w+)`)

// Each part of a kind is looked at, alone: none is found before, and it is found after. Of each table whose rows
// actions have made, parts have a row that does not stand as its action does; and one over another amount, one of
// somebody else and one about another item, if it says so.
func TestEveryPartOfAKindIsFound(t *testing.T) {
	t.Parallel()
	w := lived(t)
	var actions []int64
	if err := w.Pool.QueryRow(w.Ctx, `SELECT array_agg(id ORDER BY id) FROM paid_action`).Scan(&actions); err != nil {
		t.Fatal(err)
	}
	const bought = `(SELECT max(id) FROM paid_action WHERE kind = 'BUY_CREDITS')`
	undone := errors.New("so that the next part finds nothing of it")
	broken := map[string]db.BreaksOfEffectsRow{} // by table, what of it was found wrong
	for _, p := range parts {
		err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
			q := db.New(tx)
			if n, err := p.look(w.Ctx, q, actions); n != 0 || err != nil {
				t.Errorf("%s: %d are found where there are none, error %v", p.what, n, err)
			}
			for _, sql := range []string{guardsOff, strings.ReplaceAll(someAction.Replace(p.sql), "{bought}", bought)} {
				if _, err := tx.Exec(w.Ctx, sql); err != nil {
					return err
				}
			}
			if n, err := p.look(w.Ctx, q, actions); n == 0 || err != nil {
				t.Errorf("%s: not found, error %v", p.what, err)
			}
			rows, err := q.BreaksOfEffects(w.Ctx, actions)
			for _, row := range rows {
				for _, m := range writes.FindAllStringSubmatch(p.sql, -1) {
					b := broken[m[1]]
					b.Differs, b.OtherAmount = b.Differs || row.Differs, b.OtherAmount || row.OtherAmount
					b.Others, b.OtherItem = b.Others || row.Others, b.OtherItem || row.OtherItem
					broken[m[1]] = b
				}
			}
			return errors.Join(err, undone)
		})
		if !errors.Is(err, undone) {
			t.Errorf("%s: %v", p.what, err)
		}
	}
	for _, table := range enginetest.Tables(w.Ctx, t, w.Pool) {
		b := broken[table.Name]
		for _, needed := range []struct {
			lacks bool
			row   string
		}{
			{!b.Differs, "that stands otherwise than its action"}, {table.Priced && !b.OtherAmount, "over another amount"},
			{table.Owned && !b.Others, "of somebody else"}, {table.About && !b.OtherItem, "about another item"},
		} {
			if needed.lacks {
				t.Errorf("parts lacks a row of %s %s: add one", table.Name, needed.row)
			}
		}
	}
}
