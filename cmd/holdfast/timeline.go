package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/timeline"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

type timelineCommand struct {
	List   timelineList   `cmd:"" default:"1" help:"List the histories from which the service went on: cluster, database and timeline of PostgreSQL."`
	Accept timelineAccept `cmd:"" changes:"" help:"Let people pay again on the history that the database writes now. Reconcile first (docs/production.md)."`
	Doubt  timelineDoubt  `cmd:"" changes:"" help:"Begin nothing new until accept, and skip numbers: after a restore that PostgreSQL does not show, such as of a disk."`
}

// Help says what the command does without another word.
func (timelineCommand) Help() string { return "Without another word it lists them." }

type timelineList struct{}

func (timelineList) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, _ *db.Queries) error { return printTimelines(ctx, e, pool) })
}

type timelineAccept struct{}

func (timelineAccept) Run(ctx context.Context, e *environment) error {
	e.timeline.Log = slog.New(slog.DiscardHandler) // who runs this knows that it is doubted
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, _ *db.Queries) error {
		if err := timeline.Accept(ctx, pool); err != nil {
			return err
		}
		return printTimelines(ctx, e, pool)
	})
}

type timelineDoubt struct{}

func (timelineDoubt) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, _ *db.Queries) error {
		if err := timeline.Doubt(ctx, pool); err != nil {
			return err
		}
		return printTimelines(ctx, e, pool)
	})
}

func printTimelines(ctx context.Context, e *environment, pool *pgxpool.Pool) error {
	list, err := timeline.List(ctx, pool)
	if err != nil {
		return err
	}
	return e.print(list, func(t *table) {
		t.row("CLUSTER/DATABASE/TIMELINE", "MET", "ACCEPTED", "")
		for _, known := range list {
			state := ""
			switch {
			case known.Doubted:
				state = "here: nothing new is begun"
			case known.Here:
				state = "here"
			}
			t.row(known.Name, known.Met, known.Accepted, state)
		}
	})
}

// mayBegin refuses what is new while the database may lack what was committed last: people would spend again what they
// had spent, and be paid for again.
func (e *environment) mayBegin() error {
	if _, doubted := e.timeline.Doubted(); doubted {
		return paidaction.Errorf(paidaction.CodeTryAgain, "Nothing new can be paid for while we check our books. Nothing was changed. Try again later.")
	}
	return nil
}

// timelineEvery is how often a process asks which history the database writes, beside each new connection: a pooler
// keeps ours where another server takes over behind it. It is also how soon an accepted history is noticed.
const timelineEvery = 5 * time.Second

// watchTimeline asks which history the database writes, until ctx ends.
func (s *service) watchTimeline(ctx context.Context) error {
	for (worker.RealClock{}).Wait(ctx, s.timelineEvery) == nil {
		if err := s.timeline.Look(ctx, s.pool); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "it is not known whether another database has taken over", "error", err)
		}
	}
	return nil
}

// doubts is 1 while nothing new is begun.
func (e *environment) doubts() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "holdfast", Name: "timeline_doubted",
		Help: "1 while this process begins nothing new, since the database was restored or another has taken over, and nobody has accepted that."},
		func() float64 {
			if _, doubted := e.timeline.Doubted(); doubted {
				return 1
			}
			return 0
		})
}
