package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Money jobs never wait behind side effects, and neither behind servers of strangers: each have a queue of their own.
const (
	moneyQueue    = "money"
	effectQueue   = "effects"
	deliveryQueue = "deliveries"
)

// Queues are the names of all queues.
func Queues() []string { return []string{moneyQueue, effectQueue, deliveryQueue} }

// How often processes are told of new jobs at most, and how often they look by themselves. A commit that tells (NOTIFY) takes
// a lock over the whole database, so side effects, which follow every payment, tell rarely.
const (
	moneyCooldown  = 2 * time.Millisecond
	moneyPoll      = 50 * time.Millisecond
	effectCooldown = 100 * time.Millisecond
	effectFetch    = 25 * time.Millisecond // the more are fetched at a time, the more share a transaction (Engine.AfterPaid)
	effectPoll     = 250 * time.Millisecond
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
	money, effects *river.Client[pgx.Tx]
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
	effects, err := client(effectCooldown)
	if err != nil {
		return nil, fmt.Errorf("make the job queue: %w", err)
	}
	return &Queue{money: money, effects: effects}, nil
}

// Insert implements paidaction.Jobs. Jobs are never unique: a unique one would keep the sweep from replacing a killed one
// (spec 01 §1.3).
func (q *Queue) Insert(ctx context.Context, tx pgx.Tx, jobs ...paidaction.Job) error {
	var money, effects []river.InsertManyParams
	trace := traced(ctx)
	for _, job := range jobs {
		args := jobArgs{Action: job.Action, With: job.With, Due: job.At}
		opts := &river.InsertOpts{Queue: moneyQueue, MaxAttempts: maxAttempts, ScheduledAt: job.At, Metadata: trace}
		switch job.Kind {
		case paidaction.JobAdvance:
			money = append(money, river.InsertManyParams{Args: advanceArgs{args}, InsertOpts: opts})
		case paidaction.JobAfterPaid:
			opts.Queue = effectQueue
			effects = append(effects, river.InsertManyParams{Args: afterPaidArgs{args}, InsertOpts: opts})
		case paidaction.JobAfterFailed:
			opts.Queue = effectQueue
			effects = append(effects, river.InsertManyParams{Args: afterFailedArgs{args}, InsertOpts: opts})
		case paidaction.JobAgain: // it may have to wait for a receiver's wallet
			opts.Queue = effectQueue
			effects = append(effects, river.InsertManyParams{Args: againArgs{args}, InsertOpts: opts})
		default:
			return fmt.Errorf("unknown kind of job %q", job.Kind)
		}
	}
	if len(money) > 0 {
		if _, err := q.money.InsertManyTx(ctx, tx, money); err != nil {
			return fmt.Errorf("insert money jobs: %w", err)
		}
	}
	if len(effects) > 0 {
		if _, err := q.effects.InsertManyTx(ctx, tx, effects); err != nil {
			return fmt.Errorf("insert side-effect jobs: %w", err)
		}
	}
	return nil
}

// InsertDeliveries stores the jobs that deliver messages (Config.Deliver).
func (q *Queue) InsertDeliveries(ctx context.Context, tx pgx.Tx, messages ...int64) error {
	jobs := make([]river.InsertManyParams, len(messages))
	for i, message := range messages {
		jobs[i] = river.InsertManyParams{Args: deliveryArgs{message}, InsertOpts: &river.InsertOpts{Queue: deliveryQueue, MaxAttempts: maxAttempts}}
	}
	if _, err := q.effects.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert jobs of deliveries: %w", err)
	}
	return nil
}
