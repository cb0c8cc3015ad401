package operator_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shown is what the collector shows, one line for each series.
func shown(t *testing.T, l *operator.Lookout) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry() // also checks what is collected against what is described
	registry.MustRegister(operator.NewCollector(l, slog.New(slog.DiscardHandler)))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, f := range families {
		for _, m := range f.Metric {
			lines.WriteString(strings.TrimPrefix(f.GetName(), "holdfast_"))
			for _, label := range m.Label {
				fmt.Fprintf(&lines, " %s=%s", label.GetName(), label.GetValue())
			}
			fmt.Fprintln(&lines, "", m.GetGauge().GetValue()+m.GetCounter().GetValue())
		}
	}
	return lines.String()
}

func wantLines(t *testing.T, shown string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains("\n"+shown, "\n"+line+"\n") {
			t.Errorf("not shown: %s", line)
		}
	}
	if t.Failed() {
		t.Log(shown)
	}
}

func TestLookAtWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	alice := w.User("alice", 50_000, 0)
	stuck := w.Pay(alice, community.KindItemCreate, community.ItemCreateArgs{Title: "One"}, paidaction.Optimistic)
	w.Clock.Advance(stuck.Deadline.Sub(w.Clock.Now()))
	w.Pay(alice, community.KindItemCreate, community.ItemCreateArgs{Title: "Two"}, paidaction.Optimistic)
	w.Clock.Advance(90 * time.Second)

	jobs, err := worker.NewQueue(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	soon := w.Clock.Now().AddDate(100, 0, 0) // later than the database's clock, too
	if err := pgx.BeginFunc(w.Ctx, w.Pool, func(tx pgx.Tx) error {
		return jobs.Insert(w.Ctx, tx, paidaction.Job{Kind: paidaction.JobAdvance, Action: stuck.ID},
			paidaction.Job{Kind: paidaction.JobAdvance, Action: stuck.ID, At: soon}, paidaction.Job{Kind: paidaction.JobAfterPaid, Action: stuck.ID})
	}); err != nil {
		t.Fatal(err)
	}
	// The next worker has had seven seconds to take it up.
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE river_job SET scheduled_at = $1 WHERE queue = 'money' AND state = 'available'`, w.Clock.Now().Add(-7*time.Second)); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(w.Ctx, postgres.Options{DSN: w.Pool.Config().ConnString(), Direct: w.Pool.Config().ConnString()})
	if err != nil {
		t.Fatal(err)
	}
	locker, err := lock.New(store, lock.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locker.Close(); err != nil {
			t.Error(err)
		}
	})
	lease, err := locker.Acquire(w.Ctx, "payer-1", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}

	l := operator.NewLookout(operator.Config{Pool: w.Pool, Queues: worker.Queues(), Locks: true, Now: w.Clock.Now})
	first := shown(t, l)
	wantLines(t, first,
		"actions_open state=PENDING 2", "actions_stuck state=PENDING 1", "actions_open state=HELD 0",
		"action_oldest_seconds state=PENDING "+fmt.Sprint(w.Clock.Now().Sub(stuck.CreatedAt).Seconds()),
		"jobs queue=money state=available 1", "jobs queue=money state=scheduled 1", "jobs queue=effects state=available 1", "jobs queue=deliveries state=running 0",
		"job_due_seconds queue=money 7", "job_due_seconds queue=deliveries 0",
		"ledger_msat account=issued credits asset=credits -50000", "ledger_msat account=backing sats asset=sats 50000",
		"locks_held 1", "locks_waiting 0", "look_failures_total 0")
	if look, err := l.Look(w.Ctx); err != nil || len(look.Ledger) != len(ledger.System()) || look.Locks[0].Key != "payer-1" {
		t.Errorf("%+v, %v", look, err)
	}

	// Everybody who asks within five seconds sees the same.
	if err := lease.Release(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if again := shown(t, l); again != first {
		t.Errorf("asked again:\n%s", again)
	}
	w.Clock.Advance(5 * time.Second)
	wantLines(t, shown(t, l), "locks_held 0", "actions_open state=PENDING 2")
}

// If the database is away, its numbers are missing, and no others.
func TestALookThatFailsIsCounted(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	if _, err := w.Pool.Exec(w.Ctx, `ALTER TABLE paid_action RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	l := operator.NewLookout(operator.Config{Pool: w.Pool, Queues: worker.Queues(), Now: w.Clock.Now})
	if got := shown(t, l); got != "look_failures_total 1\n" {
		t.Errorf("shown:\n%s", got)
	}
	if _, err := w.Pool.Exec(w.Ctx, `ALTER TABLE away RENAME TO paid_action`); err != nil {
		t.Fatal(err)
	}
	wantLines(t, shown(t, l), "actions_open state=PENDING 0")
}

