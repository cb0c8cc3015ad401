package simulate

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// backup is what the database, and the world about it, knew at one moment.
type backup struct {
	tables []table
	jobs   map[int64]*job
	states map[int64]paidaction.State
	open   map[int64]bool
}

// backUp copies the database as it is now. What is not committed is no part of it.
func (w *world) backUp() {
	tables, err := w.database.copyAside(w.ctx)
	if err != nil {
		panic(fmt.Errorf("copy the database aside: %w", err))
	}
	w.tell(nil, "the database is backed up")
	w.backup = &backup{tables: tables, jobs: maps.Clone(w.jobs), states: maps.Clone(w.states), open: maps.Clone(w.open)}
}

// downtime is for how long all processes are down while the database is restored. That outlasts every call that is
// still on its way to a node.
const downtime = 90 * time.Second

// forget restores the database as docs/production.md says: every process is stopped, numbers are not given twice, and
// nothing new is begun until an operator has accepted it. Nodes may be silent at first. Every other time a copy that
// lagged behind takes over instead, and the processes go on.
func (w *world) forget() {
	if w.calm || w.backup == nil {
		return
	}
	w.touchAll(databaseForgets)
	w.restored, w.opens = w.tick, w.tick
	if w.chance.happens(0.5, "a copy takes over", 0) {
		w.tell(nil, "a copy of the database takes over, which lagged behind")
	} else {
		w.tell(nil, "the database is lost, and restored")
		w.opens += downtime
		for _, p := range slices.Clone(w.processes) {
			w.kill(p)
		}
	}
	w.restartDatabase()
	before := w.hashes()
	if err := w.database.putBack(w.ctx, w.backup.tables); err != nil {
		panic(fmt.Errorf("put the database back: %w", err))
	}
	after := w.hashes()
	w.lost = map[string]bool{}
	for h := range before {
		w.lost[h] = after[h] < before[h]
	}
	w.jobs, w.states, w.open = w.backup.jobs, w.backup.states, w.backup.open
	for _, id := range slices.Sorted(maps.Keys(w.jobs)) {
		w.schedule(w.jobs[id], w.jobs[id].at)
	}
	answer := w.opens + w.chance.between(0, 4*time.Minute, "the operator", 0)
	w.accepts = answer + sweepsTake
	w.queue.add(answer, w.allAnswer)
	w.queue.add(w.accepts, w.accept)
}

// sweepsTake is how long an operator waits for the sweeps once every node answers.
const sweepsTake = time.Minute

// allAnswer has every node come back that is still silent.
func (w *world) allAnswer() {
	for i, n := range w.nodes {
		if w.away[n.Name()] {
			w.comeBack(i)
		}
	}
	w.look()
}

// accept is what an operator does after the sweeps. From then on what the database lacks is forgotten for good.
func (w *world) accept() {
	w.tell(nil, "the restored database is accepted")
	q, now := db.New(w.database.control), w.Now()
	err := q.MeetTimeline(w.ctx, db.MeetTimelineParams{At: now.Add(w.restored - w.tick)})
	if err == nil {
		err = q.AcceptTimeline(w.ctx, now)
	}
	if err != nil {
		panic(fmt.Errorf("accept the restored database: %w", err))
	}
	w.look()
}

// doubted reports whether the database was restored, and nobody has accepted that, and when it was by the clock that
// nobody sets.
func (w *world) doubted() (since time.Time, doubted bool) {
	if !w.forgot() {
		return time.Time{}, false
	}
	return monotonicZero.Add(w.restored), w.tick < w.accepts
}

// mayBegin refuses what is new while the database is doubted.
func (w *world) mayBegin() error {
	if _, doubted := w.doubted(); doubted {
		return paidaction.Errorf(paidaction.CodeTryAgain, "Not now.")
	}
	return nil
}

// forgot reports whether the database was restored.
func (w *world) forgot() bool { return w.lost != nil }

