package archive_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/archive"
	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What is still needed stays, and with it everything after it. Once it is no longer needed, it goes.
func TestWhatIsNeededStays(t *testing.T) {
	t.Parallel()
	gap := func(action int64) func(*world) {
		return func(w *world) {
			w.zap(few)
			w.age()
			w.exec(`ALTER TABLE action_history DISABLE TRIGGER USER`)
			w.exec(`UPDATE action_history SET fact = 'INVOICE_SETTLED' WHERE action_id = $1`, action)
			w.exec(`ALTER TABLE action_history ENABLE TRIGGER USER`)
		}
	}
	found := func(action int64) func(*world) {
		return func(w *world) {
			w.zap(few)
			w.age()
			w.exec(`INSERT INTO reconcile_run (began_at, ended_at, report) VALUES ('2026-01-01', '2026-01-01',
				jsonb_build_object('invariants', jsonb_build_array(jsonb_build_object('id', 9, 'breaks', jsonb_build_array(
					jsonb_build_object('kind', 'received', 'explanation', 'differs', 'actions', jsonb_build_array($1::bigint)))))))`, action)
		}
	}
	for name, c := range map[string]struct {
		need func(w *world)
		free func(w *world) // nil: nothing does
		why  string
	}{
		"an action that is open": {
			need: func(w *world) {
				w.Pay(w.payer, community.KindZap, community.ZapArgs{Item: w.post, Sats: 1}, paidaction.Optimistic)
				w.zap(few)
				w.age()
			},
			free: func(w *world) {
				if _, err := w.Engine.Cancel(w.Ctx, paidaction.Caller{User: &w.payer}, w.Count(`SELECT max(id) FROM paid_action WHERE state = 'PENDING'`)); err != nil {
					w.Fatal(err)
				}
				w.Drain()
				w.age()
			},
			why: "is not at its end",
		},
		"a range that grows": {need: func(*world) {}, free: func(w *world) { w.zap(few); w.age() }, why: "still to come"},
		"an action that has just ended": {
			need: func(w *world) {
				w.zap(few)
				w.age()
				w.exec(`UPDATE paid_action SET changed_at = $1 WHERE id = 3`, w.Clock.Now())
			},
			free: (*world).age, why: "has changed within",
		},
		"a posting that was booked late": {
			need: func(w *world) {
				w.zap(few)
				w.age()
				w.exec(`WITH p AS (INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (3, 1, 5, 7, 'late', $1), (3, 5, 1, 7, 'back', $1)) SELECT`, w.Clock.Now())
			},
			free: (*world).age, why: "has changed within",
		},
		"a step that was taken late": {
			need: func(w *world) {
				w.zap(few)
				w.age()
				w.exec(`INSERT INTO action_history (action_id, to_state, fact, at) VALUES (3, 'PAID', 'INVOICE_SETTLED', $1)`, w.Clock.Now())
			},
			why: "has changed within",
		},
		"an outgoing payment": {
			need: func(w *world) {
				w.zap(few)
				w.age()
				w.exec(`INSERT INTO relay_payment (action_id, stage, payment_hash, bolt11, receiver_id, wallet_id, amount_msat, budget_msat, final_cltv, expires_at, preimage, fee_msat,
					created_at, changed_at) VALUES (3, 'pending_confirmation', sha256('x'), '', 1, 1, 1000, 0, 18, '2026-01-01', sha256('p'), NULL, '2026-01-01', '2026-01-01')`)
			},
			why: "the outgoing payment of action 3 is not at its end",
		},
		"rewards to be paid": {
			need: func(w *world) { w.zap(few); w.Clock.Advance(old + time.Hour) },
			free: (*world).age, why: "to the rewards",
		},
		"rewards of the day after the last that was paid, in sats": {
			need: func(w *world) {
				w.zap(few)
				w.age()
				w.exec(`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (3, 0, 4, 7, 'late', $1)`, w.Clock.Now())
				w.Clock.Advance(old + time.Hour)
			},
			why: "to the rewards",
		},
		"rewards to be paid, though a clock that was ahead has recorded a day to come": {
			need: func(w *world) {
				w.exec(`INSERT INTO reward_day VALUES ($1::timestamptz::date, 0, 0, 0, 0, $1)`, w.Clock.Now().AddDate(1, 0, 0))
				w.zap(few)
				w.Clock.Advance(old + time.Hour)
			},
			free: (*world).age, why: "to the rewards",
		},
		"a message of a webhook": {
			need: func(w *world) {
				w.exec(`INSERT INTO webhook (url, events, secret, created_at) VALUES ('https://example.org', '{}', '', '2026-01-01')`)
				w.zap(few)
				w.exec(`DELETE FROM webhook_message WHERE action_id <> 3`)
				w.age()
			},
			free: func(w *world) { w.exec(`DELETE FROM webhook_message`) }, why: "messages of webhooks about action 3",
		},
		"books that differ": {
			need: func(w *world) { w.zap(few); w.age(); w.exec(`UPDATE account SET balance = balance + 1 WHERE id = 16`) },
			free: func(w *world) { w.exec(`UPDATE account SET balance = balance - 1 WHERE id = 16`) }, why: "reconcile finds something broken",
		},
		"books that anybody may change": {
			need: func(w *world) { w.zap(few); w.age(); w.exec(`ALTER TABLE posting DISABLE TRIGGER posting_append_only`) },
			free: func(w *world) { w.exec(`ALTER TABLE posting ENABLE TRIGGER posting_append_only`) }, why: "reconcile finds something broken",
		},
		"a history with a gap at the first action": {need: gap(1), why: "reconcile finds something broken"},
		"a history with a gap at the last action":  {need: gap(few), why: "reconcile finds something broken"},
		"what the last periodic run has found at the first action": {
			need: found(1), free: func(w *world) { w.exec(`DELETE FROM reconcile_run`) }, why: "differs",
		},
		"what the last periodic run has found at the last action": {
			need: found(few), free: func(w *world) { w.exec(`DELETE FROM reconcile_run`) }, why: "differs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.need(w)
			before := w.rows()
			result := w.archive()
			if len(result.Archived) != 0 || result.Kept == nil || !strings.Contains(result.Kept.Why, c.why) || w.rows() != before || w.archivedTo() != 0 {
				t.Fatalf("archived %+v, kept %+v, want %q", result.Archived, result.Kept, c.why)
			}
			if broken := strings.HasPrefix(result.Kept.Why, "reconcile"); broken != (len(result.Kept.Breaks) > 0) {
				t.Errorf("what is broken: %v", result.Kept.Breaks)
			}
			if c.free == nil {
				return
			}
			c.free(w)
			if result := w.archive(); len(result.Archived) == 0 {
				t.Errorf("it stays for ever: %+v", result.Kept)
			}
			w.WantConserved()
		})
	}
}

