// Package operator shows those who run the service how it stands: as numbers for Prometheus, and as pages. It changes nothing, and what
// it reads is bounded, whatever has piled up.
package operator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
)

// Bounds.
const (
	page       = 10_000           // of open actions, of the jobs of one queue and state, and of payments that leave in one stage: so many are counted
	heldLocks  = 100              // are listed
	waiters    = 500              // of all of them together
	listed     = 20               // of what is stuck
	stuckAfter = 90 * time.Second // past its deadline an action is stuck: sweeps and a restart fit in, as in reconcile
	goodFor    = 5 * time.Second  // a look is shown again to whoever asks within it
	patience   = 5 * time.Second  // for one look
)

// Config is what is looked at. Pool and Queues are needed.
type Config struct {
	Pool   *pgxpool.Pool
	Queues []string         // of jobs
	Locks  bool             // they are kept in PostgreSQL: elsewhere each process knows its own alone
	Now    func() time.Time // default time.Now
}

// Lookout looks at the database, once in five seconds at most, whoever asks. It is safe for concurrent use.
type Lookout struct {
	Config

	mu   sync.Mutex // held while the database is asked
	last *Look
}

// NewLookout makes a lookout. It looks at nothing yet.
func NewLookout(c Config) *Lookout {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Lookout{Config: c}
}

// Look is how the service stood at a moment, in all its processes.
type Look struct {
	At     time.Time
	Open   []OpenActions // by state; those of which there are none are left out
	Stuck  []StuckAction // the oldest deadlines first, 20 at most
	Jobs   []QueuedJobs  // by queue and state; the same
	Relay  []RelayStage  // by stage; the same
	Ledger []Balance     // of the system's accounts
	Locks  []postgres.Held
}

// OpenActions are the open actions in one state.
type OpenActions struct {
	State  string
	Count  int64         // at most 10,000 in all states together
	Stuck  int64         // of those: past their deadline by 90 seconds and more
	Oldest time.Duration // for which one of them has been in the state
}

// StuckAction is one that is past its deadline by 90 seconds and more, with all that it has gone through.
type StuckAction struct {
	Action
	History []Step
}

// QueuedJobs are the jobs of a queue in one state of River's.
type QueuedJobs struct {
	Queue, State string
	Count        int64         // at most 10,000
	Due          time.Duration // since the oldest was due; negative: until it is
}

// RelayStage are outgoing payments in one stage.
type RelayStage struct {
	Stage    string
	Payments int64
	Oldest   time.Duration // since it entered the pipeline
}

// Balance is what a system account holds.
type Balance struct {
	Account ledger.Account
	Msat    int64
}

// Look is how the service stands, or stood a few seconds ago.
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
		open, err := q.OpenByState(ctx, db.OpenByStateParams{StuckSince: at.Add(-stuckAfter), Page: page})
		if err != nil {
			return err
		}
		for _, o := range open {
			look.Open = append(look.Open, OpenActions{o.State, o.Actions, o.Stuck, at.Sub(o.Oldest)})
		}
		if look.Stuck, err = stuck(ctx, q, at.Add(-stuckAfter)); err != nil {
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

func stuck(ctx context.Context, q *db.Queries, since time.Time) ([]StuckAction, error) {
	rows, err := q.ListStuck(ctx, db.ListStuckParams{At: &since, Page: listed})
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
