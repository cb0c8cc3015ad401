package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/benchdb"
	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// span is the time between two moments. All clocks are this machine's.
type span struct{ from, to time.Time }

// moment is what is known of one payment: the time from the event at the node to the commit of PAID, and when its jobs
// waited to be taken.
type moment struct {
	span
	waits []span
}

// waited is for how much of the time at least one job waited.
func (m moment) waited() (sum time.Duration) {
	slices.SortFunc(m.waits, func(a, b span) int { return a.from.Compare(b.from) })
	until := m.from
	for _, w := range m.waits {
		from, to := w.from, w.to
		if from.Before(until) {
			from = until
		}
		if to.After(m.to) {
			to = m.to
		}
		if to.After(from) {
			sum += to.Sub(from)
			until = to
		}
	}
	return sum
}

// moments are those of all payments in one measurement.
type moments []moment

// moments reads them from the database. Each hash must have been paid and committed.
func (b *books) moments(ctx context.Context, hashes []paidaction.Hash, paid []time.Time) (moments, error) {
	at := make(map[paidaction.Hash]int, len(hashes))
	for i, h := range hashes {
		at[h] = i
	}
	all, ofAction := make(moments, len(hashes)), map[int64]int{}
	var action int64
	var hash []byte
	var from, to time.Time
	rows, err := b.connection.Query(ctx, script("flows/paid.sql"), b.LastAction)
	if err != nil {
		return nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{&action, &hash, &to}, func() error {
		i, ok := at[paidaction.Hash(hash)]
		if !ok {
			return fmt.Errorf("action %d is PAID, and nobody paid it", action)
		}
		all[i], ofAction[action] = moment{span: span{paid[i], to}}, i
		return nil
	})
	if err == nil && len(ofAction) != len(hashes) {
		err = fmt.Errorf("the commits of %d of %d payments are known", len(ofAction), len(hashes))
	}
	if err != nil {
		return nil, err
	}
	if rows, err = b.connection.Query(ctx, script("flows/waits.sql"), b.LastAction); err != nil {
		return nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{&action, &from, &to}, func() error {
		i, ok := ofAction[action]
		if !ok {
			return fmt.Errorf("a job is for the action %d, which nobody paid", action)
		}
		all[i].waits = append(all[i].waits, span{from, to})
		return nil
	})
	return all, err
}

// flowOutcome is the outcome of one measurement of a flow. Times are in milliseconds.
type flowOutcome struct {
	PerSecond  float64 // from the first payment to the last commit
	P50, P99   float64 // from the event to the commit of PAID
	Wait50     float64 // of that, how long jobs waited
	Wait99     float64
	FlushMs    float64 // average flush of PostgreSQL's log; part of P50 and P99
	ServiceUs  float64 // processor time of each payment, in microseconds, including all that follows
	PostgresUs float64
	Payments   int
}

// outcome sums them up. A commit is dated before its flush, so the average flush is added.
func (ms moments) outcome(flush time.Duration) flowOutcome {
	var took, waited []time.Duration
	first, last := ms[0].from, ms[0].to
	for _, m := range ms {
		took, waited = append(took, m.to.Sub(m.from)+flush), append(waited, m.waited())
		if m.from.Before(first) {
			first = m.from
		}
		if m.to.After(last) {
			last = m.to
		}
	}
	slices.Sort(took)
	slices.Sort(waited)
	return flowOutcome{PerSecond: float64(len(ms)) / (last.Sub(first) + flush).Seconds(), P50: load.Quantile(took, 0.5), P99: load.Quantile(took, 0.99),
		Wait50: load.Quantile(waited, 0.5), Wait99: load.Quantile(waited, 0.99), FlushMs: flush.Seconds() * 1000, Payments: len(ms)}
}

func (o flowOutcome) String() string {
	return fmt.Sprintf("%5d payments  %5.0f/s  p50 %.1f ms  p99 %.1f ms  of it jobs waiting %.1f, %.1f ms  a flush %.2f ms  CPU %.0f µs (service %.0f, PostgreSQL %.0f)",
		o.Payments, o.PerSecond, o.P50, o.P99, o.Wait50, o.Wait99, o.FlushMs, o.ServiceUs+o.PostgresUs, o.ServiceUs, o.PostgresUs)
}

// flushes are the flushes of PostgreSQL's log so far.
type flushes struct {
	count int64
	ms    float64
}

func (b *books) flushes(ctx context.Context) (f flushes, err error) {
	var before18 bool
	if err := b.connection.QueryRow(ctx, "SELECT current_setting('server_version_num')::int < 180000").Scan(&before18); err != nil {
		return f, err
	}
	name := "flows/flushes.sql"
	if before18 {
		name = "flows/flushes_before_18.sql"
	}
	err = b.connection.QueryRow(ctx, script(name)).Scan(&f.count, &f.ms)
	return f, err
}

// since is the average duration of a flush since an earlier moment.
func (f flushes) since(before flushes) time.Duration {
	if f.count == before.count {
		return 0
	}
	return time.Duration((f.ms - before.ms) / float64(f.count-before.count) * float64(time.Millisecond))
}

// walletFailures is an error that says why receivers' wallets gave no invoice, or nil if all did.
func (b *books) walletFailures(ctx context.Context) error {
	rows, err := benchdb.New(b.connection).WalletFailures(ctx)
	for _, row := range rows {
		err = errors.Join(err, fmt.Errorf("%d times %s: %s", row.Times, row.Code, row.Message))
	}
	return err
}
