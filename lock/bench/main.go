// Command bench compares the lock with others, on servers that it starts itself. Everything is in one run on one
// machine, so that only the ratios matter. Its last line is JSON.
package main

import (
	"context"
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
	rounds := flag.Int("rounds", 3, "how often everything is measured; the medians count")
	only := flag.String("only", "", "measure only the one whose name begins with this, without JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	slog.SetLogLoggerLevel(slog.LevelError)
	if err := measure(ctx, *rounds, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measure starts the servers, runs every load on every contender, and prints the results.
func measure(ctx context.Context, rounds int, only string) (err error) {
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
	settings.MaxConns = 40 // one connection for each waiter that locks in a transaction
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
	m := measured{outcomes: map[string]map[string][]outcome{}}
	for _, c := range all {
		m.contenders = append(m.contenders, c.name)
		m.outcomes[c.name] = map[string][]outcome{}
	}
	if _, err := pool.Exec(ctx, "CREATE TABLE one_row AS SELECT 0 AS n"); err != nil {
		return err
	}
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
		commit, err := commitTime(ctx, pool)
		if err != nil {
			return err
		}
		m.commits = append(m.commits, commit)
		for _, l := range loads {
			for _, c := range all { // in turns, so that other work of the machine affects all alike
				if _, err := run(ctx, c, l, 200*time.Millisecond); err != nil { // warm-up
					return err
				}
				o, err := run(ctx, c, l, l.takes)
				if err != nil {
					return err
				}
				m.outcomes[c.name][l.name] = append(m.outcomes[c.name][l.name], o)
			}
		}
	}
	if err := m.tables(); err != nil || only != "" {
		return err
	}
	return m.report()
}

// commitTime is the median time of a durable commit, in milliseconds: the unit for PostgreSQL's hand-off.
func commitTime(ctx context.Context, pool *pgxpool.Pool) (float64, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
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
