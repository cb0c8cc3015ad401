package community_test

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// sometimes are the actions whose rows are there only if they were asked for, so that reconcile cannot say that one is missing.
var sometimes = []string{community.KindItemUpdate, community.KindTerritoryUnarchive}

// others are the tables that name actions and are not what an action has made: how it is paid, who is told of it, and what counters are made of, which reconcile
// holds against the rows themselves.
var others = []string{"archived_loss", "inner_invoice", "invoice", "notification", "paid_action", "relay_payment", "vote_event", "wallet_failure", "wallet_log", "webhook_message"}

// ofOthers are the tables whose users are not the payers: of a bounty, who has got it; of an invite, who has redeemed it.
var ofOthers = []string{"bounty_payment", "invite_redemption"}

// effects are what reconcile finds wrong with the rows that actions have made.
type effects struct {
	states  []db.BreaksOfEffectsRow
	amounts []db.BreaksOfAmountsRow
	owners  []db.BreaksOfOwnersRow
	missing []db.MissingEffectsRow
}

func (d *drive) effects(of db.DBTX, actions ...int64) (e effects) {
	d.Helper()
	q := db.New(of)
	var err error
	if e.states, err = q.BreaksOfEffects(d.Ctx, actions); err == nil {
		if e.amounts, err = q.BreaksOfAmounts(d.Ctx, actions); err == nil {
			if e.owners, err = q.BreaksOfOwners(d.Ctx, actions); err == nil {
				e.missing, err = q.MissingEffects(d.Ctx, db.MissingEffectsParams{Actions: actions})
			}
		}
	}
	if err != nil {
		d.Fatal(err)
	}
	return e
}

// wantEffects fails the test unless what every action has made is as the action is.
func (d *drive) wantEffects() {
	d.Helper()
	actions, err := db.New(d.Pool).ActionsToCheck(d.Ctx, db.ActionsToCheckParams{Page: 1000})
	if err != nil {
		d.Fatal(err)
	}
	if e := d.effects(d.Pool, actions...); len(e.states) != 0 || len(e.amounts) != 0 || len(e.owners) != 0 || len(e.missing) != 0 {
		d.Errorf("reconcile finds %+v", e)
	}
}

// wantReconciled fails the test unless reconcile knows the rows that a paid action has made: were they those of another one, which is somebody else's, not paid
// and dearer, it would find each of them there, and miss them here. What it does not know it would never find wrong.
func (d *drive) wantReconciled(id int64) {
	d.Helper()
	tx, err := d.Pool.Begin(d.Ctx)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = tx.Rollback(d.Ctx) }() // none of it is to stay
	const other, somebody = 1_000_000, 1_000_000
	if _, err := tx.Exec(d.Ctx, `INSERT INTO usr (id, name, created_at) OVERRIDING SYSTEM VALUE VALUES ($1, 'whoever_else', now())`, somebody); err != nil {
		d.Fatal(err)
	}
	if _, err := tx.Exec(d.Ctx, `INSERT INTO paid_action OVERRIDING SYSTEM VALUE
		SELECT (jsonb_populate_record(a, jsonb_build_object('id', $2::bigint, 'flow', 'OPTIMISTIC', 'method', 'OPTIMISTIC', 'state', 'PENDING',
			'deadline', a.created_at, 'cost_msat', a.cost_msat + 1, 'payer_id', $3::bigint, 'genesis_id', NULL))).* FROM paid_action a WHERE a.id = $1`, id, other, somebody); err != nil {
		d.Fatal(err)
	}
	rows, err := tx.Query(d.Ctx, `SELECT t.relname AS name, a.attname AS action, EXISTS (SELECT FROM pg_attribute WHERE attrelid = t.oid AND attname = 'msat') AS priced,
			t.relname <> ALL($2) AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = t.oid AND attname IN ('user_id', 'author_id')) AS owned,
			t.relname = 'item' OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = t.oid AND attname = 'item_id') AS about
		FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
		WHERE t.relkind = 'r' AND NOT t.relispartition AND t.relnamespace = 'public'::regnamespace AND t.relname <> ALL($1) AND (a.attname = 'action_id'
			OR EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = t.oid AND a.attnum = ANY(c.conkey) AND c.confrelid = 'paid_action'::regclass))`, others, ofOthers)
	if err != nil {
		d.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByName[struct {
		Name, Action string
		Priced       bool
		Owned        bool
		About        bool // an item
	}])
	if err != nil {
		d.Fatal(err)
	}
	var made, priced, owned, about int
	for _, t := range tables {
		moved, err := tx.Exec(d.Ctx, fmt.Sprintf(`UPDATE %s SET %s = $2 WHERE %s = $1`, t.Name, t.Action, t.Action), id, other)
		if err != nil {
			d.Fatal(err)
		}
		made += int(moved.RowsAffected())
		if t.Priced {
			priced += int(moved.RowsAffected())
		}
		if t.Owned {
			owned += int(moved.RowsAffected())
		}
		if t.Owned && t.About {
			about += int(moved.RowsAffected())
		}
	}
	n, err := db.New(tx).CountsOfActions(d.Ctx, []int64{other})
	if err != nil {
		d.Fatal(err)
	}
	there, here := d.effects(tx, other), d.effects(tx, id)
	if int(n.Effects) != made || len(there.states) != made || len(there.amounts) != priced || len(there.owners) != owned {
		d.Errorf("%s makes %d rows, %d of them with a price and %d with a user; in internal/db/reconcile.sql CountsOfActions knows %d, BreaksOfEffects %d, BreaksOfAmounts %d, BreaksOfOwners %d",
			d.kind, made, priced, owned, n.Effects, len(there.states), len(there.amounts), len(there.owners))
	}
	known := 0 // of those that are about an item
	for _, row := range there.owners {
		if row.ItemID != 0 {
			known++
		}
	}
	if known != about {
		d.Errorf("%s makes %d rows that are about an item, and BreaksOfOwners in internal/db/reconcile.sql knows the item of %d: give it their item_id", d.kind, about, known)
	}
	if made > 0 && len(here.missing) == 0 && !slices.Contains(sometimes, d.kind) {
		d.Errorf("%s makes a row that MissingEffects in internal/db/reconcile.sql does not miss", d.kind)
	}
}
