package migrations_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// ofMoney are the tables that say who has paid what, to whom, and for what.
var ofMoney = []string{"account", "balance_delta", "posting", "paid_action", "action_history", "invoice", "inner_invoice", "foreign_hash", "relay_payment", "relay_attempt",
	"zap", "zap_total", "donation", "boost", "vote_event", "poll_vote", "bounty_payment", "reward_day", "reward", "invite", "invite_redemption",
	"action_range", "archived_balance", "archived_loss"}

// good is a row or more of each of them. Action 1 is paid from a balance, 2 has failed, 3 waits for an anonymous payer, 4 withdraws, 5 has failed and was tried
// again by 6, and 7 has withdrawn.
const good = `
	INSERT INTO usr (name, created_at) VALUES ('payer', now()), ('author', now());
	INSERT INTO paid_action (kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args, failure_code, idempotency_key, args_hash, attempt, genesis_id)
	VALUES ('ZAP', 'BALANCE', 'FEE_CREDIT', 'PAID', 1, 1, now(), now(), NULL, '{}', NULL, 'key', sha256('1'), 1, NULL),
		('ZAP', 'OPTIMISTIC', 'OPTIMISTIC', 'FAILED', 1, 1, now(), now(), NULL, '{}', 'EXPIRED', NULL, NULL, 1, NULL),
		('ZAP', 'WRAPPED', 'P2P', 'PENDING_HELD', NULL, 1, now(), now(), now(), '{}', NULL, 'anonymous', sha256('3'), 1, NULL),
		('WITHDRAW', 'OUTGOING', 'OUTGOING', 'FORWARDING', 1, 1, now(), now(), now(), '{}', NULL, NULL, NULL, 1, NULL),
		('ZAP', 'OPTIMISTIC', 'OPTIMISTIC', 'FAILED', 1, 1, now(), now(), NULL, '{}', 'EXPIRED', NULL, NULL, 1, NULL),
		('ZAP', 'OPTIMISTIC', 'OPTIMISTIC', 'PENDING', 1, 1, now(), now(), now(), '{}', NULL, NULL, NULL, 2, 5),
		('WITHDRAW', 'OUTGOING', 'OUTGOING', 'PAID', 1, 1, now(), now(), NULL, '{}', NULL, NULL, NULL, 1, NULL);
	UPDATE paid_action SET state = 'RETRYING', successor_id = 6 WHERE id = 5;
	INSERT INTO action_history (action_id, to_state, fact, at) VALUES (1, 'PAID', 'REQUESTED', now());
	INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (1, 17, 33, 1, 'zap', now());
	INSERT INTO balance_delta (account_id, msat) VALUES (33, 1);
	INSERT INTO invoice (action_id, node, payment_hash, preimage, hold, amount_msat, memo, cltv_delta, expires_at, bolt11)
	VALUES (3, 'one', sha256('3'), NULL, true, 2, '', 80, now(), 'ln3'), (6, 'one', sha256('6'), NULL, false, 1, '', 80, now(), 'ln6');
	INSERT INTO inner_invoice (action_id, receiver_id, wallet_id, bolt11, amount_msat, budget_msat, final_cltv, expires_at) VALUES (3, 2, 1, 'ln', 1, 1, 18, now());
	INSERT INTO foreign_hash (payment_hash, used) VALUES (sha256('3'), 'WRAPPED'), (sha256('4'), 'WITHDRAWN');
	INSERT INTO relay_payment (action_id, stage, payment_hash, bolt11, payer_id, amount_msat, budget_msat, final_cltv, expires_at, node, preimage, fee_msat, inside_id, created_at, changed_at)
	VALUES (4, 'in_work', sha256('4'), 'ln', 1, 1, 0, 18, now(), 'one', NULL, NULL, NULL, now(), now()), (7, 'completed', sha256('7'), 'ln', 1, 1, 0, 18, now(), 'one', sha256('p'), 0, 2, now(), now());
	INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until, outcome, ended_at)
	VALUES (1, 'one', 'key', 1, now(), now(), NULL, NULL), (2, 'one', 'key', 1, now(), now(), 'PAID', now());
	INSERT INTO item (author_id, action_id, state, ancestors, title, body, created_at) VALUES (2, 1, 'PAID', '{}', 'a title', '', now());
	INSERT INTO zap (action_id, item_id, user_id, msat, state) VALUES (1, 1, 1, 1, 'PAID');
	INSERT INTO zap_total (item_id, user_id, msat) VALUES (1, 1, 1);
	INSERT INTO donation (action_id, user_id, msat, state) VALUES (1, 1, 1, 'PAID');
	INSERT INTO boost (action_id, item_id, user_id, msat, state, paid_at, expires_at) VALUES (1, 1, 1, 1, 'PAID', now(), now()), (6, 1, 1, 1, 'PENDING', NULL, NULL);
	INSERT INTO vote_event (action_id, item_id, author_id, micros, at, credits) VALUES (1, 1, 2, 1, now(), true);
	INSERT INTO poll_vote (action_id, item_id, option_id, user_id, state) VALUES (1, 1, 1, 1, 'PAID'), (6, 2, 2, 1, 'PENDING');
	INSERT INTO bounty_payment (item_id, action_id, comment_id, user_id, at) VALUES (1, 1, 1, 1, now());
	INSERT INTO reward_day VALUES ('2026-01-01', 2, 2, 2, 0, now());
	INSERT INTO reward VALUES ('2026-01-01', 1, 1, 1, 1, 0), ('2026-01-01', 2, 2, 1, 1, 0);
	INSERT INTO invite (code, inviter_id, gift_msat, uses_limit, used, created_at) VALUES ('0123456789abcdef', 1, 1, 1, 1, now());
	INSERT INTO invite_redemption (user_id, code, action_id, at) VALUES (2, '0123456789abcdef', 1, now());
	INSERT INTO archived_balance VALUES (1, 17, 1);
	INSERT INTO archived_loss (action_id, msat, incoming) VALUES (1, 1, false)`

