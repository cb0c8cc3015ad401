package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Do runs one job once. again is 0 if the job is done, otherwise the pause after which it must be run again; failures
// is how often that has happened. It does not involve River, so a driver that single-steps jobs can call it too.
func (w *Worker) Do(ctx context.Context, job paidaction.Job, failures int) (again time.Duration) {
	// The caller schedules by its own clock. If that is ahead of the engine's, the engine would find nothing to do yet,
	// and nobody would come back at the deadline.
	if early := job.At.Sub(w.Engine.Now()); !job.At.IsZero() && early > 0 {
		return min(max(early, time.Millisecond), maxPause)
	}
	ctx = paidaction.About(ctx, job.Action)
	w.Log.DebugContext(ctx, "a job is done", "job", job.Kind, "with", job.With, "failures", failures)
	err := w.try(ctx, job)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, paidaction.ErrNoAction):
		w.Log.ErrorContext(ctx, "a job names an action that does not exist", "job", job.Kind, "action", job.Action)
		return 0
	case errors.Is(err, errOwing) || stopping(ctx):
		w.Log.DebugContext(ctx, "a job is to be done again", "job", job.Kind, "action", job.Action, "error", err)
	default:
		w.Log.WarnContext(ctx, "a job failed and is to be done again", "job", job.Kind, "action", job.Action, "failures", failures+1, "error", err)
	}
	w.Metrics.snoozed(job.Kind)
	return w.Clock.Jitter(pause(failures))
}

var errOwing = errors.New("the next move is ours, and could not be made yet")

func (w *Worker) try(ctx context.Context, job paidaction.Job) error {
	switch job.Kind {
	case paidaction.JobAdvance:
		if len(job.With) > 0 {
			return w.Engine.StandBy(ctx, append([]int64{job.Action}, job.With...)...)
		}
		return owing(w.Engine.Drive(ctx, job.Action))
	case paidaction.JobAfterPaid:
		return w.Engine.AfterPaid(ctx, append([]int64{job.Action}, job.With...)...)
	case paidaction.JobAfterFailed:
		return w.Engine.AfterFailed(ctx, job.Action)
	case paidaction.JobAgain:
		return w.Engine.Again(ctx, job.Action)
	}
	return fmt.Errorf("unknown kind of job %q", job.Kind)
}

// work runs a job for River. It snoozes instead of failing: River's own retries would come ever later, and end (spec 01
// §1.3).
func (w *Worker) work(ctx context.Context, row *rivertype.JobRow, kind paidaction.JobKind, args jobArgs) error {
	failures := snoozes(row)
	if failures == 0 {
		w.Metrics.waited(kind, w.Clock.Now().Sub(row.ScheduledAt))
	}
	ctx, end := w.begin(ctx, row, string(kind), args.Action)
	var snooze error
	if again := w.Do(ctx, paidaction.Job{Kind: kind, Action: args.Action, With: args.With, At: args.Due}, failures); again > 0 {
		snooze = river.JobSnooze(again)
	}
	end(snooze)
	return snooze
}

// deliver delivers a message for River. It snoozes until the message is to be tried again.
func (w *Worker) deliver(ctx context.Context, job *river.Job[deliveryArgs]) error {
	again, err := w.Deliver(ctx, job.Args.Message)
	if err != nil {
		w.failed(ctx, "delivery", err)
		again = w.Clock.Jitter(pause(snoozes(job.JobRow)))
	}
	if again > 0 {
		return river.JobSnooze(again)
	}
	return nil
}

// snoozes is how often River has postponed this job.
func snoozes(row *rivertype.JobRow) int {
	var metadata struct {
		Snoozes int `json:"snoozes"`
	}
	_ = json.Unmarshal(row.Metadata, &metadata) // without the number the pause is short, which does no harm
	return metadata.Snoozes
}

// workers are the kinds of jobs that River may run.
func (w *Worker) workers() *river.Workers {
	all := river.NewWorkers()
	river.AddWorker(all, river.WorkFunc(func(ctx context.Context, job *river.Job[advanceArgs]) error {
		return w.work(ctx, job.JobRow, paidaction.JobAdvance, job.Args.jobArgs)
	}))
	river.AddWorker(all, river.WorkFunc(func(ctx context.Context, job *river.Job[afterPaidArgs]) error {
		return w.work(ctx, job.JobRow, paidaction.JobAfterPaid, job.Args.jobArgs)
	}))
	river.AddWorker(all, river.WorkFunc(func(ctx context.Context, job *river.Job[afterFailedArgs]) error {
		return w.work(ctx, job.JobRow, paidaction.JobAfterFailed, job.Args.jobArgs)
	}))
	river.AddWorker(all, river.WorkFunc(func(ctx context.Context, job *river.Job[againArgs]) error {
		return w.work(ctx, job.JobRow, paidaction.JobAgain, job.Args.jobArgs)
	}))
	if w.Deliver != nil {
		river.AddWorker(all, river.WorkFunc(w.deliver))
	}
	return all
}

// soonAgain tells River when to retry a job that was killed or panicked.
type soonAgain struct{ clock Clock }

func (s soonAgain) NextRetry(row *rivertype.JobRow) time.Time {
	return s.clock.Now().Add(s.clock.Jitter(pause(row.Attempt)))
}

// quiet keeps River's notes on its own starts and stops out of the log.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(atLeastWarn{log.Handler()}) }

type atLeastWarn struct{ slog.Handler }

func (h atLeastWarn) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}
func (h atLeastWarn) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeastWarn{h.Handler.WithAttrs(attrs)}
}
func (h atLeastWarn) WithGroup(name string) slog.Handler {
	return atLeastWarn{h.Handler.WithGroup(name)}
}
