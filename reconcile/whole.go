package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
)

// whole checks what concerns the whole database, in one snapshot.
func (r *run) whole(ctx context.Context, report *Report) error {
	timeout := statementTimeout
	if r.Changed.IsZero() {
		timeout *= 10
	}
	err := r.snapshot(ctx, timeout, func(q *db.Queries, tx pgx.Tx) error {
		if err := r.money(ctx, q); err != nil {
			return err
		}
		if err := r.guards(ctx, tx); err != nil {
			return err
		}
		if err := r.counters(ctx, q); err != nil {
			return err
		}
		if err := r.territories(ctx, q); err != nil {
			return err
		}
		if err := r.files(ctx, q); err != nil {
			return err
		}
		if err := r.deliveries(ctx, q); err != nil {
			return err
		}
		if err := r.ranges(ctx, q, tx); err != nil {
			return err
		}
		if err := r.deadlocks(ctx, tx); err != nil {
			return err
		}
		return report.losses(ctx, q)
	})
	if err != nil {
		return fmt.Errorf("look at the whole database: %w", err)
	}
	return nil
}

func (r *run) money(ctx context.Context, q *db.Queries) error {
	n, err := q.CountAccounts(ctx)
	if err != nil {
		return err
	}
	r.look(1, n)
	if r.Changed.IsZero() {
		err = r.postings(ctx, q)
	} else {
		err = r.totals(ctx, q)
	}
	if err != nil {
		return err
	}
	received, err := q.ReceivedByNobody(ctx, shown)
	if err != nil {
		return err
	}
	for _, b := range received {
		r.found(nobodys.broken(at{}, "%s: %d msat", ledger.Account(b.AccountID), b.Msat))
	}
	if len(received) > 0 {
		r.beyond[0] += received[0].Total - int64(len(received))
	}
	return r.system(ctx, q)
}

