package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// The process that hears of an event drives the action itself: a job would first need a commit to disk and a pass
// through the queue. If the process dies, nothing is lost. The cursor stays before an event until its action was driven
// or has a job, and the stream of a hold invoice begins with its present state. A job is stored where too many actions
// are being driven already, or where driving failed.

// direct runs the actions that a listener drives concurrently.
type direct struct {
	ctx    context.Context // ends later than the listener's
	places chan struct{}
	group  sync.WaitGroup
}

// beginDirect lets events be driven from now on. Call end when no more of them are heard: it waits for the actions that
// are being driven, whose context ends after stopTimeout.
func (l *Listener) beginDirect(ctx context.Context) (end func()) {
	if l.Settings.Direct < 0 {
		return func() {}
	}
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &direct{ctx: late, places: make(chan struct{}, l.Settings.Direct)}
	l.Direct = d.run
	return func() {
		limit := time.AfterFunc(stopTimeout, cancel)
		d.group.Wait()
		limit.Stop()
		cancel()
	}
}

// run runs do in a goroutine, unless too many are running.
func (d *direct) run(_ int64, do func(context.Context)) bool {
	select {
	case d.places <- struct{}{}:
	default:
		return false
	}
	d.group.Go(func() {
		defer func() { <-d.places }()
		ctx, cancel := context.WithTimeout(d.ctx, jobTimeout)
		defer cancel()
		do(ctx)
	})
	return true
}

// drive drives an action that was just read, without blocking the caller; events are those about it. It returns false
// if there is no room for it.
func (l *Listener) drive(pa *paidaction.PaidAction, events []paidaction.InvoiceEvent) bool {
	return l.Direct != nil && l.Direct(pa.ID, func(ctx context.Context) {
		if err := l.driveOrStore(ctx, pa); err != nil {
			l.failed(ctx, "events", err)
			signal(l.behind) // the sweep of a catch-up will find it
			return
		}
		l.cursor.see(events)
	})
}

// driveOrStore drives an action, or stores a job for it.
func (l *Listener) driveOrStore(ctx context.Context, pa *paidaction.PaidAction) error {
	action := pa.ID
	l.Log.DebugContext(paidaction.About(ctx, action), "an event is worked off", "node", l.node)
	traced, done := l.trace(ctx, action)
	err := owing(l.Engine.DriveRead(traced, pa))
	done()
	if err == nil || errors.Is(err, paidaction.ErrNoAction) {
		return nil
	}
	l.Log.DebugContext(ctx, "an event is left to a job", "action", action, "error", err)
	return l.store(ctx, paidaction.Job{Kind: paidaction.JobAdvance, Action: action})
}

// owing turns the result of driving an action into an error: errOwing if the next step is ours and was not possible.
func owing(progress paidaction.Progress, err error) error {
	if err == nil && progress == paidaction.Owing {
		return errOwing
	}
	return err
}
