// Package operator shows the people who run the service how it is doing: as numbers for Prometheus, and as pages. What
// it reads is bounded, however much has piled up, and it changes nothing, except that a job can be run again on River's
// page. Begin with Look.
package operator

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Limits.
const (
	page       = 10_000           // counts stop here: open actions, jobs per queue and state, payments per stage
	heldLocks  = 100              // at most so many are listed
	waiters    = 500              // of all locks together
	listed     = 20               // of the stuck actions
	stuckAfter = 90 * time.Second // so late, an action is stuck; as in reconcile, sweeps and a restart fit in
	goodFor    = 5 * time.Second  // for so long, a look is shown again to whoever asks
	patience   = 5 * time.Second  // for one look
)

// Config says what is looked at. Pool and Queues are required.
type Config struct {
	Pool    *pgxpool.Pool
	Queues  []string         // of jobs
	Locks   bool             // locks are kept in PostgreSQL: elsewhere each process knows only its own
	MaxWait time.Duration    // how long a withdrawal may wait for a node that can send it; default paidaction.MaxWait
	Now     func() time.Time // default time.Now
}

// Lookout looks at the database, at most once in five seconds, whoever asks. It is safe for concurrent use.
type Lookout struct {
	Config

	mu   sync.Mutex // held while the database is asked
	last *Look
}

// NewLookout makes a lookout. It does not look at anything yet.
func NewLookout(c Config) *Lookout {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.MaxWait = cmp.Or(c.MaxWait, paidaction.MaxWait)
	return &Lookout{Config: c}
}

// Look is the state of the whole service, in all its processes, at one moment.
type Look struct {
	At     time.Time
	Open   []OpenActions // by state; states without any are left out
	Stuck  []StuckAction // the oldest deadlines first, at most 20
	Jobs   []QueuedJobs  // by queue and state, left out likewise
	Relay  []RelayStage  // by stage, left out likewise
	Ledger []Balance     // of the system's accounts
	Locks  []postgres.Held
}

// OpenActions are the open actions in one state.
type OpenActions struct {
	State  string
	Count  int64         // at most 10,000 in all states together
	Stuck  int64         // of those, past their deadline by at least 90 seconds
	Oldest time.Duration // the longest time that one of them has been in the state
}

// StuckAction is an action past its deadline by at least 90 seconds, with its history.
type StuckAction struct {
	Action
	History []Step
}

// QueuedJobs are the jobs of a queue in one of River's states.
type QueuedJobs struct {
	Queue, State string
	Count        int64         // at most 10,000
	Due          time.Duration // since the oldest was due; negative: until it is due
}

// RelayStage is the outgoing payments in one stage.
type RelayStage struct {
	Stage    string
	Payments int64
	Oldest   time.Duration // since the oldest entered the pipeline
}

// Balance is what a system account holds.
type Balance struct {
	Account ledger.Account
	Msat    int64
}

// Look returns the present state of the service, or that of a few seconds ago.
func (l *Lookout) Look(ctx context.Context) (*Look, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.Now().Sub(l.last.At) < goodFor {
		return l.last, nil
	}
	// Whoever asked first may go away; the others still wait for the answer.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	look, err := l.look(limited)
	if err != nil {
		return nil, fmt.Errorf("look at the service: %w", err)
	}
	l.last = look
	return look, nil
}

// look reads everything in one snapshot.
func (l *Lookout) look(ctx context.Context) (*Look, error) {
	at := l.Now().UTC()
	look := &Look{At: at}
	var system []int64
	for _, account := range ledger.System() {
		system = append(system, int64(account))
	}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, l.Pool, options, func(tx pgx.Tx) error {
		q := db.New(tx)
		since := at.Add(-stuckAfter)
		open, err := q.OpenByState(ctx, db.OpenByStateParams{StuckSince: since, WaitsSince: since.Add(-l.MaxWait), WaitsTo: at.Add(dbclock.Apart), Page: page})
		if err != nil {
			return err
		}
		for _, o := range open {
			look.Open = append(look.Open, OpenActions{o.State, o.Actions, o.Stuck, at.Sub(o.Oldest)})
		}
		if look.Stuck, err = stuck(ctx, q, at, l.MaxWait); err != nil {
			return err
		}
		jobs, err := q.JobsByQueue(ctx, db.JobsByQueueParams{Queues: l.Queues, Page: page})
		if err != nil {
			return err
		}
		for _, j := range jobs {
			look.Jobs = append(look.Jobs, QueuedJobs{j.Queue, j.State, j.Jobs, at.Sub(j.Oldest)})
		}
		stages, err := q.RelayStages(ctx, page)
		if err != nil {
			return err
		}
		for _, s := range stages {
			look.Relay = append(look.Relay, RelayStage{s.Stage, s.Payments, at.Sub(s.Oldest)})
		}
		balances, err := q.Balances(ctx, system)
		if err != nil {
			return err
		}
		for _, b := range balances {
			look.Ledger = append(look.Ledger, Balance{ledger.Account(b.ID), b.Balance})
		}
		if l.Locks {
			look.Locks, err = postgres.List(ctx, tx, heldLocks, waiters)
		}
		return err
	})
	return look, err
}

func stuck(ctx context.Context, q *db.Queries, at time.Time, maxWait time.Duration) ([]StuckAction, error) {
	since := at.Add(-stuckAfter)
	rows, err := q.ListStuck(ctx, db.ListStuckParams{At: &since, WaitsSince: since.Add(-maxWait), WaitsTo: at.Add(dbclock.Apart), Page: listed})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	all, ids := make([]StuckAction, len(rows)), make([]int64, len(rows))
	of := map[int64]*StuckAction{}
	for i, row := range rows {
		all[i].Action, ids[i] = Action(row), row.ID
		of[row.ID] = &all[i]
	}
	histories, err := q.Histories(ctx, ids)
	for _, h := range histories {
		of[h.ActionID].History = append(of[h.ActionID].History, step(h))
	}
	return all, err
}