// refused are the constraints and unique indexes of these tables, and what each of them, and nothing else, refuses. Where it has several parts, each is there.
var refused = map[string][]string{
	"account account_id_check":                            {`INSERT INTO account (id) VALUES (-1)`, `INSERT INTO account (id) VALUES (18)`},
	"account account_pkey":                                {`INSERT INTO account (id) VALUES (17)`},
	"account user_balance_not_negative":                   {`UPDATE account SET balance = -1 WHERE id = 16`},
	"balance_delta user_delta_positive":                   {`UPDATE balance_delta SET msat = -1`, `UPDATE balance_delta SET msat = 0`},
	"posting one_asset":                                   {`UPDATE posting SET to_account = 32`},
	"posting posting_check":                               {`UPDATE posting SET to_account = from_account`},
	"posting posting_msat_check":                          {`UPDATE posting SET msat = 0`},
	"archived_balance archived_balance_pkey":              {`INSERT INTO archived_balance VALUES (1, 17, 2)`},
	"archived_loss archived_loss_pkey":                    {`INSERT INTO archived_loss (action_id, msat, incoming) VALUES (1, 2, true)`},
	"archived_loss archived_loss_msat_check":              {`UPDATE archived_loss SET msat = -1`},
	"archived_loss archived_loss_action_id_fkey":          {`UPDATE archived_loss SET action_id = 99`},
	"archived_balance archived_balance_first_action_fkey": {`UPDATE archived_balance SET first_action = 2`},
	"action_range action_range_pkey":                      {`INSERT INTO action_range (first_action, last_action) VALUES (1, 2)`},
	"action_range range_is_one":                           {`UPDATE action_range SET last_action = 0 WHERE first_action = 1`},
	"action_range archived_is_counted": {`UPDATE action_range SET archived_at = now()`, `UPDATE action_range SET steps = 1, archived_at = now()`,
		`UPDATE action_range SET postings = 1, archived_at = now()`, `UPDATE action_range SET steps = 1, postings = 1`},

	"paid_action failed_has_reason":                 {`UPDATE paid_action SET failure_code = NULL WHERE id = 2`, `UPDATE paid_action SET failure_code = NULL WHERE id = 5`},
	"paid_action key_has_hash":                      {`UPDATE paid_action SET args_hash = NULL WHERE id = 1`, `UPDATE paid_action SET args_hash = sha256('2') WHERE id = 2`},
	"paid_action open_has_deadline":                 eachOpen(`UPDATE paid_action SET deadline = NULL, state = '{state}' WHERE id = 3`),
	"paid_action paid_action_attempt_check":         {`UPDATE paid_action SET attempt = 0`},
	"paid_action paid_action_cost_msat_check":       {`UPDATE paid_action SET cost_msat = -1`},
	"paid_action paid_action_idempotency_key_check": {`UPDATE paid_action SET idempotency_key = '' WHERE id = 1`, `UPDATE paid_action SET idempotency_key = repeat('x', 256) WHERE id = 1`},
	"paid_action paid_was_performed":                {`UPDATE paid_action SET state = 'PAID' WHERE id = 3`, `UPDATE paid_action SET state = 'PAID' WHERE id = 6`},
	"paid_action retried_has_successor":             {`UPDATE paid_action SET successor_id = NULL WHERE id = 5`, `UPDATE paid_action SET successor_id = 1 WHERE id = 2`},
	"paid_action paid_action_genesis_id_fkey":       {`UPDATE paid_action SET genesis_id = 99 WHERE id = 6`},
	"paid_action paid_action_successor_id_fkey":     {`UPDATE paid_action SET successor_id = 99 WHERE id = 5`},
	"paid_action paid_action_proved_id_fkey":        {`UPDATE paid_action SET proved_id = 99`},
	"paid_action paid_action_key":                   {`UPDATE paid_action SET idempotency_key = 'key', args_hash = sha256('2') WHERE id = 2`},
	"paid_action paid_action_anonymous_key":         {`UPDATE paid_action SET payer_id = NULL, idempotency_key = 'anonymous' WHERE id = 1`},
	"paid_action paid_action_successor":             {`UPDATE paid_action SET state = 'RETRYING', successor_id = 6 WHERE id = 2`},
	"paid_action paid_action_one_attempt": append(eachOpen(`UPDATE paid_action SET deadline = now(), state = '{state}', genesis_id = 5 WHERE id = 2`),
		`UPDATE paid_action SET genesis_id = 5 WHERE id = 1`),

	"invoice invoice_pkey":                {`INSERT INTO invoice SELECT action_id, node, sha256('x'), preimage, hold, amount_msat, memo, cltv_delta, expires_at FROM invoice`},
	"invoice invoice_action_id_fkey":      {`UPDATE invoice SET action_id = 99 WHERE action_id = 6`},
	"invoice invoice_payment_hash_key":    {`UPDATE invoice SET payment_hash = sha256('3') WHERE action_id = 6`},
	"invoice invoice_payment_hash_check":  {`UPDATE invoice SET payment_hash = 'short' WHERE action_id = 6`},
	"invoice invoice_preimage_check":      {`UPDATE invoice SET preimage = 'short'`},
	"invoice invoice_amount_msat_check":   {`UPDATE invoice SET amount_msat = 0`},
	"invoice invoice_received_msat_check": {`UPDATE invoice SET received_msat = 0`},
	"invoice invoice_cltv_delta_check":    {`UPDATE invoice SET cltv_delta = 0`},
	"invoice dropped_has_no_text":         {`UPDATE invoice SET dropped_at = now()`},

	"inner_invoice inner_invoice_pkey":              {`INSERT INTO inner_invoice SELECT * FROM inner_invoice`},
	"inner_invoice inner_invoice_action_id_fkey":    {`UPDATE inner_invoice SET action_id = 1`},
	"inner_invoice inner_invoice_receiver_id_fkey":  {`UPDATE inner_invoice SET receiver_id = 99`},
	"inner_invoice inner_invoice_amount_msat_check": {`UPDATE inner_invoice SET amount_msat = 0`},
	"inner_invoice inner_invoice_budget_msat_check": {`UPDATE inner_invoice SET budget_msat = -1`},
	"inner_invoice inner_invoice_final_cltv_check":  {`UPDATE inner_invoice SET final_cltv = -1`},
	"foreign_hash foreign_hash_pkey":                {`INSERT INTO foreign_hash VALUES (sha256('3'), 'WITHDRAWN')`, `INSERT INTO foreign_hash VALUES (sha256('4'), 'WITHDRAWN')`},
	"foreign_hash foreign_hash_payment_hash_check":  {`INSERT INTO foreign_hash VALUES ('short', 'WRAPPED')`},
	"foreign_hash foreign_hash_used_check":          {`INSERT INTO foreign_hash VALUES (sha256('x'), 'BOTH')`},

	"relay_payment relay_payment_action_id_key":    {`UPDATE relay_payment SET action_id = 4`},
	"relay_payment relay_payment_action_id_fkey":   {`UPDATE relay_payment SET action_id = 99 WHERE id = 1`},
	"relay_payment relay_payment_inside_id_key":    {`UPDATE relay_payment SET inside_id = 2`},
	"relay_payment relay_payment_inside_id_fkey":   {`UPDATE relay_payment SET inside_id = 99 WHERE id = 1`},
	"relay_payment relay_payment_payer_id_fkey":    {`UPDATE relay_payment SET payer_id = 99`},
	"relay_payment relay_payment_receiver_id_fkey": {`UPDATE relay_payment SET receiver_id = 99, wallet_id = 1`},
	"relay_payment relay_payment_hash": {`UPDATE relay_payment SET payment_hash = sha256('7')`,
		`UPDATE relay_payment SET payment_hash = sha256('7'), stage = 'incoming' WHERE id = 1`,
		`UPDATE relay_payment SET payment_hash = sha256('7'), stage = 'pending_confirmation', preimage = sha256('p') WHERE id = 1`},
	"relay_payment relay_payment_payment_hash_check": {`UPDATE relay_payment SET payment_hash = 'short' WHERE id = 1`},
	"relay_payment relay_payment_preimage_check":     {`UPDATE relay_payment SET preimage = 'short' WHERE id = 2`},
	"relay_payment relay_payment_amount_msat_check":  {`UPDATE relay_payment SET amount_msat = 0`},
	"relay_payment relay_payment_budget_msat_check":  {`UPDATE relay_payment SET budget_msat = -1`},
	"relay_payment relay_payment_fee_msat_check":     {`UPDATE relay_payment SET fee_msat = -1 WHERE id = 2`},
	"relay_payment relay_payment_final_cltv_check":   {`UPDATE relay_payment SET final_cltv = -1`},
	"relay_payment forward_has_wallet":               {`UPDATE relay_payment SET receiver_id = 2`, `UPDATE relay_payment SET wallet_id = 1`},
	"relay_payment work_has_node":                    {`UPDATE relay_payment SET node = NULL WHERE id = 1`},
	// What was made is not sent again, nor given up.
	"relay_payment paid_has_preimage": {`UPDATE relay_payment SET preimage = NULL WHERE id = 2`, `UPDATE relay_payment SET stage = 'pending_confirmation' WHERE id = 1`,
		`UPDATE relay_payment SET stage = 'incoming', fee_msat = NULL WHERE id = 2`, `UPDATE relay_payment SET stage = 'in_work', fee_msat = NULL WHERE id = 2`,
		`UPDATE relay_payment SET stage = 'failed', failure_code = 'NO_ROUTE', fee_msat = NULL WHERE id = 2`},
	"relay_payment completed_has_fee": {`UPDATE relay_payment SET fee_msat = NULL WHERE id = 2`, `UPDATE relay_payment SET fee_msat = 0 WHERE id = 1`,
		`UPDATE relay_payment SET stage = 'incoming', preimage = NULL WHERE id = 2`},
	"relay_payment failed_has_reason":             {`UPDATE relay_payment SET stage = 'failed' WHERE id = 1`},
	"relay_attempt relay_attempt_payment_id_fkey": {`UPDATE relay_attempt SET payment_id = 99 WHERE id = 1`},
	"relay_attempt relay_attempt_open":            {`UPDATE relay_attempt SET payment_id = 1, outcome = NULL, ended_at = NULL WHERE id = 2`},
	"relay_attempt relay_attempt_outcome_check":   {`UPDATE relay_attempt SET outcome = 'LOST' WHERE id = 2`},
	"relay_attempt ended_has_outcome":             {`UPDATE relay_attempt SET outcome = 'PAID' WHERE id = 1`, `UPDATE relay_attempt SET ended_at = now() WHERE id = 1`},

	"zap zap_pkey":                     {`INSERT INTO zap (action_id, item_id, user_id, msat, state) VALUES (1, 2, 1, 1, 'PAID')`},
	"zap zap_msat_check":               {`UPDATE zap SET msat = 0`},
	"zap_total zap_total_pkey":         {`INSERT INTO zap_total (item_id, user_id, msat) VALUES (1, 1, 2)`},
	"zap_total zap_total_msat_check":   {`UPDATE zap_total SET msat = 0`},
	"donation donation_pkey":           {`INSERT INTO donation SELECT * FROM donation`},
	"donation donation_msat_check":     {`UPDATE donation SET msat = 0`},
	"donation donation_action_id_fkey": {`UPDATE donation SET action_id = 99`},
	"donation donation_user_id_fkey":   {`UPDATE donation SET user_id = 99`},
	"boost boost_pkey":                 {`UPDATE boost SET action_id = 6`},
	"boost boost_msat_check":           {`UPDATE boost SET msat = 0`},
	"boost boost_action_id_fkey":       {`UPDATE boost SET action_id = 99 WHERE action_id = 1`},
	"boost boost_user_id_fkey":         {`UPDATE boost SET user_id = 99`},
	"boost boost_lasts_once_paid": {`UPDATE boost SET paid_at = NULL, expires_at = NULL WHERE action_id = 1`, `UPDATE boost SET expires_at = NULL WHERE action_id = 1`,
		`UPDATE boost SET paid_at = now(), expires_at = now() WHERE action_id = 6`},
	"boost boost_expires_once_paid":                      {`UPDATE boost SET expired_at = now() WHERE action_id = 6`},
	"vote_event vote_event_pkey":                         {`INSERT INTO vote_event SELECT * FROM vote_event`},
	"poll_vote poll_vote_pkey":                           {`UPDATE poll_vote SET action_id = 6`},
	"poll_vote poll_vote_once":                           {`UPDATE poll_vote SET item_id = 1`, `UPDATE poll_vote SET item_id = 1, state = 'PAID'`},
	"poll_vote poll_vote_action_id_fkey":                 {`UPDATE poll_vote SET action_id = 99 WHERE action_id = 1`},
	"poll_vote poll_vote_user_id_fkey":                   {`UPDATE poll_vote SET user_id = 99`},
	"poll_vote counted_is_paid":                          {`UPDATE poll_vote SET counted = true WHERE action_id = 6`},
	"bounty_payment bounty_payment_pkey":                 {`INSERT INTO bounty_payment SELECT item_id, 7, comment_id, user_id, at FROM bounty_payment`},
	"bounty_payment bounty_payment_item_id_fkey":         {`UPDATE bounty_payment SET item_id = 99`},
	"bounty_payment bounty_payment_action_id_fkey":       {`UPDATE bounty_payment SET action_id = 99`},
	"bounty_payment bounty_payment_comment_id_fkey":      {`UPDATE bounty_payment SET comment_id = 99`},
	"bounty_payment bounty_payment_user_id_fkey":         {`UPDATE bounty_payment SET user_id = 99`},
	"reward_day reward_day_pkey":                         {`INSERT INTO reward_day VALUES ('2026-01-01', 0, 0, 0, 0, now())`},
	"reward_day reward_day_pool_credits_msat_check":      {`UPDATE reward_day SET pool_credits_msat = -1, paid_credits_msat = -1`},
	"reward_day reward_day_pool_sats_msat_check":         {`UPDATE reward_day SET pool_sats_msat = -1`},
	"reward_day all_or_nothing":                          {`UPDATE reward_day SET paid_credits_msat = 1`, `UPDATE reward_day SET paid_sats_msat = 3`},
	"reward reward_pkey":                                 {`INSERT INTO reward VALUES ('2026-01-01', 1, 3, 1, 1, 0)`},
	"reward reward_day_rank_key":                         {`UPDATE reward SET rank = 1`},
	"reward reward_day_fkey":                             {`UPDATE reward SET day = '2026-01-02'`},
	"reward reward_user_id_fkey":                         {`UPDATE reward SET user_id = 99 WHERE rank = 1`},
	"reward reward_rank_check":                           {`UPDATE reward SET rank = 0 WHERE rank = 1`},
	"reward reward_micros_check":                         {`UPDATE reward SET micros = 0`},
	"reward reward_credits_msat_check":                   {`UPDATE reward SET credits_msat = -1, sats_msat = 1`},
	"reward reward_sats_msat_check":                      {`UPDATE reward SET sats_msat = -1`},
	"reward reward_is_something":                         {`UPDATE reward SET credits_msat = 0`},
	"invite invite_pkey":                                 {`INSERT INTO invite (code, inviter_id, gift_msat, uses_limit, created_at) VALUES ('0123456789abcdef', 2, 1, 1, now())`},
	"invite invite_code_check":                           {`INSERT INTO invite (code, inviter_id, gift_msat, uses_limit, created_at) VALUES ('guessable', 1, 1, 1, now())`},
	"invite invite_inviter_id_fkey":                      {`UPDATE invite SET inviter_id = 99`},
	"invite invite_gift_msat_check":                      {`UPDATE invite SET gift_msat = 0`},
	"invite invite_uses_limit_check":                     {`UPDATE invite SET uses_limit = 0, used = 0`},
	"invite used_within_limit":                           {`UPDATE invite SET used = 2`, `UPDATE invite SET used = -1`},
	"invite_redemption invite_redemption_pkey":           {`INSERT INTO invite_redemption SELECT user_id, code, 7, at FROM invite_redemption`},
	"invite_redemption invite_redemption_action_id_key":  {`INSERT INTO invite_redemption SELECT 1, code, action_id, at FROM invite_redemption`},
	"invite_redemption invite_redemption_user_id_fkey":   {`UPDATE invite_redemption SET user_id = 99`},
	"invite_redemption invite_redemption_code_fkey":      {`UPDATE invite_redemption SET code = 'fedcba9876543210'`},
	"invite_redemption invite_redemption_action_id_fkey": {`UPDATE invite_redemption SET action_id = 99`},
}

