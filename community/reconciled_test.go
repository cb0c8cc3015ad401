package community_test

import (
	"fmt"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
)

// sometimes are the actions whose rows are there only if they were asked for, so that reconcile cannot say that one is missing.
var sometimes = []string{community.KindItemUpdate, community.KindTerritoryUnarchive}

// effects are what reconcile finds wrong with the rows that actions have made.
type effects struct {
	wrong   []db.BreaksOfEffectsRow
	missing []db.MissingEffectsRow
}

func (d *drive) effects(of db.DBTX, actions ...int64) (e effects) {
	d.Helper()
	q := db.New(of)
	var err error
	if e.wrong, err = q.BreaksOfEffects(d.Ctx, actions); err == nil {
		e.missing, err = q.MissingEffects(d.Ctx, db.MissingEffectsParams{Actions: actions})
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
	if e := d.effects(d.Pool, actions...); len(e.wrong) != 0 || len(e.missing) != 0 {
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
	var made, known struct{ rows, priced, owned, about int64 }
	for _, t := range enginetest.Tables(d.Ctx, d, tx) {
		moved, err := tx.Exec(d.Ctx, fmt.Sprintf(`UPDATE %s SET %s = $2 WHERE %s = $1`, t.Name, t.Action, t.Action), id, other)
		if err != nil {
			d.Fatal(err)
		}
		n := moved.RowsAffected()
		made.rows += n
		if t.Priced {
			made.priced += n
		}
		if t.Owned {
			made.owned += n
		}
		if t.About {
			made.about += n
		}
	}
	there, here := d.effects(tx, other), d.effects(tx, id)
	for _, row := range there.wrong {
		if row.Differs {
			known.rows++
		}
		if row.OtherAmount {
			known.priced++
		}
		if row.Others {
			known.owned++
		}
		if row.ItemID != 0 {
			known.about++
		}
	}
	if known != made {
		d.Errorf("%s makes %d rows, %d of them with a price, %d with a user and %d about an item, too; BreaksOfEffects in internal/db/reconcile.sql knows %d, %d, %d and %d",
			d.kind, made.rows, made.priced, made.owned, made.about, known.rows, known.priced, known.owned, known.about)
	}
	if made.rows > 0 && len(here.missing) == 0 && !slices.Contains(sometimes, d.kind) {
		d.Errorf("%s makes a row that MissingEffects in internal/db/reconcile.sql does not miss", d.kind)
	}
}
