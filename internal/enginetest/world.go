// Package enginetest is a small world for tests of the engine and its actions: a fresh database, a simulated node, a
// clock that moves only when told to, and a job queue that is worked off one job at a time.
package enginetest

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// World is everything that a test needs.
type World struct {
	testing.TB
	Ctx     context.Context
	Pool    *pgxpool.Pool
	Node    *simnode.Node    // the first of Nodes; nil on real nodes
	Nodes   simnode.Nodes    // these issue and send, in one network
	Network *simnode.Network // where receivers are added; nil on real nodes
	Clock   *Clock
	Engine  *paidaction.Engine
	Faults  *Faults

	Wallets *Wallets     // the receivers'; nil on real nodes
	Relay   *relay.Relay // runs only when told to; nil on real nodes
	signal  *changes
}

var quiet = slog.New(slog.DiscardHandler)

// Clock is a clock that moves only when a test says so. The zero Clock is the real one.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now is the present moment.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.IsZero() {
		return time.Now()
	}
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// Live switches to the real clock.
func (c *Clock) Live() { c.mu.Lock(); defer c.mu.Unlock(); c.now = time.Time{} }

// Faults collects what the engine's hooks report.
type Faults struct {
	mu        sync.Mutex
	Conflicts int     // deadlocks and serialisation failures
	Errors    []error // faults of an action's own code
}

// seeded is randomness that is the same in every run.
type seeded struct {
	mu     sync.Mutex
	chacha *rand.ChaCha8
}

func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chacha.Read(p)
}

// New makes a world with one node, the community's actions, and any given in addition.
func New(t testing.TB, settings paidaction.Settings, more ...paidaction.Definition) *World {
	t.Helper()
	return NewNodes(t, []string{"sim"}, settings, more...)
}

// NewNodes is New with one node for each name. The nodes share clock, chain and receivers.
func NewNodes(t testing.TB, names []string, settings paidaction.Settings, more ...paidaction.Definition) *World {
	t.Helper()
	clock := &Clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	network := simnode.NewNetwork(clock.Now)
	var nodes simnode.Nodes
	for _, name := range names {
		nodes = append(nodes, network.AddNode(name))
	}
	w := &World{TB: t, Ctx: t.Context(), Pool: pgtest.New(t), Clock: clock, Faults: &Faults{}, signal: &changes{}, Node: nodes[0], Nodes: nodes, Network: network}
	w.Wallets = newWallets(network)
	w.Relay = w.NewRelay()
	w.start(nodes, &seeded{chacha: rand.NewChaCha8([32]byte{1})}, w.Relay, settings, more...)
	return w
}

// On makes a world on real nodes, in real time, with real randomness: worlds may share a node, but never a preimage.
func On(t testing.TB, nodes paidaction.Nodes, settings paidaction.Settings) *World {
	t.Helper()
	w := &World{TB: t, Ctx: t.Context(), Pool: pgtest.New(t), Clock: &Clock{}, Faults: &Faults{}, signal: &changes{}}
	w.start(nodes, cryptorand.Reader, nil, settings)
	return w
}

func (w *World) start(nodes paidaction.Nodes, random io.Reader, relay paidaction.Relay, settings paidaction.Settings, more ...paidaction.Definition) {
	w.Helper()
	_, err := w.Pool.Exec(w.Ctx, `CREATE TABLE test_job (id bigserial PRIMARY KEY, kind text, action bigint, at timestamptz)`)
	if err != nil {
		w.Fatal(err)
	}
	w.Engine, err = paidaction.New(paidaction.Config{
		Pool: w.Pool, Nodes: nodes, Relay: relay, Jobs: jobs{w.Clock}, Actions: append(community.Actions(community.DefaultSettings()), more...),
		TellFailed: community.TellFailed, Secret: make([]byte, 32), Now: w.Clock.Now, Random: random, Log: quiet, Settings: settings,
		Hooks: paidaction.Hooks{
			Changed:  func(int64) { w.signal.tell() },
			Conflict: func(string) { w.Faults.mu.Lock(); w.Faults.Conflicts++; w.Faults.mu.Unlock() },
			Fault: func(_ int64, err error) {
				w.Faults.mu.Lock()
				w.Faults.Errors = append(w.Faults.Errors, err)
				w.Faults.mu.Unlock()
			},
		},
	})
	if err != nil {
		w.Fatal(err)
	}
}

// jobs stores jobs in a table, inside the transaction that decides on them.
type jobs struct{ clock *Clock }

