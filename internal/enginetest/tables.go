package enginetest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// notMade are the tables that name actions and are not what an action has made: how it is paid, who is told of it, and
// what counters are made of, which reconcile holds against the rows themselves.
var notMade = []string{"archived_loss", "inner_invoice", "invoice", "notification", "paid_action", "relay_payment",
	"vote_event", "wallet_failure", "wallet_log", "webhook_message"}

// ofOthers are the tables whose users are not the payers: of a bounty, who has got it; of an invite, who has redeemed
// it.
var ofOthers = []string{"bounty_payment", "invite_redemption"}

// Table is one whose rows actions have made.
type Table struct {
	Name   string
	Action string // the column with the number of the action
	Priced bool   // it has the price
	Owned  bool   // it has the payer
	About  bool   // it has the payer, and the item that it is or is about
}

// Tables are all of these, as the catalogue has them: a new one is there without being named here.
func Tables(ctx context.Context, t testing.TB, of db.DBTX) []Table {
	t.Helper()
	rows, err := of.Query(ctx, `
		SELECT t.relname AS name, a.attname AS action, has.priced, has.owned, has.owned AND has.about AS about
		FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid CROSS JOIN LATERAL (
			SELECT coalesce(bool_or(attname = 'msat'), false) AS priced,
				coalesce(bool_or(attname IN ('user_id', 'author_id')), false) AND t.relname <> ALL($2) AS owned,
				coalesce(bool_or(attname = 'item_id'), false) OR t.relname = 'item' AS about
			FROM pg_attribute WHERE attrelid = t.oid) AS has
		WHERE t.relkind = 'r' AND NOT t.relispartition AND t.relnamespace = 'public'::regnamespace
			AND t.relname <> ALL($1) AND (a.attname = 'action_id' OR EXISTS (SELECT FROM pg_constraint c
				WHERE c.conrelid = t.oid AND a.attnum = ANY(c.conkey) AND c.confrelid = 'paid_action'::regclass))
		ORDER BY 1, 2`, notMade, ofOthers)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByName[Table])
	if err != nil {
		t.Fatal(err)
	}
	return tables
}