// Only what is at its end is archived: an action in any other state keeps its range, and so does an outgoing payment
// at any stage before its last.
func TestOnlyWhatIsAtItsEndIsArchived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(few)
	w.age()
	dry := w.config()
	dry.DryRun = true
	keeps := func(what, why string, want bool) {
		t.Helper()
		result, err := archive.Run(w.Ctx, dry)
		if err != nil {
			t.Fatal(err)
		}
		if kept := result.Kept != nil && strings.Contains(result.Kept.Why, why); kept != want {
			t.Errorf("%s keeps its range: %t, want %t; %+v", what, kept, want, result.Kept)
		}
	}
	w.exec(`ALTER TABLE paid_action DISABLE TRIGGER USER`)
	for _, state := range w.names(`SELECT unnest(enum_range(NULL::action_state))::text`) {
		w.exec(`UPDATE paid_action SET state = $1::text::action_state, deadline = changed_at, failure_code = 'CANCELED',
			successor_id = CASE WHEN $1 = 'RETRYING' THEN 4 END WHERE id = 3`, state)
		keeps("an action in state "+state, "action 3 is not at its end", !paidaction.State(state).Terminal())
	}
	w.exec(`UPDATE paid_action SET state = 'PAID', deadline = NULL, failure_code = NULL, successor_id = NULL WHERE id = 3`)
	w.exec(`INSERT INTO relay_payment (action_id, payment_hash, bolt11, receiver_id, wallet_id, amount_msat, budget_msat, final_cltv, expires_at, created_at, changed_at)
		VALUES (3, sha256('x'), '', 1, 1, 1000, 0, 18, '2026-01-01', '2026-01-01', '2026-01-01')`)
	for _, stage := range w.names(`SELECT unnest(enum_range(NULL::relay_stage))::text`) {
		w.exec(`UPDATE relay_payment SET stage = $1::text::relay_stage, node = 'sim', failure_code = 'NO_ROUTE',
			preimage = CASE WHEN $1 IN ('pending_confirmation', 'completed') THEN sha256('p') END, fee_msat = CASE WHEN $1 = 'completed' THEN 0 END`, stage)
		ended := paidaction.Stage(stage) == paidaction.StageCompleted || paidaction.Stage(stage) == paidaction.StageFailed
		keeps("a payment at stage "+stage, "the outgoing payment of action 3 is not at its end", !ended)
	}
}

// meanwhile archives, and calls first before the statement with these words.
func (w *world) meanwhile(words string, first func()) (archive.Result, error) {
	w.Helper()
	settings := w.Pool.Config()
	settings.ConnConfig.Tracer = &before{words: words, first: first}
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		w.Fatal(err)
	}
	defer pool.Close()
	config := w.config()
	config.Pool = pool
	return archive.Run(w.Ctx, config)
}