func (j jobs) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	for _, job := range jobs {
		at := job.At
		if at.IsZero() {
			at = j.clock.Now()
		}
		for _, action := range append([]int64{job.Action}, job.With...) {
			if _, err := tx.Exec(ctx, `INSERT INTO test_job (kind, action, at) VALUES ($1, $2, $3)`, job.Kind, action, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// Work does the oldest due job, and reports whether there was one. A job that failed stays for the next time.
func (w *World) Work() (bool, error) {
	var id, action int64
	var kind paidaction.JobKind
	err := w.Pool.QueryRow(w.Ctx, `SELECT id, kind, action FROM test_job WHERE at <= $1 ORDER BY at, id LIMIT 1`, w.Clock.Now()).
		Scan(&id, &kind, &action)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch kind {
	case paidaction.JobAdvance:
		_, err = w.Engine.Advance(w.Ctx, action)
	case paidaction.JobAgain:
		err = w.Engine.Again(w.Ctx, action)
	case paidaction.JobAfterFailed:
		err = w.Engine.AfterFailed(w.Ctx, action)
	default:
		err = w.Engine.AfterPaid(w.Ctx, action)
	}
	if err != nil {
		return true, err
	}
	_, err = w.Pool.Exec(w.Ctx, `DELETE FROM test_job WHERE id = $1`, id)
	return true, err
}

// Drain does all due jobs.
func (w *World) Drain() {
	w.Helper()
	for {
		more, err := w.Work()
		if err != nil {
			w.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// Advance moves an action one step on, as an event of its node would.
func (w *World) Advance(id int64) paidaction.Progress {
	w.Helper()
	p, err := w.Engine.Advance(w.Ctx, id)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// User makes a user with this many credits and sats, in msat.
func (w *World) User(name string, credits, sats int64) int64 {
	w.Helper()
	q := db.New(w.Pool)
	id, err := q.InsertUser(w.Ctx, db.InsertUserParams{Name: name, CreatedAt: w.Clock.Now()})
	if err != nil {
		w.Fatal(err)
	}
	w.Fund(id, credits, sats)
	return id
}

// Fund adds to the balances of a user, in msat.
func (w *World) Fund(id, credits, sats int64) {
	w.Helper()
	var transfers []ledger.Transfer
	if sats > 0 {
		transfers = append(transfers, ledger.Transfer{From: ledger.Lightning, To: ledger.UserSats(id), Msat: sats, Reason: "deposit"})
	}
	if credits > 0 {
		transfers = append(transfers,
			ledger.Transfer{From: ledger.Lightning, To: ledger.BackingSats, Msat: credits, Reason: "deposit"},
			ledger.Transfer{From: ledger.IssuedCredits, To: ledger.UserCredits(id), Msat: credits, Reason: "deposit"})
	}
	if err := ledger.Post(w.Ctx, db.New(w.Pool), nil, w.Clock.Now(), transfers); err != nil {
		w.Fatal(err)
	}
}

// Post makes a paid item; its author gets the credits for it.
func (w *World) Post(author int64, title string, forwards ...community.Forward) int64 {
	w.Helper()
	pa := w.Pay(author, community.KindItemCreate, community.ItemCreateArgs{Title: title, Forwards: forwards}, paidaction.FeeCredit)
	return w.Item(pa)
}

// Item is the item that an ITEM_CREATE made.
func (w *World) Item(pa *paidaction.PaidAction) int64 {
	w.Helper()
	var id int64
	if err := w.Pool.QueryRow(w.Ctx, `SELECT ($1::jsonb->>'item')::bigint`, pa.Result).Scan(&id); err != nil {
		w.Fatalf("action %d has no item: %v", pa.ID, err)
	}
	return id
}

// Pay asks for an action and expects no refusal.
func (w *World) Pay(user int64, kind string, args any, method paidaction.Method) *paidaction.PaidAction {
	w.Helper()
	pa, err := w.Try(user, kind, args, method, "")
	if err != nil {
		w.Fatalf("%s: %v", kind, err)
	}
	return pa
}

// Try asks for an action; user 0 is the anonymous payer.
func (w *World) Try(user int64, kind string, args any, method paidaction.Method, key string) (*paidaction.PaidAction, error) {
	return w.Engine.Pay(w.Ctx, paidaction.Request{Kind: kind, Args: args, Terms: paidaction.Terms{Method: method}, Key: key, Caller: Caller(user)})
}

// Caller is the user as a caller; 0 is anonymous.
func Caller(user int64) paidaction.Caller {
	if user == 0 {
		return paidaction.Caller{Client: "192.0.2.1"}
	}
	return paidaction.Caller{User: &user}
}

// Look reads an action as its payer.
func (w *World) Look(id int64) *paidaction.PaidAction {
	w.Helper()
	var payer *int64
	if err := w.Pool.QueryRow(w.Ctx, `SELECT payer_id FROM paid_action WHERE id = $1`, id).Scan(&payer); err != nil {
		w.Fatal(err)
	}
	c := paidaction.Caller{User: payer}
	if payer == nil {
		var genesis int64
		if err := w.Pool.QueryRow(w.Ctx, `SELECT coalesce(genesis_id, id) FROM paid_action WHERE id = $1`, id).Scan(&genesis); err != nil {
			w.Fatal(err)
		}
		c.Secret = w.Engine.SecretOf(genesis)
	}
	pa, err := w.Engine.Get(w.Ctx, c, id)
	if err != nil {
		w.Fatal(err)
	}
	return pa
}

// WantState fails the test if the action is in another state.
func (w *World) WantState(id int64, want paidaction.State) *paidaction.PaidAction {
	w.Helper()
	pa := w.Look(id)
	if pa.State != want {
		w.Fatalf("action %d is %s (%v), want %s", id, pa.State, pa.Failure, want)
	}
	return pa
}

// Balance is what an account holds, in msat.
func (w *World) Balance(a ledger.Account) int64 {
	w.Helper()
	n, err := ledger.Balance(w.Ctx, db.New(w.Pool), a)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// WantBalance fails the test if the account holds something else, in msat.
func (w *World) WantBalance(a ledger.Account, want int64) {
	w.Helper()
	if got := w.Balance(a); got != want {
		w.Errorf("%s holds %d msat, want %d", a, got, want)
	}
}

// Count is the single number that a query returns.
func (w *World) Count(sql string, args ...any) int64 {
	w.Helper()
	var n int64
	if err := w.Pool.QueryRow(w.Ctx, sql, args...).Scan(&n); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return n
}

// WantRefusal fails the test if err is not a refusal with this code.
func (w *World) WantRefusal(err error, code paidaction.Code) {
	w.Helper()
	if !errors.Is(err, paidaction.Refused(code)) {
		w.Errorf("got %v, want a refusal with %s", err, code)
	}
}

// WantConserved checks the books: every asset sums to zero over all accounts, balances equal postings, including
// archived ones, and each credit is backed by a sat.
func (w *World) WantConserved() {
	w.Helper()
	if n := w.Count(`SELECT coalesce(sum(balance), 0) + (SELECT coalesce(sum(msat), 0) FROM balance_delta) FROM account`); n != 0 {
		w.Errorf("all accounts together hold %d msat, want 0", n)
	}
	if n := w.Count(`
		WITH posted AS (SELECT id, sum(m) AS m FROM (
			SELECT to_account AS id, msat AS m FROM posting UNION ALL SELECT from_account, -msat FROM posting
			UNION ALL SELECT account_id, msat FROM archived_balance) p GROUP BY id),
		held AS (SELECT id, sum(m) AS m FROM (
			SELECT id, balance AS m FROM account UNION ALL SELECT account_id, msat FROM balance_delta) h GROUP BY id)
		SELECT count(*) FROM posted FULL JOIN held USING (id) WHERE coalesce(posted.m, 0) <> coalesce(held.m, 0)`); n != 0 {
		w.Errorf("%d accounts differ from their postings", n)
	}
	if backing, issued := w.Balance(ledger.BackingSats), w.Balance(ledger.IssuedCredits); backing != -issued {
		w.Errorf("%d msat of credits are backed by %d msat", -issued, backing)
	}
}

// WantSound fails the test unless every invariant of books and nodes holds and nothing went wrong on the way.
func (w *World) WantSound() {
	w.Helper()
	w.WantConserved()
	report, err := reconcile.Run(w.Ctx, reconcile.Config{Pool: w.Pool, Nodes: w.Nodes, Senders: w.Nodes.Names(), Issuers: w.Nodes.Names(),
		Now: func() time.Time { return w.Clock.Now().Add(time.Nanosecond) }})
	if err != nil {
		w.Fatal(err)
	}
	for _, i := range report.Invariants {
		// Jobs are in the test's own table here, of which the seventh invariant knows nothing.
		if i.Broken > 0 && i.ID != 7 {
			w.Errorf("invariant %d: %v", i.ID, i.Breaks)
		}
	}
	if w.Faults.Conflicts != 0 || len(w.Faults.Errors) != 0 {
		w.Errorf("%d conflicts, faults %v", w.Faults.Conflicts, w.Faults.Errors)
	}
}