// hashes are those that the database knows, in hex, and how often each: a withdrawal that failed may have been followed
// by another one of the same invoice.
func (w *world) hashes() map[string]int {
	rows, err := w.database.queries().Hashes(w.ctx)
	if err != nil {
		panic(err)
	}
	known := map[string]int{}
	for _, r := range rows {
		known[hex.EncodeToString(r)]++
	}
	return known
}

// checkForgotten is check where the database was restored. People may have been told what it has forgotten, so this
// asks for less: what it knows agrees with the nodes, nothing was paid twice, and the books are right. A payment that
// was taken for what can no longer be done stays open, and what was forgotten is known to a node alone.
func (w *world) checkForgotten() {
	if err := w.model.load(); err != nil {
		w.violate("model", "%v", err)
		return
	}
	open := map[int64]bool{}
	for _, a := range w.model.attempts {
		_, taken := w.model.received(a)
		sent, _ := w.model.paidOut(a)
		switch {
		case taken && !paidaction.State(a.state).Terminal():
			open[a.id] = true
			w.mustBeRefused(a)
		case a.leaving != nil && sent > 0 && w.lost[a.hash.String()] && a.state != "PAID":
			// It has failed, and what was paid was a later withdrawal, which is forgotten.
		default:
			w.model.mustAgree(a)
		}
	}
	w.reconcileExcept(func(b reconcile.Break) bool { return w.lost[b.Hash] || len(b.Actions) == 1 && open[b.Actions[0]] })
}

// mustBeRefused checks that an action whose payment was taken is open for one reason only: it can no longer be done.
func (w *world) mustBeRefused(a *attempt) {
	var err error
	for _, p := range w.processes {
		if !p.dead {
			_, err = p.engine.Advance(w.ctx, a.id)
		}
	}
	if refusal, ok := paidaction.AsRefusal(err); !ok || paidaction.IsPassing(err) {
		w.violate("open", "action %d (%s %s) is %s, its payment was taken, and it was not refused: %v, %v", a.id, a.flow, a.kind.name, a.state, refusal, err)
	}
}

func (w *world) reconciling() reconcile.Config {
	return reconcile.Config{Pool: w.database.pool, Nodes: w.nodes, Senders: w.nodes.Names(), Issuers: w.nodes.Names(), Now: w.Now, Since: 1000 * enough}
}

// table is one that is not empty, and its columns except those that PostgreSQL computes.
type table struct{ name, columns string }

// tables are those that are not empty.
func (d *database) tables(ctx context.Context) ([]table, error) {
	used, err := d.used(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := d.control.Query(ctx, `SELECT attrelid::regclass::text, string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = ANY($1::text[]::regclass[]) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' GROUP BY attrelid`, used)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t table, err error) { return t, row.Scan(&t.name, &t.columns) })
}

// copyAside copies all tables.
func (d *database) copyAside(ctx context.Context) ([]table, error) {
	tables, err := d.tables(ctx)
	all := []string{"DROP SCHEMA IF EXISTS aside CASCADE; CREATE SCHEMA aside"}
	for _, t := range tables {
		all = append(all, fmt.Sprintf("CREATE TABLE aside.%[1]s AS SELECT %[2]s FROM %[1]s", t.name, t.columns))
	}
	if err == nil {
		_, err = d.control.Exec(ctx, strings.Join(all, "; "))
	}
	return tables, err
}

// putBack puts the copies in the place of the tables.
func (d *database) putBack(ctx context.Context, tables []table) error {
	used, err := d.used(ctx)
	var all []string
	for _, name := range used {
		all = append(all, "DELETE FROM "+name)
	}
	for _, t := range tables {
		all = append(all, fmt.Sprintf("INSERT INTO %[1]s (%[2]s) OVERRIDING SYSTEM VALUE SELECT %[2]s FROM aside.%[1]s", t.name, t.columns))
	}
	if err == nil {
		_, err = d.control.Exec(ctx, strings.Join(all, "; "))
	}
	return err
}
