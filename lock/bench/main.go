// Command bench measures the lock beside others, on servers of its own: everything in one run on one machine, so that only the
// ratios matter. Its last line is JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/a-seed-a7aed72f/holdfast/internal/aptget"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/redisserver"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

func main() {
	duration := flag.Duration("duration", 3*time.Second, "how long each measurement takes")
	only := flag.String("only", "", "measure only the one whose name begins with this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	slog.SetLogLoggerLevel(slog.LevelError)
	if err := measure(ctx, *duration, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measure brings the servers up, runs every load on every contender and prints what came of it.
func measure(ctx context.Context, duration time.Duration, only string) (err error) {
	if err := errors.Join(pgserver.EnsureInstalled(ctx, os.Stderr), aptget.Ensure(ctx, os.Stderr, redisserver.Program)); err != nil {
		return err
	}
	scratch, err := child.NewScratch("holdfast-bench-lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	pg, err := pgserver.Start(ctx, pgserver.Options{Dir: filepath.Join(scratch.Dir, "postgres")})
	if err != nil {
		return err
	}
	defer pg.Stop()
	dsn := pg.DSN("bench")
	if err := errors.Join(pg.EnsureDatabase(ctx, "bench"), migrations.Up(ctx, dsn)); err != nil {
		return err
	}
	kept, err := redisserver.Start(ctx, scratch.Dir)
	if err != nil {
		return err
	}
	defer kept.Stop()

	settings, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	settings.MaxConns = 40 // a connection for each who waits with the lock of a transaction
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return err
	}
	defer pool.Close()
	options, err := redis.ParseURL(kept.URL())
	if err != nil {
		return err
	}
	options.PoolSize = 40
	client := redis.NewClient(options)
	defer client.Close()

	commit, err := commitTime(ctx, pool)
	if err != nil {
		return err
	}
	all, err := contenders(ctx, dsn, kept.URL(), pool, client)
	defer func() {
		for _, c := range all {
			c.close()
		}
	}()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(c contender) bool {
		if strings.HasPrefix(c.name, only) {
			return false
		}
		c.close()
		return true
	})
	results := map[string]map[string]outcome{}
	for _, c := range all {
		results[c.name] = map[string]outcome{}
		for _, l := range loads {
			if _, err := run(ctx, c, l, 200*time.Millisecond); err != nil { // to warm up
				return err
			}
			if results[c.name][l.name], err = run(ctx, c, l, duration); err != nil {
				return err
			}
		}
	}
	return report(all, results, commit)
}

// commitTime is the median of one durable commit, in milliseconds: the unit in which PostgreSQL's hand-off is counted.
func commitTime(ctx context.Context, pool *pgxpool.Pool) (float64, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "CREATE TABLE one_row AS SELECT 0 AS n"); err != nil {
		return 0, err
	}
	var took []time.Duration
	for range 1000 {
		begun := time.Now()
		if _, err := conn.Exec(ctx, "UPDATE one_row SET n = n + 1"); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begun))
	}
	return quantile(took, 0.5), nil
}

// summary is the part of the last line that the goals are about.
type summary struct {
	CommitMs      float64                       `json:"commit_p50_ms"`
	OfIdealRate   map[string]float64            `json:"queue32_of_ideal_rate"`
	OfIdealWait   map[string]float64            `json:"queue32_wait_p99_of_ideal"`
	HandoffCommit float64                       `json:"postgres_handoff_p50_commits"`
	OverPolling   map[string]float64            `json:"hot16_over_polling"` // hand-offs ÷ those of the faster of the polling designs
	OfAdvisory    map[string]float64            `json:"postgres_of_advisory"`
	All           map[string]map[string]outcome `json:"all"`
}

func report(all []contender, results map[string]map[string]outcome, commit float64) error {
	queue := loads[len(loads)-1]
	// In fair order nobody waits longer than for a turn of everybody else; the rate is that of the holds alone.
	idealRate := float64(time.Second) / float64(queue.hold)
	idealWait := float64((time.Duration(queue.workers-1) * queue.hold).Microseconds()) / 1000

	for _, l := range loads {
		fmt.Printf("\n%s: %d workers, %d keys, held for %v\n", l.name, l.workers, l.keys, l.hold)
		w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "\tper second\thand-offs\tof advisory\twait p50\twait p99\thand-off p50\tturns of one\t")
		for _, c := range all {
			o := results[c.name][l.name]
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.2f\t%.2f ms\t%.2f ms\t%.2f ms\t%d to %d\t\n", c.name, o.PerSecond, o.Handoffs,
				o.PerSecond/results["pg_advisory_xact_lock"][l.name].PerSecond, o.WaitP50, o.WaitP99, o.HandoffP50, o.FewestTurns, o.MostTurns)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	s := summary{
		CommitMs: commit, OfIdealRate: map[string]float64{}, OfIdealWait: map[string]float64{}, OverPolling: map[string]float64{},
		OfAdvisory: map[string]float64{}, All: results, HandoffCommit: results["postgres"]["queue32"].HandoffP50 / commit,
	}
	polling := max(results["polling: queue, 50 ms"]["hot16"].Handoffs, results["polling: SET NX, 100 ms"]["hot16"].Handoffs)
	for _, c := range all {
		o := results[c.name]
		s.OfIdealRate[c.name] = o["queue32"].PerSecond / idealRate
		s.OfIdealWait[c.name] = o["queue32"].WaitP99 / idealWait
		s.OverPolling[c.name] = o["hot16"].Handoffs / polling
	}
	for _, l := range loads {
		s.OfAdvisory[l.name] = results["postgres"][l.name].PerSecond / results["pg_advisory_xact_lock"][l.name].PerSecond
	}
	fmt.Printf("\none commit %.2f ms; PostgreSQL with 32 in the queue: %.2f of the ideal rate (goal 0.7), wait p99 %.2f of the ideal (goal 1.3), hand-off %.1f commits (goal 3); hot key %.0f times the polling designs (goal 10)\n",
		commit, s.OfIdealRate["postgres"], s.OfIdealWait["postgres"], s.HandoffCommit, s.OverPolling["postgres"])
	if len(all) < 7 {
		return nil // the ratios need all of them
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]summary{"lock": s})
}