// system checks the accounts of the system against each other.
func (r *run) system(ctx context.Context, q *db.Queries) error {
	ids := make([]int64, 0, len(ledger.System()))
	for _, a := range ledger.System() {
		ids = append(ids, int64(a))
	}
	missing, err := q.MissingAccounts(ctx, db.MissingAccountsParams{System: ids, Users: r.Changed.IsZero(), Page: shown})
	if err != nil {
		return err
	}
	for _, b := range missing {
		r.found(accountGone.broken(at{}, "the account %d (%s) is not there", b.ID, ledger.Account(b.ID)))
	}
	if len(missing) > 0 {
		r.beyond[0] += missing[0].Total - int64(len(missing))
	}
	unused, err := q.UnusedAccounts(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range unused {
		r.found(inUnused.broken(at{}, "%d msat are in the account %d", b.Msat, b.ID))
	}
	rows, err := q.Balances(ctx, ids)
	if err != nil {
		return err
	}
	balance := map[ledger.Account]int64{}
	for _, row := range rows {
		balance[ledger.Account(row.ID)] = row.Balance
	}
	aside, err := q.SetAside(ctx)
	if err != nil {
		return err
	}
	if held := balance[ledger.RoutingSats]; held != aside {
		r.found(routingDiffers.broken(at{}, "%d msat are in %s, and %d are set aside for payments under way", held, ledger.RoutingSats, aside))
	}
	if backing, issued := balance[ledger.BackingSats], -balance[ledger.IssuedCredits]; backing != issued {
		r.found(notBacked.broken(at{}, "%d msat of credits are in circulation, and %d msat of sats back them", issued, backing))
	}
	for _, a := range []ledger.Account{ledger.ClearCredits, ledger.ClearSats} {
		if balance[a] != 0 {
			r.found(notCleared.broken(at{}, "%d msat are in %s", balance[a], a))
		}
	}
	return nil
}

// postings compares every balance with the sum of all that was ever posted.
func (r *run) postings(ctx context.Context, q *db.Queries) error {
	rows, err := q.BreaksOfConservation(ctx, shown)
	if err != nil {
		return err
	}
	for _, b := range rows {
		if b.Posted != b.Held {
			r.found(balanceDiffers.broken(at{}, "%s: %d msat by its postings, %d msat by its balance", ledger.Account(b.Account), b.Posted, b.Held))
		} else {
			r.found(belowZero.broken(at{}, "%s: %d msat", ledger.Account(b.Account), b.Held))
		}
	}
	if len(rows) > 0 {
		r.beyond[0] += rows[0].Total - int64(len(rows))
	}
	return r.rewards(ctx, q)
}

// totals checks what can be checked of the balances without reading all postings.
func (r *run) totals(ctx context.Context, q *db.Queries) error {
	sums, err := q.BreaksOfTotals(ctx)
	if err != nil {
		return err
	}
	for _, b := range sums {
		r.found(totalDiffers.broken(at{}, "all %s together are %d msat, not 0", ledger.Asset(b.Asset), b.Msat))
	}
	below, err := q.UsersBelowZero(ctx, shown)
	for _, b := range below {
		r.found(belowZero.broken(at{}, "%s: %d msat", ledger.Account(b.ID), b.Balance))
	}
	if len(below) > 0 {
		r.beyond[0] += below[0].Total - int64(len(below))
	}
	return err
}

// rewards audits the daily payouts: whatever is owed is posted, once, and a day pays no more than it had.
func (r *run) rewards(ctx context.Context, q *db.Queries) error {
	posted, err := q.BreaksOfRewards(ctx)
	if err != nil {
		return err
	}
	for _, b := range posted {
		r.found(rewardDiffers.broken(at{}, "%s to %s: %d msat are owed, %d msat posted, %d times", b.Reason, ledger.Account(b.Account), b.Owed, b.Posted, b.Postings))
	}
	days, err := q.BreaksOfRewardDays(ctx)
	for _, d := range days {
		r.found(rewardDayDiffers.broken(at{}, "the rewards of %s: of %d msat of credits and %d msat of sats %d and %d are paid, and %d and %d given",
			d.Day.Format(time.DateOnly), d.PoolCreditsMsat, d.PoolSatsMsat, d.PaidCreditsMsat, d.PaidSatsMsat, d.CreditsMsat, d.SatsMsat))
	}
	return err
}

// counters compares the counters of items with the rows that they count. Only a full run does so, since it reads all
// zaps.
func (r *run) counters(ctx context.Context, q *db.Queries) error {
	if !r.Changed.IsZero() {
		return nil
	}
	rows, err := q.BreaksOfCounters(ctx, shown)
	if err != nil {
		return fmt.Errorf("count what items count: %w", err)
	}
	for _, b := range rows {
		r.found(countedWrong.broken(at{}, "item %d counts %s %d, and it is %d by what happened", b.ID, b.Counter, b.Counted, b.Happened))
	}
	if len(rows) > 0 {
		r.beyond[2] += rows[0].Total - int64(len(rows))
	}
	invites, err := q.InvitesOfNobody(ctx, shown)
	if err != nil {
		return fmt.Errorf("look at the invites: %w", err)
	}
	for _, b := range invites {
		r.found(usedWrong.broken(at{}, "invite %d counts %d uses, and nobody has redeemed it", b.ID, b.Used))
	}
	if len(invites) > 0 {
		r.beyond[2] += invites[0].Total - int64(len(invites))
	}
	others, err := q.BreaksOfListing(ctx, shown)
	if err != nil {
		return fmt.Errorf("compare items with what feeds choose by: %w", err)
	}
	for _, b := range others {
		r.found(otherListing.broken(at{}, "feeds do not choose item %d as it is", b.ID))
	}
	if len(others) > 0 {
		r.beyond[2] += others[0].Total - int64(len(others))
	}
	return nil
}

// territories looks for those that are run for longer than was paid for. Only a full run does so.
func (r *run) territories(ctx context.Context, q *db.Queries) error {
	if !r.Changed.IsZero() {
		return nil
	}
	rows, err := q.BreaksOfTerritories(ctx, shown)
	if err != nil {
		return fmt.Errorf("look at the territories: %w", err)
	}
	for _, b := range rows {
		r.found(billedLate.broken(at{}, "territory %s, which is %s, is billed after what was paid for it, or its grace, is over", b.Name, b.State))
	}
	if len(rows) > 0 {
		r.beyond[2] += rows[0].Total - int64(len(rows))
	}
	return nil
}

// files looks for those without content. Only a full run does so.
func (r *run) files(ctx context.Context, q *db.Queries) error {
	if !r.Changed.IsZero() {
		return nil
	}
	rows, err := q.LostFiles(ctx, shown)
	if err != nil {
		return fmt.Errorf("look at the files: %w", err)
	}
	for _, b := range rows {
		r.found(fileLost.broken(at{}, "of file %d there is no content", b.ID))
	}
	if len(rows) > 0 {
		r.beyond[2] += rows[0].Total - int64(len(rows))
	}
	return nil
}

// deliveries looks for messages to webhooks that nobody delivers. Only a full run does so, since it reads all that are
// kept.
func (r *run) deliveries(ctx context.Context, q *db.Queries) error {
	if !r.Changed.IsZero() {
		return nil
	}
	rows, err := q.LostDeliveries(ctx, db.LostDeliveriesParams{Before: r.Now().Add(-r.Grace), Page: shown})
	if err != nil {
		return fmt.Errorf("look for messages that nobody delivers: %w", err)
	}
	for _, b := range rows {
		r.found(undelivered.broken(at{}, "message %d to webhook %d has not ended and has no job", b.ID, b.WebhookID))
	}
	if len(rows) > 0 {
		r.beyond[6] += rows[0].Total - int64(len(rows))
	}
	return nil
}

// ranges checks that the partitions are those of the ranges that are not archived, and looks for rows of actions in the
// default partitions, where only rows of no action belong.
func (r *run) ranges(ctx context.Context, q *db.Queries, tx pgx.Tx) error {
	id, err := q.CaughtByRest(ctx)
	if err != nil {
		return fmt.Errorf("look at what no partition has: %w", err)
	}
	r.look(1, 1)
	if id != 0 {
		r.found(caughtByRest.broken(at{}, "rows of action %d, and perhaps of others, are in no partition of a range", id))
	}
	apart, err := q.BreaksOfRanges(ctx)
	if err != nil {
		return fmt.Errorf("look at the ranges: %w", err)
	}
	for _, b := range apart {
		r.found(rangeDiffers.broken(at{}, "the range from %d to %d does not follow the one before, or is archived before it", b.FirstAction, b.LastAction))
	}
	due, err := q.PartitionsDue(ctx)
	if err != nil {
		return fmt.Errorf("look at the ranges: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent IN ('action_history'::regclass, 'posting'::regclass)`)
	if err != nil {
		return fmt.Errorf("look at the partitions: %w", err)
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look at the partitions: %w", err)
	}
	for _, name := range due {
		if !slices.Contains(there, name) {
			r.found(rangeDiffers.broken(at{}, "%s is no partition, and its range is not archived", name))
		}
	}
	for _, name := range there {
		if !slices.Contains(due, name) {
			r.found(rangeDiffers.broken(at{}, "%s is a partition, and its range is archived or not there", name))
		}
	}
	return nil
}

// guard is a part of the schema that prevents a break.
type guard struct {
	kind *Kind
	name string
}

// present lists the guards, and the query of PostgreSQL's catalogue that finds them; sqlc does not know the catalogue.
var present = []struct {
	guards []guard
	sql    string
}{
	{[]guard{{moneyUnguarded, "posting_append_only"}, {moneyUnguarded, "posting_action_known"}, {stepsUnguarded, "history_append_only"},
		{stepsUnguarded, "history_action_known"}, {stepsUnguarded, "refuse_beginning"}, {stepsUnguarded, "refuse_step"}, {stepsUnguarded, "refuse_delete"},
		{stepsUnguarded, "action_payer_known"}, {stepsUnguarded, "refuse_user_delete"}, {stepsUnguarded, "begin_key_epoch"},
		{stepsUnguarded, "begin_key_epoch_without_keys"}, {moneyUnguarded, "reward_append_only"},
		{moneyUnguarded, "reward_day_append_only"}, {moneyUnguarded, "open_user_accounts"}, {effectsUnguarded, "follow_item"},
		{moneyUnguarded, "archived_balance_append_only"}, {moneyUnguarded, "archived_loss_append_only"},
		{hashUnguarded, "foreign_hash_append_only"}, {hashUnguarded, "invoice_kept"}, {hashUnguarded, "inner_invoice_kept"},
		{hashUnguarded, "relay_payment_kept"}, {hashUnguarded, "relay_attempt_kept"},
		{moneyUnguarded, "posting_not_truncated"}, {moneyUnguarded, "reward_not_truncated"}, {moneyUnguarded, "reward_day_not_truncated"},
		{moneyUnguarded, "archived_balance_not_truncated"}, {moneyUnguarded, "archived_loss_not_truncated"},
		{moneyUnguarded, "account_kept"}, {moneyUnguarded, "account_not_truncated"}, {moneyUnguarded, "balance_delta_append_only"},
		{moneyUnguarded, "balance_delta_folded"}, {moneyUnguarded, "balance_delta_not_truncated"},
		{stepsUnguarded, "usr_not_truncated"}, {stepsUnguarded, "paid_action_not_truncated"}, {stepsUnguarded, "action_history_not_truncated"},
		{hashUnguarded, "foreign_hash_not_truncated"}, {hashUnguarded, "invoice_not_truncated"}, {hashUnguarded, "inner_invoice_not_truncated"},
		{hashUnguarded, "relay_payment_not_truncated"}, {hashUnguarded, "relay_attempt_not_truncated"}},
		// A row trigger of a partitioned table must be on for each partition, too, and so must one of TRUNCATE.
		`SELECT t.tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE t.tgname = ANY($1) AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition AND t.tgenabled IN ('O', 'A') AND (t.tgtype & 33 = 0 OR NOT EXISTS (
			SELECT FROM pg_partition_tree(t.tgrelid) p
			WHERE NOT EXISTS (SELECT FROM pg_trigger k WHERE k.tgrelid = p.relid AND k.tgname = t.tgname AND k.tgenabled IN ('O', 'A'))))`},
	{[]guard{{moneyUnguarded, "user_balance_not_negative"}, {moneyUnguarded, "user_delta_positive"}, {moneyUnguarded, "one_asset"}},
		// Partitions have those of their table, and what is archived keeps them.
		`SELECT k.conname::text FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
		WHERE k.conname = ANY($1) AND k.convalidated AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition`},
	{[]guard{{hashUnguarded, "invoice_payment_hash_key"}, {hashUnguarded, "relay_payment_hash"}, {hashUnguarded, "relay_payment_action_id_key"},
		{hashUnguarded, "relay_attempt_open"}, {hashUnguarded, "foreign_hash_pkey"},
		{hashUnguarded, "invoice_pkey"}, {hashUnguarded, "inner_invoice_pkey"}, {hashUnguarded, "relay_payment_inside_id_key"},
		{keysUnguarded, "paid_action_key"}, {keysUnguarded, "paid_action_anonymous_key"}, {keysUnguarded, "paid_action_successor"},
		{keysUnguarded, "paid_action_one_attempt"},
		{effectsUnguarded, "zap_pkey"}, {effectsUnguarded, "zap_total_pkey"}, {effectsUnguarded, "donation_pkey"}, {effectsUnguarded, "boost_pkey"},
		{effectsUnguarded, "poll_vote_pkey"}, {effectsUnguarded, "poll_vote_once"}, {effectsUnguarded, "vote_event_pkey"},
		{effectsUnguarded, "bounty_payment_pkey"}, {effectsUnguarded, "invite_redemption_pkey"}, {effectsUnguarded, "territory_pkey"},
		{effectsUnguarded, "invite_redemption_action_id_key"}, {effectsUnguarded, "item_edit_pkey"}, {effectsUnguarded, "territory_transfer_action_id_key"},
		{moneyUnguarded, "account_pkey"}, {moneyUnguarded, "reward_pkey"}, {moneyUnguarded, "reward_day_pkey"},
		{moneyUnguarded, "archived_loss_pkey"}},
		`SELECT c.relname::text FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relname = ANY($1) AND i.indisunique AND i.indisvalid
		AND c.relnamespace = 'public'::regnamespace`},
}

// guards checks that the database still refuses what it should refuse by itself.
func (r *run) guards(ctx context.Context, tx pgx.Tx) error {
	for _, p := range present {
		names := make([]string, len(p.guards))
		for i, g := range p.guards {
			names[i] = g.name
			r.look(g.kind.Invariant, 1)
		}
		rows, err := tx.Query(ctx, p.sql, names)
		if err != nil {
			return fmt.Errorf("look for guards: %w", err)
		}
		there, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for guards: %w", err)
		}
		for _, g := range p.guards {
			if slices.Contains(there, g.name) {
				continue
			}
			var table *string // the table of a trigger that exists but does nothing
			if err := tx.QueryRow(ctx, `SELECT min(c.relname::text) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
				WHERE t.tgname = $1 AND t.tgenabled NOT IN ('O', 'A')`, g.name).Scan(&table); err != nil {
				return fmt.Errorf("look for where %s is switched off: %w", g.name, err)
			}
			if table != nil {
				r.found(g.kind.broken(at{}, "the trigger %s of the table %s is switched off", g.name, *table))
			} else {
				r.found(g.kind.broken(at{}, "%s is gone", g.name))
			}
		}
	}
	return r.switchedOff(ctx, tx)
}

// switchedOff finds every other trigger that somebody has switched off, including those of foreign keys: pg_restore
// switches triggers off, and leaves them so if it breaks off.
func (r *run) switchedOff(ctx context.Context, tx pgx.Tx) error {
	var named []string
	for _, g := range present[0].guards {
		named = append(named, g.name)
	}
	rows, err := tx.Query(ctx, `SELECT DISTINCT c.relname || ': ' || coalesce(k.conname, t.tgname) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
		WHERE c.relnamespace = 'public'::regnamespace AND t.tgenabled NOT IN ('O', 'A') AND t.tgname <> ALL($1) ORDER BY 1`, named)
	if err != nil {
		return fmt.Errorf("look for triggers that are off: %w", err)
	}
	off, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for triggers that are off: %w", err)
	}
	for _, name := range off {
		r.found(moneyUnguarded.broken(at{}, "the trigger of %s is switched off", name))
	}
	return nil
}

// deadlocks reads PostgreSQL's statistics, a view that sqlc does not know.
func (r *run) deadlocks(ctx context.Context, tx pgx.Tx) error {
	var n int64
	if err := tx.QueryRow(ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		return fmt.Errorf("count deadlocks: %w", err)
	}
	r.look(10, 1)
	if n > 0 {
		r.found(deadlocked.broken(at{}, "PostgreSQL has broken %d deadlocks", n))
		r.beyond[9] += n - 1
	}
	return nil
}

// open checks that something will move everything that is open, and in time.
func (r *run) open(ctx context.Context) error {
	var n int64
	now := r.Now()
	late := now.Add(-r.Grace)
	err := r.snapshot(ctx, statementTimeout, func(q *db.Queries, _ pgx.Tx) (err error) {
		if n, err = q.CountOpen(ctx); err != nil {
			return err
		}
		for after := int64(0); ; {
			rows, err := q.BreaksOfDeadlines(ctx, db.BreaksOfDeadlinesParams{Overdue: late, WaitsSince: late.Add(-r.MaxWait), WaitsTo: now.Add(dbclock.Apart), After: after, Page: page})
			for _, b := range rows {
				r.foundOpen(b)
				after = b.ID
			}
			if err != nil || len(rows) < page {
				return err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("look at open actions: %w", err)
	}
	r.look(7, n)
	return nil
}

func (r *run) foundOpen(b db.BreaksOfDeadlinesRow) {
	a := of(b.ID)
	if b.Deadline == nil {
		r.found(noDeadline.broken(a, "action %d is %s and has no deadline", b.ID, b.State))
	}
	if b.Idle {
		r.found(idle.broken(a, "action %d is %s and has no job", b.ID, b.State))
	}
	if b.Overdue {
		r.found(overdue.broken(a, "action %d is still %s, since its deadline at %s", b.ID, b.State, b.Deadline.UTC().Format(time.RFC3339)))
	}
	if b.TooHigh {
		r.found(tooHigh.broken(a, "action %d is still %s, and its node is past the safety height of its payment", b.ID, b.State))
	}
}
