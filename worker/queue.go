package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Money jobs never wait behind side effects, and neither behind servers of strangers, such as a receiver's wallet that a next attempt asks for an invoice: each
// have a queue of their own.
const (
	moneyQueue    = "money"
	effectQueue   = "effects"
	attemptQueue  = "attempts"
	deliveryQueue = "deliveries"
)

// Queues are the names of all queues.
func Queues() []string { return []string{moneyQueue, effectQueue, attemptQueue, deliveryQueue} }

// How often processes look for jobs by themselves, and how often they are told of new ones at most. A commit that tells (NOTIFY) takes
// a lock over the whole database, so nobody is told of side effects, which follow every payment.
const (
	moneyCooldown   = 2 * time.Millisecond
	moneyPoll       = 50 * time.Millisecond
	effectCooldown  = 25 * time.Millisecond // the more are fetched at a time, the more share a transaction (Engine.AfterPaid)
	effectPoll      = 100 * time.Millisecond
	foreignCooldown = 100 * time.Millisecond
	foreignPoll     = 250 * time.Millisecond
)

// maxAttempts is River's highest. Attempts count only where a job was killed or panicked; everything else snoozes.
const maxAttempts = 1<<15 - 1

// jobArgs are a job as it is stored: ids, and when it is due by the engine's clock.
type jobArgs struct {
	Action int64     `json:"action"`
	With   []int64   `json:"with,omitempty"`
	Due    time.Time `json:"due,omitzero"`
}

type advanceArgs struct{ jobArgs }

func (advanceArgs) Kind() string { return string(paidaction.JobAdvance) }

type afterPaidArgs struct{ jobArgs }

func (afterPaidArgs) Kind() string { return string(paidaction.JobAfterPaid) }

type afterFailedArgs struct{ jobArgs }

func (afterFailedArgs) Kind() string { return string(paidaction.JobAfterFailed) }

type againArgs struct{ jobArgs }

func (againArgs) Kind() string { return string(paidaction.JobAgain) }

// deliveryArgs are a message to a server of somebody's.
type deliveryArgs struct {
	Message int64 `json:"message"`
}

func (deliveryArgs) Kind() string { return "delivery" }

// Queue stores jobs in River's tables. It works none, and so serves processes that run no workers too. It is safe for
// concurrent use.
type Queue struct {
	money, deliveries *river.Client[pgx.Tx]
}

var _ paidaction.Jobs = (*Queue)(nil)

// NewQueue makes a queue. It needs no database before Insert is given a transaction.
func NewQueue(log *slog.Logger) (*Queue, error) {
	// River limits by this cool-down how often an inserting client tells; hence two clients.
	client := func(cooldown time.Duration) (*river.Client[pgx.Tx], error) {
		return river.NewClient(riverpgxv5.New(nil), &river.Config{Logger: log, FetchCooldown: cooldown})
	}
	money, err := client(moneyCooldown)
	if err != nil {
		return nil, fmt.Errorf("make the job queue: %w", err)
	}
	deliveries, err := client(foreignCooldown)
	if err != nil {
		return nil, fmt.Errorf("make the job queue: %w", err)
	}
	return &Queue{money: money, deliveries: deliveries}, nil
}

// Insert implements paidaction.Jobs. Jobs are never unique: a unique one would keep the sweep from replacing a killed one
// (spec 01 §1.3).
//
// Only whoever waits for a job at this moment is told of it, by River. All others are rows like River's own that are found when their time has come: River
// answers each insert with the rows, which every step of a payment would wait for.
func (q *Queue) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	var told []river.InsertManyParams
	trace := traced(ctx)
	for _, job := range jobs {
		args := jobArgs{Action: job.Action, With: job.With, Due: job.At}
		queue := effectQueue
		switch job.Kind {
		case paidaction.JobAdvance:
			if queue = moneyQueue; job.At.IsZero() {
				told = append(told, river.InsertManyParams{Args: advanceArgs{args},
					InsertOpts: &river.InsertOpts{Queue: queue, MaxAttempts: maxAttempts, Metadata: trace}})
				continue
			}
		case paidaction.JobAfterPaid, paidaction.JobAfterFailed:
		case paidaction.JobAgain:
			queue = attemptQueue
		default:
			return fmt.Errorf("unknown kind of job %q", job.Kind)
		}
		if err := insert(ctx, tx, string(job.Kind), queue, args, trace); err != nil {
			return fmt.Errorf("insert a job: %w", err)
		}
	}
	if len(told) > 0 {
		if _, err := q.money.InsertManyTx(ctx, tx, told); err != nil {
			return fmt.Errorf("insert money jobs: %w", err)
		}
	}
	return nil
}

// insert stores a job of which nobody is told.
func insert(ctx context.Context, tx pgx.Tx, kind, queue string, args jobArgs, trace []byte) error {
	encoded, err := json.Marshal(args)
	if err != nil {
		return err
	}
	if args.Due.IsZero() {
		return db.New(tx).InsertJob(ctx, db.InsertJobParams{Kind: kind, Queue: queue, Args: encoded, MaxAttempts: maxAttempts, Metadata: trace})
	}
	return db.New(tx).InsertLaterJob(ctx, db.InsertLaterJobParams{Kind: kind, Queue: queue, Args: encoded, MaxAttempts: maxAttempts, Metadata: trace, Due: args.Due})
}

// InsertDeliveries stores the jobs that deliver messages (Config.Deliver).
func (q *Queue) InsertDeliveries(ctx context.Context, tx pgx.Tx, messages ...int64) error {
	jobs := make([]river.InsertManyParams, len(messages))
	for i, message := range messages {
		jobs[i] = river.InsertManyParams{Args: deliveryArgs{message}, InsertOpts: &river.InsertOpts{Queue: deliveryQueue, MaxAttempts: maxAttempts}}
	}
	if _, err := q.deliveries.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert jobs of deliveries: %w", err)
	}
	return nil
}
