package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// Growth is what a zap costs as the history grows. Everything is counted rather than timed, so a busy machine changes
// little.
type Growth struct {
	Sizes []Grown `json:"sizes"`
	// Worst is by how much a size exceeds the cheapest one, in pages and in bytes of the write-ahead log for each zap.
	Worst float64 `json:"worst"`
}

// Grown is the outcome for one size of the history. Figures per zap include all that follows the zap.
type Grown struct {
	Actions   int64              `json:"actions"` // in the history
	Zaps      int64              `json:"zaps"`    // counted zaps
	Pages     float64            `json:"pages_per_zap"`
	Dirtied   float64            `json:"dirtied_per_zap"` // pages that were clean before
	WALBytes  float64            `json:"wal_bytes_per_zap"`
	ServiceMB float64            `json:"service_mb"`       // peak resident memory of the service
	Bytes     map[string]float64 `json:"bytes_per_action"` // by table, with its indexes
}

// growthBound is by how much the pages and bytes for each zap may grow.
const growthBound = 0.15

// ErrGrows is wrapped in the error if a zap costs more with a longer history.
var ErrGrows = errors.New("the cost of a zap grows with the history")

// growthSettings keep full pages out of the log, because their number depends on checkpoints. Such pages are counted as
// dirtied.
var growthSettings = map[string]string{"shared_preload_libraries": "pg_stat_statements", "full_page_writes": "off", "fsync": "off", "synchronous_commit": "on"}

// Grow fills a database for each size, and zaps in it for o.Takes, with one client, so that no zap shares its cost with
// another.
func Grow(ctx context.Context, o Options, sizes []int64) (*Growth, error) {
	o = o.defaults()
	growth := &Growth{}
	for _, actions := range sizes {
		g, err := o.grown(ctx, actions)
		if err != nil {
			return nil, fmt.Errorf("after %d actions: %w", actions, err)
		}
		o.say("  %10d actions: %.1f pages, %.1f dirtied, %.0f bytes of log for each of %d zaps; the service had %.0f MB", g.Actions, g.Pages, g.Dirtied, g.WALBytes, g.Zaps, g.ServiceMB)
		growth.Sizes = append(growth.Sizes, g)
	}
	for _, of := range []func(Grown) float64{func(g Grown) float64 { return g.Pages }, func(g Grown) float64 { return g.WALBytes }} {
		least := of(slices.MinFunc(growth.Sizes, func(a, b Grown) int { return cmp.Compare(of(a), of(b)) }))
		for _, g := range growth.Sizes {
			growth.Worst = max(growth.Worst, of(g)/least-1)
		}
	}
	if growth.Worst > growthBound {
		return growth, fmt.Errorf("%w: by %.0f %%", ErrGrows, 100*growth.Worst)
	}
	return growth, nil
}

// grown measures with a history of this many actions, on a separate server.
func (o Options) grown(ctx context.Context, actions int64) (g Grown, err error) {
	scratch, err := child.NewScratch("holdfast-growth")
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, scratch.Remove()) }()
	d, err := startDatabase(ctx, scratch.Dir, o, growthSettings)
	if err != nil {
		return g, err
	}
	defer d.Stop()
	connection, err := pgx.Connect(ctx, d.DSN(holdfastDB))
	if err != nil {
		return g, err
	}
	defer connection.Close(context.WithoutCancel(ctx))
	before, err := sizes(ctx, connection)
	if err != nil {
		return g, err
	}
	if err := d.history(ctx, actions); err != nil {
		return g, err
	}
	after, err := sizes(ctx, connection)
	if err != nil {
		return g, err
	}
	s, err := newService(scratch.Dir, o.Holdfast, d.DSN(holdfastDB), "HOLDFAST_RECONCILE_EVERY=0s") // it would check everything that is new to it
	if err != nil {
		return g, err
	}
	if err := s.reconcile(ctx); err != nil {
		return g, fmt.Errorf("the history is none that the service would have made: %w", err)
	}
	if _, err := connection.Exec(ctx, "CREATE EXTENSION pg_stat_statements; CHECKPOINT"); err != nil {
		return g, err
	}
	if g, err = o.counted(ctx, d, s, connection); err != nil {
		return g, err
	}
	g.Actions, g.Bytes = actions, map[string]float64{}
	for name, bytes := range after {
		g.Bytes[name] = float64(bytes-before[name]) / float64(actions)
	}
	return g, nil
}

// history fills the database with zaps that were paid earlier.
func (d *database) history(ctx context.Context, actions int64) error {
	// All from today: the rewards of a day that has ended would be paid out while the ledger is watched.
	now := time.Now().UTC()
	at := now.Add(-time.Hour)
	if today := now.Truncate(24 * time.Hour); at.Before(today) {
		at = today
	}
	return d.psql(ctx, holdfastDB, "growth/history.sql", "users="+strconv.Itoa(d.users), "items="+strconv.Itoa(d.items),
		"actions="+strconv.FormatInt(actions, 10), "at="+at.Format(time.RFC3339))
}

// counted zaps and counts the cost.
func (o Options) counted(ctx context.Context, d *database, s *service, connection *pgx.Conn) (g Grown, err error) {
	if err := s.start(ctx); err != nil {
		return g, err
	}
	defer s.stop()
	b, err := openBooks(ctx, d.DSN(holdfastDB))
	if err != nil {
		return g, err
	}
	defer b.close(context.WithoutCancel(ctx))
	plan := load.Plan{Addresses: []string{s.address}, Keys: d.keys, Items: int64(d.items), Sats: sats, Clients: 1, Prefix: "warm", Measure: warm}
	// Warm up first, so that what a connection looks up about tables at first use is not counted.
	warmed, err := o.load(ctx, plan)
	if err == nil {
		err = b.settle(ctx)
	}
	if err == nil {
		_, err = connection.Exec(ctx, "SELECT pg_stat_statements_reset()")
	}
	if err != nil {
		return g, err
	}
	plan.Prefix, plan.Measure = "counted", o.Takes
	told, err := o.load(ctx, plan)
	if err == nil {
		err = b.settle(ctx)
	}
	if err != nil {
		return g, err
	}
	var pages, dirtied, bytes int64
	if err := connection.QueryRow(ctx, script("growth/cost.sql")).Scan(&pages, &dirtied, &bytes); err != nil {
		return g, err
	}
	zaps := float64(told.Paid)
	g = Grown{Zaps: told.Paid, Pages: float64(pages) / zaps, Dirtied: float64(dirtied) / zaps, WALBytes: float64(bytes) / zaps}
	g.ServiceMB, err = s.mostMB()
	told.Paid += warmed.Paid
	return g, errors.Join(err, b.check(ctx, told, sats))
}

// sizes are the bytes of the tables that grow with the actions, with their indexes.
func sizes(ctx context.Context, connection *pgx.Conn) (map[string]int64, error) {
	rows, err := connection.Query(ctx, script("growth/size.sql"))
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	var table string
	var heap, indexes int64
	_, err = pgx.ForEachRow(rows, []any{&table, &heap, &indexes}, func() error {
		found[table], found[table+" indexes"] = heap, indexes
		return nil
	})
	return found, err
}

// script is the text of an embedded script.
func script(name string) string {
	text, err := scripts.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}
