package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Thousands of forwards are copies of one that the engine wrote: every row of it, with another number, hash, invoice and expiry.

// written are the tables that hold rows of a forward, in the order of their references: by which column they belong to an action, and
// what is a copy's own.
var written = []struct{ table, of, own string }{
	{"paid_action", "t.id", `'id', c.action, 'state', 'PENDING_HELD'`}, // no action may begin in FORWARDING
	{"action_history", "t.action_id", `'id', nextval(pg_get_serial_sequence('action_history', 'id')), 'action_id', c.action`},
	{"invoice", "t.action_id", `'action_id', c.action, 'payment_hash', c.hash, 'bolt11', c.outside`},
	{"inner_invoice", "t.action_id", `'action_id', c.action, 'bolt11', c.inside, 'expires_at', c.expires`},
	{"foreign_hash", "(SELECT action_id FROM invoice i WHERE i.payment_hash = t.payment_hash)", `'payment_hash', c.hash`},
	{"zap", "t.action_id", `'action_id', c.action`},
	{"relay_payment", "t.action_id", `'id', nextval(pg_get_serial_sequence('relay_payment', 'id')), 'action_id', c.action, 'payment_hash', c.hash, 'bolt11', c.inside, 'expires_at', c.expires`},
	{"relay_attempt", "(SELECT action_id FROM relay_payment p WHERE p.id = t.payment_id)", `'id', nextval(pg_get_serial_sequence('relay_attempt', 'id')), 'payment_id', (SELECT p.id FROM relay_payment p WHERE p.action_id = c.action)`},
	{"test_job", "t.action", `'id', nextval('test_job_id_seq'), 'action', c.action`},
}

// census counts the rows of every table.
func (b *bundle) census() map[string]int64 {
	b.Helper()
	names, err := b.Pool.Query(b.Ctx, `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)
	if err != nil {
		b.Fatal(err)
	}
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	rows := map[string]int64{}
	for _, table := range tables {
		rows[table] = b.Count(`SELECT count(*) FROM ` + table)
	}
	return rows
}

// copies makes n forwards like the one given. The first expires after the given time, each other one a second later; those that expire
// first come last into the tables. Their payers' payments are held by the node that holds the first one's, and their receivers' invoices
// are real. It returns their hashes, the one that expires first before the others.
func (b *bundle) copies(of *paidaction.PaidAction, n int, expires time.Duration) []paidaction.Hash {
	b.Helper()
	issuer, err := b.Nodes.Sender(of.Invoice.Node)
	if err != nil {
		b.Fatal(err)
	}
	outer := b.outer(of).Request
	var bolt11 string
	if err = b.Pool.QueryRow(b.Ctx, `SELECT bolt11 FROM inner_invoice WHERE action_id = $1`, of.ID).Scan(&bolt11); err != nil {
		b.Fatal(err)
	}
	inner, err := issuer.DecodeInvoice(b.Ctx, bolt11)
	if err != nil {
		b.Fatal(err)
	}
	now := b.Clock.Now()
	hashes, rows := make([]paidaction.Hash, n), make([][]any, n)
	for i := range n {
		ask := b.wallet.Ask
		ask.Amount, ask.Memo, ask.Expiry = inner.Amount, inner.Description, expires+time.Duration(i)*time.Second
		issued := b.issue(ask)
		outer.Hash = issued.Hash
		bolt11, err := issuer.OpenInvoice(b.Ctx, outer)
		if err == nil {
			err = issuer.(*simnode.Node).PayHash(outer.Hash, simnode.Payment{})
		}
		if err != nil {
			b.Fatal(err)
		}
		hashes[i] = issued.Hash
		rows[n-1-i] = []any{hashes[i][:], issued.Bolt11, bolt11, now.Add(ask.Expiry).Truncate(time.Second)}
	}
	err = pgx.BeginFunc(b.Ctx, b.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(b.Ctx, `CREATE TEMPORARY TABLE copies (hash bytea, inside text, outside text, expires timestamptz,
			action bigint DEFAULT nextval(pg_get_serial_sequence('paid_action', 'id'))) ON COMMIT DROP`)
		if err != nil {
			return err
		}
		if _, err = tx.CopyFrom(b.Ctx, pgx.Identifier{"copies"}, []string{"hash", "inside", "outside", "expires"}, pgx.CopyFromRows(rows)); err != nil {
			return err
		}
		for _, w := range written {
			_, err := tx.Exec(b.Ctx, fmt.Sprintf(`INSERT INTO %[1]s OVERRIDING SYSTEM VALUE SELECT r.* FROM %[1]s t CROSS JOIN copies c
				CROSS JOIN LATERAL jsonb_populate_record(NULL::%[1]s, to_jsonb(t) || jsonb_build_object(%[3]s)) r WHERE %[2]s = $1 ORDER BY c.action`,
				w.table, w.of, w.own), of.ID)
			if err != nil {
				return fmt.Errorf("copy %s: %w", w.table, err)
			}
		}
		_, err = tx.Exec(b.Ctx, `UPDATE paid_action SET state = $1 WHERE id IN (SELECT action FROM copies)`, string(b.Look(of.ID).State))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return hashes
}

// wantLike fails the test unless the rows of all forwards with this price are, but for what is each one's own, those of the one given,
// which the engine wrote after the copies were made.
func (b *bundle) wantLike(pa *paidaction.PaidAction) {
	b.Helper()
	own := `{id,action,action_id,payment_id,payment_hash,bolt11,at,created_at,changed_at,deadline,expires_at,not_before,claimed_at,send_until,ended_at}`
	for _, w := range written {
		kinds := func(ids string) []string {
			rows, err := b.Pool.Query(b.Ctx, fmt.Sprintf(`SELECT (to_jsonb(t) - '%s'::text[])::text AS row FROM %s t
				WHERE %s IN (%s) AND $1::bigint IS NOT NULL AND $2::bigint IS NOT NULL GROUP BY row ORDER BY row`, own, w.table, w.of, ids), pa.ID, int64(pa.Cost))
			if err != nil {
				b.Fatal(err)
			}
			found, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				b.Fatal(err)
			}
			return found
		}
		want := kinds(`$1`)
		if all := kinds(`SELECT id FROM paid_action WHERE flow = 'WRAPPED' AND cost_msat = $2`); !slices.Equal(all, want) {
			b.Errorf("%s: the engine writes\n%s\nand there is\n%s", w.table, strings.Join(want, "\n"), strings.Join(all, "\n"))
		}
	}
}