func eachOpen(sql string) (all []string) {
	for _, state := range []string{"PENDING", "PENDING_HELD", "HELD", "FORWARDING", "FORWARDED", "FAILED_FORWARD", "CANCELING"} {
		all = append(all, strings.ReplaceAll(sql, "{state}", state))
	}
	return all
}

// lived is a database with these rows, whose triggers are on.
func lived(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	do(t, pool, `ALTER TABLE paid_action DISABLE TRIGGER refuse_beginning`, good, `ALTER TABLE paid_action ENABLE TRIGGER refuse_beginning`)
	return pool
}

// wantRefused fails the test unless the statement is refused. It returns the reason; nothing has changed.
func wantRefused(t *testing.T, tx pgx.Tx, sql string) *pgconn.PgError {
	t.Helper()
	ctx := t.Context()
	trial, err := tx.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = trial.Exec(ctx, sql)
	if err := trial.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	refusal := &pgconn.PgError{}
	if !errors.As(err, &refusal) {
		t.Errorf("%s: %v", sql, err)
	}
	return refusal
}

// What the code never writes the database refuses as well, by each of its constraints and unique indexes alone: triggers are off, which would refuse some of it
// first. None of them is without an example.
func TestWhatMustNeverBeIsRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := lived(t)
	for _, table := range ofMoney {
		do(t, pool, `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for guard, statements := range refused {
		for _, sql := range statements {
			// The partition posting_1 refuses for posting.
			if by := wantRefused(t, tx, sql); strings.TrimSuffix(by.TableName, "_1")+" "+by.ConstraintName != guard {
				t.Errorf("%s: %s refuses it, want %s", sql, by, guard)
			}
		}
	}
	// The numbers of rows that number themselves are not listed.
	rows, err := tx.Query(ctx, `
		SELECT conrelid::regclass || ' ' || conname FROM pg_constraint c WHERE conrelid::regclass::text = ANY($1) AND contype <> 'n'
			AND NOT (contype = 'p' AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = conrelid AND a.attnum = ANY(conkey) AND a.attidentity <> ''))
		UNION SELECT indrelid::regclass || ' ' || relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
		WHERE indrelid::regclass::text = ANY($1) AND indisunique AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
		ORDER BY 1`, ofMoney)
	if err != nil {
		t.Fatal(err)
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, guard := range there {
		if refused[guard] == nil {
			t.Errorf("nothing in refused says what %q refuses: add a statement that it, and nothing else, refuses", guard)
		}
	}
	for guard := range refused {
		if !slices.Contains(there, guard) {
			t.Errorf("refused has %q, which no table of ofMoney has", guard)
		}
	}
}

// ofNoMoney are the tables that name actions, and not who has paid what: what was written, who is told of it, and how it went with wallets.
var ofNoMoney = []string{"item", "item_edit", "notification", "territory", "territory_transfer", "upload", "wallet_failure", "wallet_log", "webhook_message"}

// A table whose rows belong to actions is one of those, or one of ofMoney.
func TestTablesOfActionsAreOfMoneyOrNot(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.New(t).Query(t.Context(), `SELECT DISTINCT t.relname::text FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
		WHERE t.relkind IN ('r', 'p') AND NOT t.relispartition AND t.relnamespace = 'public'::regnamespace AND (a.attname = 'action_id'
			OR EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = t.oid AND a.attnum = ANY(c.conkey) AND c.confrelid = 'paid_action'::regclass))`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if slices.Contains(ofMoney, table) == slices.Contains(ofNoMoney, table) {
			t.Errorf("%s belongs to actions: it is either in ofMoney, with a row in good and what refuses others in refused, or in ofNoMoney", table)
		}
	}
	for _, table := range ofNoMoney {
		if !slices.Contains(tables, table) {
			t.Errorf("%s belongs to no action", table)
		}
	}
}

// What was written once is not changed or deleted afterwards.
func TestWhatIsKeptForEverIsNotDeleted(t *testing.T) {
	t.Parallel()
	tx, err := lived(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, sql := range []string{
		`UPDATE posting SET at = at`, `DELETE FROM posting`, `UPDATE action_history SET at = at`, `DELETE FROM action_history`,
		`UPDATE reward SET rank = rank`, `DELETE FROM reward`, `UPDATE reward_day SET day = day`, `DELETE FROM reward_day`,
		`UPDATE archived_balance SET msat = msat`, `DELETE FROM archived_balance`, `UPDATE archived_loss SET msat = msat`, `DELETE FROM archived_loss`,
		`UPDATE foreign_hash SET used = used`, `DELETE FROM foreign_hash`, `DELETE FROM invoice`, `DELETE FROM inner_invoice`, `DELETE FROM relay_payment`, `DELETE FROM relay_attempt`,
		`DELETE FROM account`, `UPDATE balance_delta SET msat = msat`, `DELETE FROM balance_delta`,
		`WITH folded AS (UPDATE account SET balance = balance WHERE id <> 33) DELETE FROM balance_delta`,
	} {
		if by := wantRefused(t, tx, sql); by.Code != "HF002" {
			t.Errorf("%s: %s", sql, by)
		}
	}
}

// Nor is a table of them emptied at once, which no trigger of a row would see; nor one of its partitions alone, one that
// is made later included.
func TestWhatIsKeptForEverIsNotTruncated(t *testing.T) {
	t.Parallel()
	tx, err := lived(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT make_action_ranges(10000000, 3)`); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), `SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
		WHERE c.relnamespace = 'public'::regnamespace AND NOT tgisinternal AND tgname <> 'begin_key_epoch' AND tgtype & 8 <> 0 ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := pgx.CollectRows(rows, pgx.RowTo[string]) // whose rows are not deleted
	if err != nil || !slices.Contains(kept, "posting_30000001") || !slices.Contains(kept, "action_history_rest") || !slices.Contains(kept, "usr") {
		t.Fatalf("%q, %v", kept, err)
	}
	for _, table := range kept {
		if by := wantRefused(t, tx, `TRUNCATE `+table+` CASCADE`); by.Code != "HF002" || !strings.HasPrefix(by.Message, table+":") {
			t.Errorf("%s: %s", table, by)
		}
	}
}