// What has piled up is not counted to its end: a look has a limited cost.
func TestLookIsBounded(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	if _, err := w.Pool.Exec(w.Ctx, `INSERT INTO river_job (args, kind, max_attempts, queue, state, scheduled_at)
		SELECT '{}', 'advance', 1, 'money', 'available', now() - interval '1 hour' FROM generate_series(1, 10005)`); err != nil {
		t.Fatal(err)
	}
	l := operator.NewLookout(operator.Config{Pool: w.Pool, Queues: worker.Queues()})
	got := shown(t, l)
	wantLines(t, got, "jobs queue=money state=available 10000")
	look, err := l.Look(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if due := look.Jobs[0].Due; due < time.Hour || due > 2*time.Hour {
		t.Errorf("the oldest has been due for %s", due)
	}
}

// A payment that its receiver lets hang is not stuck, or each receiver could have the operator called. Nor is a withdrawal
// while it may wait for a node that can send it. One that has waited for longer is, as is one that a node may have.
func TestAHangingPaymentIsNotStuck(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	alice, bob := w.User("alice", 0, 0), w.User("bob", 0, 100_000_000)
	receiver := w.Wallets.Add(alice).Receiver
	withdraw := func() *paidaction.PaidAction {
		inv := receiver.Issue(simnode.Ask{Amount: 20_000, Act: simnode.Holds})
		return w.Pay(bob, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
	}
	hanging := withdraw()
	stop := w.Run(w.Relay)
	w.AwaitShown(hanging.ID)
	stop()
	untaken := withdraw()
	l := operator.NewLookout(operator.Config{Pool: w.Pool, Queues: worker.Queues(), Now: w.Clock.Now})
	want := func(after time.Duration, stuck ...int64) {
		t.Helper()
		w.Clock.Advance(untaken.CreatedAt.Add(after).Sub(w.Clock.Now()))
		wantLines(t, shown(t, l), "actions_open state=FORWARDING 2", fmt.Sprint("actions_stuck state=FORWARDING ", len(stuck)))
		look, err := l.Look(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		var listed []int64
		for _, a := range look.Stuck {
			listed = append(listed, a.ID)
		}
		if !slices.Equal(listed, stuck) {
			t.Errorf("after %s these are stuck: %d, want %d", after, listed, stuck)
		}
	}
	change := func(sql string) {
		t.Helper()
		if _, err := w.Pool.Exec(w.Ctx, sql, untaken.ID); err != nil {
			t.Fatal(err)
		}
	}
	want(untaken.Deadline.Add(2 * time.Minute).Sub(untaken.CreatedAt))
	want(paidaction.MaxWait)
	change(`UPDATE relay_payment SET node = 'sim' WHERE action_id = $1`)
	want(paidaction.MaxWait+10*time.Second, untaken.ID)
	change(`UPDATE relay_payment SET node = NULL WHERE action_id = $1`)
	want(paidaction.MaxWait + 89*time.Second)
	want(paidaction.MaxWait+95*time.Second, untaken.ID)
	change(`UPDATE relay_payment SET requeued_at = created_at + interval '1 minute' WHERE action_id = $1`) // it waits anew
	want(paidaction.MaxWait + 105*time.Second)
	want(paidaction.MaxWait+155*time.Second, untaken.ID)
}

// What an operator puts back waits anew, and clocks may differ by a minute. By one that was further ahead it would wait until then: that is told.
func TestWhatFailedByAClockThatWasAheadIsNotHidden(t *testing.T) {
	t.Parallel()
	for ahead, stuck := range map[time.Duration]int{0: 0, time.Minute: 0, 61 * time.Second: 1, 24 * time.Hour: 1} {
		w := enginetest.New(t, paidaction.Settings{})
		inv := w.Network.AddReceiver("carol").Issue(simnode.Ask{Amount: 20_000, Act: simnode.Refuses, Expiry: 7 * 24 * time.Hour})
		pa := w.Pay(w.User("bob", 0, 100_000), community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 5}, "")
		now := pa.Deadline.Add(2 * time.Minute)
		w.Clock.Advance(now.Add(ahead).Sub(w.Clock.Now()))
		if _, err := w.Relay.Step(w.Ctx, w.Node.Name(), func(context.Context, int64) (paidaction.Progress, error) { return paidaction.Waiting, nil }); err != nil {
			t.Fatal(err)
		}
		w.AwaitStage(pa.ID, "failed")
		w.Clock.Advance(-ahead)
		if err := relay.Requeue(w.Ctx, w.Pool, pa.ID, now); err != nil {
			t.Fatal(err)
		}
		l := operator.NewLookout(operator.Config{Pool: w.Pool, Queues: worker.Queues(), Now: w.Clock.Now})
		wantLines(t, shown(t, l), fmt.Sprint("actions_stuck state=FORWARDING ", stuck))
		if look, err := l.Look(w.Ctx); err != nil || len(look.Stuck) != stuck {
			t.Errorf("%s ahead: %v, %v", ahead, look, err)
		}
	}
}

// What is passed on to a receiver has nothing to wait for: meanwhile the payer's payment is held.
func TestAForwardThatNoNodeTakesIsStuck(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	alice := w.User("alice", 100_000, 0)
	w.Wallets.Add(alice)
	pa := w.Pay(w.User("payer", 0, 0), community.KindZap, community.ZapArgs{Item: w.Post(alice, "a post"), Sats: 100}, paidaction.P2P)
	if err := w.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	w.Advance(pa.ID)
	w.WantState(pa.ID, paidaction.Forwarding)
	w.Clock.Advance(w.Look(pa.ID).Deadline.Add(2 * time.Minute).Sub(w.Clock.Now()))
	l := operator.NewLookout(operator.Config{Pool: w.Pool, Queues: worker.Queues(), Now: w.Clock.Now})
	wantLines(t, shown(t, l), "actions_stuck state=FORWARDING 1")
}

// Whose process died while it waited is skipped when it is its turn: nobody is told how long ago it began to wait.
func TestTheDeadDoNotWait(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	if _, err := w.Pool.Exec(w.Ctx, `
		INSERT INTO lock_key (key, ticket, since, expires_at, hold_until, waiting) VALUES ('k', 'held', now(), now() + interval '1 hour', now() + interval '1 hour', 3);
		INSERT INTO lock_process VALUES ('alive', 'alive', now() + interval '1 hour'), ('dead', 'dead', now() - interval '1 hour');
		INSERT INTO lock_ticket (id, key, process, ttl_ms, hold_ms, since) VALUES ('a', 'k', 'dead', 1, 1, now() - interval '1 day'),
			('b', 'k', 'alive', 1, 1, now() - interval '1 minute'), ('c', 'k', 'gone', 1, 1, now() - interval '1 day')`); err != nil {
		t.Fatal(err)
	}
	l := operator.NewLookout(operator.Config{Pool: w.Pool, Queues: worker.Queues(), Locks: true})
	_, longest, _ := strings.Cut(shown(t, l), "lock_oldest_wait_seconds ")
	longest, _, _ = strings.Cut(longest, "\n")
	if seconds, err := strconv.ParseFloat(longest, 64); err != nil || seconds < 60 || seconds > 3600 {
		t.Errorf("the longest wait is %q seconds", longest)
	}
}
