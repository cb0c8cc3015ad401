package archive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/archive"
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	sat = 1000 // msat
	few = 5    // actions in a range
	old = 48 * time.Hour
)

// world is a world whose ranges have only a few actions.
type world struct {
	*enginetest.World
	author, payer, post int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: enginetest.New(t, paidaction.Settings{})}
	w.exec(`DO $$ DECLARE first_one bigint; BEGIN
		FOR first_one IN DELETE FROM action_range RETURNING first_action LOOP
			EXECUTE format('DROP TABLE %I, %I', 'action_history_' || first_one, 'posting_' || first_one);
		END LOOP; END $$`)
	w.make()
	w.author, w.payer = w.User("author", 1000*sat, 1000*sat), w.User("payer", 10_000*sat, 1000*sat)
	w.post = w.Post(w.author, "a post")
	return w
}

// make makes the ranges ahead, as the chore does.
func (w *world) make() (made int64) {
	w.Helper()
	w.unlessBusy(func() error {
		n, err := archive.MakeRanges(w.Ctx, w.Pool, few, time.Millisecond)
		made += n
		return err
	})
	return made
}

// unlessBusy repeats do if somebody was in the way for long: on a busy machine, what is done under a lock takes longer
// than allowed.
func (w *world) unlessBusy(do func() error) {
	w.Helper()
	for end := time.Now().Add(time.Minute); ; {
		err := do()
		if err == nil {
			return
		}
		if !errors.Is(err, archive.ErrBusy) || time.Now().After(end) {
			w.Fatal(err)
		}
	}
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.Pool.Exec(w.Ctx, sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// names are the values of the first column.
func (w *world) names(sql string) []string {
	w.Helper()
	rows, err := w.Pool.Query(w.Ctx, sql)
	if err != nil {
		w.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(all) == 0 {
		w.Fatal(all, err)
	}
	return all
}

// zap pays from credits, so many times. Ranges are made as they are needed: on a busy machine, making many at once
// takes longer than a lock may be held.
func (w *world) zap(times int) {
	w.Helper()
	for i := range times {
		w.Pay(w.payer, community.KindZap, community.ZapArgs{Item: w.post, Sats: 10}, paidaction.FeeCredit)
		if (i+1)%few == 0 || i+1 == times {
			w.make()
		}
	}
}

// live makes actions end in every way that leaves rows behind: paid from balances and by invoice, given up, retried,
// bought.
func (w *world) live() {
	w.Helper()
	args := community.ZapArgs{Item: w.post, Sats: 10}
	w.Pay(w.payer, community.KindBuyCredits, community.BuyCreditsArgs{Credits: 5}, paidaction.RewardSats)
	for _, method := range []paidaction.Method{paidaction.Optimistic, paidaction.Pessimistic} {
		paid, failed := w.Pay(w.payer, community.KindZap, args, method), w.Pay(w.payer, community.KindZap, args, method)
		if err := w.Node.PayBolt11(paid.Invoice.Bolt11, simnode.Payment{Msat: 12 * sat}); err != nil {
			w.Fatal(err)
		}
		w.Advance(paid.ID)
		w.Drain()
		w.WantState(paid.ID, paidaction.Paid)
		if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(w.payer), failed.ID); err != nil {
			w.Fatal(err)
		}
		w.Drain()
		again, err := w.Engine.Retry(w.Ctx, enginetest.Caller(w.payer), failed.ID, "", paidaction.Terms{}, nil)
		if err != nil {
			w.Fatal(err)
		}
		if again.State != paidaction.Paid {
			if _, err := w.Engine.Cancel(w.Ctx, enginetest.Caller(w.payer), again.ID); err != nil {
				w.Fatal(err)
			}
		}
		w.make()
	}
	w.Drain()
}

// age lets everything rest for long, and has the rewards of the days paid.
func (w *world) age() {
	w.Helper()
	w.Clock.Advance(old + time.Hour)
	if _, err := community.PayRewards(w.Ctx, db.New(w.Pool), w.Clock.Now(), community.DefaultSettings()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) config() archive.Config {
	alone := func(context.Context) error { return nil } // this world has one clock
	return archive.Config{Pool: w.Pool, OlderThan: old, Now: w.Clock.Now, ConfirmClock: alone, Pause: time.Millisecond}
}

func (w *world) archive() (result archive.Result) {
	w.Helper()
	w.unlessBusy(func() error {
		r, err := archive.Run(w.Ctx, w.config())
		result.Archived, result.Kept = append(result.Archived, r.Archived...), r.Kept
		return err
	})
	return result
}

// archivedTo is the last archived action.
func (w *world) archivedTo() int64 { w.Helper(); return w.Count(`SELECT archived_to()`) }

// wantSound fails the test unless the books are right and reconcile finds nothing.
func (w *world) wantSound() {
	w.Helper()
	w.WantConserved()
	report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: w.Nodes, Now: w.Clock.Now})
	if err != nil {
		w.Fatal(err)
	}
	for _, i := range report.Invariants {
		if i.Broken > 0 {
			w.Errorf("invariant %d: %v", i.ID, i.Breaks)
		}
	}
	if want := w.Count(`SELECT count(*) FROM paid_action WHERE id <= archived_to()`); report.Archived != want {
		w.Errorf("reconcile says that %d actions are archived, want %d", report.Archived, want)
	}
}

// rows is everything in the history and the postings, including what is archived, as text in the order of the ids.
func (w *world) rows() string {
	w.Helper()
	var all string
	for _, table := range []string{"action_history", "posting"} {
		parts := `SELECT id, p::text FROM ` + table + ` p`
		for at := range w.Count(`SELECT count(*) FROM action_range WHERE archived_at IS NOT NULL`) {
			var part string
			if err := w.Pool.QueryRow(w.Ctx, `SELECT format('archive.%I', $1 || '_' || first_action) FROM action_range ORDER BY first_action OFFSET $2 LIMIT 1`, table, at).Scan(&part); err != nil {
				w.Fatal(err)
			}
			parts += ` UNION ALL SELECT id, p::text FROM ` + part + ` p`
		}
		var text string
		if err := w.Pool.QueryRow(w.Ctx, `SELECT coalesce(string_agg(p, ' ' ORDER BY id), '') FROM (`+parts+`) AS rows`).Scan(&text); err != nil {
			w.Fatal(err)
		}
		all += table + ": " + text + "\n"
	}
	return all
}
