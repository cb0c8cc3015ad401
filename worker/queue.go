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

// Money jobs wait neither behind side effects nor behind foreign servers, such as a receiver's wallet that is asked for
// an invoice for a next attempt. So each sort has its own queue. Settling has one, since a priority would not do: where a
// node hangs, as many jobs may wait for it as run at a time.
const (
	settleQueue   = "settles"
	moneyQueue    = "money"
	effectQueue   = "effects"
	attemptQueue  = "attempts"
	deliveryQueue = "deliveries"
)

// Queues are the names of all queues.
func Queues() []string {
	return []string{settleQueue, moneyQueue, effectQueue, attemptQueue, deliveryQueue}
}

// How often processes look for jobs by themselves, and how often they are notified of new ones at most. A commit with a
// NOTIFY takes a lock on the whole database, so there is none for side effects, which follow every payment.
const (
	moneyCooldown   = 2 * time.Millisecond
	moneyPoll       = 50 * time.Millisecond
	settlePoll      = 250 * time.Millisecond // what is due at once is notified, and what stands by for a driver is for later
	effectCooldown  = 25 * time.Millisecond  // the more are fetched at once, the more share a transaction (Engine.AfterPaid)
	effectPoll      = 100 * time.Millisecond
	foreignCooldown = 100 * time.Millisecond
	foreignPoll     = 250 * time.Millisecond
)

// maxAttempts is River's maximum. Only jobs that were killed or panicked count as attempts; everything else snoozes.
const maxAttempts = 1<<15 - 1

// jobArgs is a job as it is stored: ids, and when it is due by the engine's clock.
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

// deliveryArgs is a message to somebody's server.
type deliveryArgs struct {
	Message int64 `json:"message"`
}

func (deliveryArgs) Kind() string { return "delivery" }

// Queue stores jobs in River's tables. It runs none, so it also serves processes without workers. It is safe for
// concurrent use.
type Queue struct {
	money, deliveries *river.Client[pgx.Tx]
}

var _ paidaction.Jobs = (*Queue)(nil)

// NewQueue makes a queue. It needs no database until Insert is given a transaction.
func NewQueue(log *slog.Logger) (*Queue, error) {
	// FetchCooldown also limits how often an inserting River client notifies; hence two clients.
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

// Insert implements paidaction.Jobs. Jobs are never unique: a unique job would keep the sweep from replacing a killed
// one (spec 01 §1.3).
//
// Only money jobs that are due at once go through River, which notifies the workers. All other jobs are inserted as
// rows like River's own, and are found when they are due: River's insert returns the rows, and every step of a payment
// would wait for that.
func (q *Queue) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	var told []river.InsertManyParams
	trace := traced(ctx)
	for _, job := range jobs {
		args := jobArgs{Action: job.Action, With: job.With, Due: job.At}
		queue := effectQueue
		switch job.Kind {
		case paidaction.JobAdvance:
			queue = moneyQueue
			if job.Settles {
				queue = settleQueue
			}
			if job.At.IsZero() {
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

// insert stores a job without a notification.
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

// InsertDeliveries stores the jobs that deliver messages (Config.Deliver), each due at its own time; zero is now.
func (q *Queue) InsertDeliveries(ctx context.Context, tx pgx.Tx, messages []int64, due []time.Time) error {
	jobs := make([]river.InsertManyParams, len(messages))
	for i, message := range messages {
		jobs[i] = river.InsertManyParams{Args: deliveryArgs{message},
			InsertOpts: &river.InsertOpts{Queue: deliveryQueue, MaxAttempts: maxAttempts, ScheduledAt: due[i]}}
	}
	if _, err := q.deliveries.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert jobs of deliveries: %w", err)
	}
	return nil
}