// A range that was at rest when it was looked at, and in which something moves before its rows are taken, stays.
func TestWhatMovesMeanwhileStays(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"hold_action_ranges", "freeze_action_range"} {
		w := newWorld(t)
		w.zap(few)
		w.age()
		result, err := w.meanwhile(words, func() {
			w.exec(`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (3, 1, 5, 7, 'late', $1)`, w.Clock.Now())
		})
		if err != nil || len(result.Archived) != 0 || result.Kept == nil || !strings.Contains(result.Kept.Why, "action 3 has changed within") || w.archivedTo() != 0 {
			t.Errorf("before %s: %+v, %v, archived to %d", words, result, err, w.archivedTo())
		}
	}
}

// From the last look at a range until its rows are gone nobody writes to it: what came after the sums were taken would
// be in no balance.
func TestNobodyWritesToWhatIsTaken(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"ArchiveBalances", "ArchiveLosses", "ArchiveActionRange"} {
		w := newWorld(t)
		w.zap(few)
		w.age()
		result, err := w.meanwhile(words, func() {
			for table, late := range map[string]string{
				"posting":        `INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (3, 1, 5, 7, 'late', '2026-01-01')`,
				"action_history": `INSERT INTO action_history (action_id, to_state, fact, at) VALUES (3, 'PAID', 'INVOICE_SETTLED', '2026-01-01')`,
			} {
				var refused *pgconn.PgError
				if _, err := w.Pool.Exec(w.Ctx, `SET LOCAL lock_timeout = '100ms'; `+late); !errors.As(err, &refused) || refused.Code != "55P03" {
					t.Errorf("before %s: a late row of %s does not wait: %v", words, table, err)
				}
			}
		})
		if errors.Is(err, archive.ErrBusy) { // of the last step, on a busy machine
			result, err = w.archive(), nil
		}
		if err != nil || len(result.Archived) != 1 {
			t.Errorf("before %s: %+v, %v", words, result, err)
		}
		w.wantSound()
	}
}

// What has been at rest for less than a day is never archived: it could be retried, or be compared with its node.
func TestTheYoungStay(t *testing.T) {
	t.Parallel()
	if _, err := archive.Run(t.Context(), archive.Config{OlderThan: archive.MinAge - 1}); !errors.Is(err, archive.ErrTooYoung) {
		t.Error(err)
	}
}

// Nor is it by a clock that PostgreSQL's does not confirm: by one that is a day ahead, what has just failed would seem to
// have been at rest for a day.
func TestWhatHasJustFailedStaysWhateverTheClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.age() // of its own past nothing is needed any more
	w.Clock.Live()
	for range 2 * few {
		pa := w.Pay(w.payer, community.KindZap, community.ZapArgs{Item: w.post, Sats: 10}, paidaction.Optimistic)
		if _, err := w.Engine.Cancel(w.Ctx, paidaction.Caller{User: &w.payer}, pa.ID); err != nil {
			t.Fatal(err)
		}
		w.Drain()
		w.make()
	}
	for name, c := range map[string]struct {
		ahead time.Duration
		want  error
	}{"a clock that is right": {0, nil}, "a clock that is ahead": {25 * time.Hour, dbclock.ErrApart}} {
		result, err := archive.Run(w.Ctx, archive.Config{Pool: w.Pool, OlderThan: archive.MinAge, Now: func() time.Time { return time.Now().Add(c.ahead) }})
		if !errors.Is(err, c.want) || len(result.Archived) != 0 || w.archivedTo() != 0 {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}

// What was lost stays known, and why, after its postings are gone, from the first action of a range to the last.
func TestLossesStayKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.zap(2 * few)
	for _, action := range []int64{1, few, few + 1, 2 * few} {
		w.exec(`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES ($1, 8, 0, 7, format('lost %s', $1::bigint), $2)`, action, w.Clock.Now())
		w.exec(`UPDATE account SET balance = balance + CASE id WHEN 8 THEN -7 ELSE 7 END WHERE id IN (0, 8)`)
	}
	w.age()
	type loss struct {
		msat   int64
		reason string
	}
	losses := func() (all map[int64]loss) {
		t.Helper()
		rows, err := db.New(w.Pool).Losses(w.Ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		all = map[int64]loss{}
		for _, row := range rows {
			all[*row.ActionID] = loss{row.Msat, row.Reason}
		}
		return all
	}
	before := losses()
	if result := w.archive(); len(before) != 4 || len(result.Archived) != 2 {
		t.Fatalf("%d losses, and archived %+v, kept %+v", len(before), result.Archived, result.Kept)
	}
	if after := losses(); !maps.Equal(after, before) {
		t.Errorf("losses were %v, and are %v", before, after)
	}
}
