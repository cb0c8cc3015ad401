package pool_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/redisserver"
	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/locktest"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/lock/redis"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(obey())
	}
	pgtest.Main(m)
}

const sat paidaction.Msat = 1000

// node has as much of a node as a pool uses.
type node struct {
	paidaction.SendingNode // nothing else is asked

	mu       sync.Mutex
	key      string
	outbound paidaction.Msat
	behind   bool
	away     error         // every question fails
	shy      error         // the question what it can send fails
	hang     chan struct{} // questions wait for it, or for their context
	asking   int           // questions that are open now
	most     int           // the most that were open at once
	asked    int
}

func newNode(key string, outbound paidaction.Msat) *node { return &node{key: key, outbound: outbound} }

func (n *node) set(change func(*node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

func (n *node) question(ctx context.Context) error {
	n.mu.Lock()
	n.asked++
	n.asking++
	n.most = max(n.most, n.asking)
	hang, err := n.hang, n.away
	n.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	n.mu.Lock()
	n.asking--
	n.mu.Unlock()
	return err
}

func (n *node) Chain(ctx context.Context) (paidaction.Chain, error) {
	err := n.question(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	return paidaction.Chain{Height: 100, Synced: !n.behind}, err
}

func (n *node) PublicKey(ctx context.Context) (string, error) {
	err := n.question(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.key, err
}

func (n *node) Sendable(ctx context.Context) (paidaction.Msat, error) {
	err := n.question(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.outbound, errors.Join(err, n.shy)
}

// clock moves only when it is told to.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	asked func() // is called when it is; nil: nothing is
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil {
		c.asked()
	}
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// quick are settings under which tests do not wait long, unless the machine is busy.
func quick() pool.Settings {
	s := pool.DefaultSettings()
	s.RetryTimeout, s.Probe, s.ProbeTimeout, s.Jitter = time.Minute, 100*time.Millisecond, 20*time.Second, time.Millisecond
	return s
}

// briefly is quick for tests that expect a refusal.
func briefly() pool.Settings {
	s := quick()
	s.RetryTimeout = 400 * time.Millisecond
	return s
}

// world is a database, a lock and a clock that several pools share, as processes would.
type world struct {
	testing.TB
	db     *pgxpool.Pool
	clock  *clock // nil: the real one
	locker func(lock.Settings) *lock.Locker
	random uint64
}

// newWorld has a lock in memory and a clock that stands still.
func newWorld(t *testing.T) *world {
	store := lock.NewMemory(0)
	w := &world{TB: t, db: pgtest.New(t), clock: newClock()}
	w.locker = func(s lock.Settings) *lock.Locker {
		s.Heartbeat, s.Patience = cmp.Or(s.Heartbeat, locktest.Patient.Heartbeat), cmp.Or(s.Patience, locktest.Patient.Patience)
		s.Log = slog.New(slog.DiscardHandler)
		return locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return store, nil }}, s)
	}
	return w
}

func (w *world) now() time.Time {
	if w.clock == nil {
		return time.Now()
	}
	return w.clock.Now()
}

// member is a node with so many slots.
type member struct {
	name  string
	node  *node
	slots int
}

// process is one pool, as another process would have it.
type process struct {
	*pool.Pool
	w       *world
	metrics *prometheus.Registry
}

// open starts a pool, and waits until it has looked at its nodes.
func (w *world) open(s pool.Settings, members ...member) *process {
	w.Helper()
	return w.openOn(w.db, w.locker(lock.Settings{}), s, members...)
}

func (w *world) openOn(database db.DBTX, locker *lock.Locker, s pool.Settings, members ...member) *process {
	w.Helper()
	w.random++
	for tries := 0; ; tries++ {
		p := w.openOnce(database, locker, s, members)
		busy := slices.ContainsFunc(slices.Collect(maps.Values(p.health())), func(s pool.Status) bool { return s.Reason == pool.Unasked })
		if !busy || tries == 2 {
			return p
		}
		p.Close() // on a busy machine the first look may have ended too early
	}
}

func (w *world) openOnce(database db.DBTX, locker *lock.Locker, s pool.Settings, members []member) *process {
	w.Helper()
	registry := prometheus.NewRegistry()
	c := pool.Config{
		Locker: locker, Register: pool.NewRegister(database, w.now), Settings: s, Metrics: pool.NewMetrics(registry),
		Random: rand.NewPCG(1, w.random), Log: slog.New(slog.DiscardHandler),
	}
	for _, m := range members {
		c.Nodes = append(c.Nodes, pool.Member{Name: m.name, Node: m.node, Slots: m.slots})
	}
	p, err := pool.New(c)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(p.Close)
	return &process{Pool: p, w: w, metrics: registry}
}

func (p *process) health() map[string]pool.Status {
	p.w.Helper()
	all, err := p.Health(context.Background())
	if err != nil {
		p.w.Fatal(err)
	}
	by := map[string]pool.Status{}
	for _, s := range all {
		by[s.Name] = s
	}
	return by
}

// eventually waits until the state of a node is as it should be.
func (p *process) eventually(what, name string, holds func(pool.Status) bool) {
	p.w.Helper()
	locktest.Eventually(p.w, what, func() bool { return holds(p.health()[name]) })
}

// reason waits until a node gets nothing for this reason; with an empty reason, until it gets something.
func (p *process) reason(name string, want pool.Reason) {
	p.w.Helper()
	p.eventually(name+" is "+string(want), name, func(s pool.Status) bool { return s.Reason == want })
}

// lease waits for a lease. A brief wait may end before a busy machine gets to it.
func (p *process) lease(need pool.Need) (lease *pool.Lease) {
	p.w.Helper()
	locktest.Eventually(p.w, "a lease", func() bool {
		var err error
		lease, err = p.Acquire(p.w.Context(), need)
		if none := (*pool.NoNodeError)(nil); err != nil && !(errors.As(err, &none) && none.Reason() == pool.Busy) {
			p.w.Fatal(err)
		}
		return err == nil
	})
	return lease
}

func (p *process) leased(need pool.Need) <-chan result {
	got := make(chan result, 1)
	go func() {
		lease, err := p.Acquire(p.w.Context(), need)
		got <- result{lease, err}
	}()
	return got
}

// waiting has somebody wait in the queue for a node until ctx ends, and tells how that ended.
func (p *process) waiting(ctx context.Context, node string) <-chan error {
	p.w.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, pool.Need{})
		ended <- err
	}()
	locktest.Eventually(p.w, "somebody waits", func() bool { return p.QueuedFor(node) == 1 })
	return ended
}

type result struct {
	lease *pool.Lease
	err   error
}

// got waits for a lease.
func got(t testing.TB, what string, from <-chan result) *pool.Lease {
	t.Helper()
	r := locktest.Wait(t, what, from)
	if r.err != nil {
		t.Fatalf("%s: %v", what, r.err)
	}
	return r.lease
}

// none expects that no node is found, for this reason.
func (p *process) none(need pool.Need, want pool.Reason) {
	p.w.Helper()
	lease, err := p.Acquire(p.w.Context(), need)
	var why *pool.NoNodeError
	if !errors.As(err, &why) || !errors.Is(err, pool.ErrNoNode) || why.Reason() != want ||
		!errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		p.w.Errorf("got %v, %v; want %s", lease, err, want)
	}
}

func release(t testing.TB, lease *pool.Lease, o pool.Outcome) {
	t.Helper()
	if err := lease.Release(context.Background(), o); err != nil {
		t.Errorf("release %s: %v", lease.Name(), err)
	}
}

// inPostgres is a world with its locks in its database, and the real clock.
func inPostgres(t *testing.T) *world {
	w := &world{TB: t, db: pgtest.New(t)}
	w.locker = func(s lock.Settings) *lock.Locker {
		s.Heartbeat, s.Patience = cmp.Or(s.Heartbeat, locktest.Patient.Heartbeat), cmp.Or(s.Patience, locktest.Patient.Patience)
		s.Log = slog.New(slog.DiscardHandler)
		return locktest.Open(t, locktest.Strategy{Open: openPostgres(w.db.Config().ConnString())}, s)
	}
	return w
}

func openPostgres(dsn string) func() (lock.Store, error) {
	return func() (lock.Store, error) { return postgres.Open(context.Background(), postgres.Options{DSN: dsn}) }
}

// inRedis is a world with its locks in a Redis of its own.
func inRedis(t *testing.T) (w *world, url string) {
	server := redisserver.ForTest(t)
	w = &world{TB: t, db: pgtest.New(t)}
	w.locker = func(s lock.Settings) *lock.Locker {
		s.Heartbeat, s.Patience = cmp.Or(s.Heartbeat, locktest.Patient.Heartbeat), cmp.Or(s.Patience, locktest.Patient.Patience)
		s.Log = slog.New(slog.DiscardHandler)
		return locktest.Open(t, locktest.Strategy{Open: func() (lock.Store, error) { return redis.Open(server.URL()) }}, s)
	}
	return w, server.URL()
}

// inMemory is a world of one process.
func inMemory(t *testing.T) *world {
	w := newWorld(t)
	w.clock = nil
	return w
}

func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// lookedAt waits until a look that began after the call has counted. One that was going on asks three questions at most,
// and so does the next; whatever is asked after them is of a later one.
func (n *node) lookedAt(t testing.TB) {
	t.Helper()
	before := n.count()
	locktest.Eventually(t, "the node is looked at", func() bool { return n.count() > before+6 })
}

func (n *node) open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asking
}
