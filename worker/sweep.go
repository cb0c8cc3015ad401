package worker

import "context"

// SweepOverdue advances, once, the actions that are past their deadline.
func (w *Worker) SweepOverdue(ctx context.Context) {
	moved, err := w.Engine.SweepOverdue(ctx)
	w.Metrics.sweepMoves.WithLabelValues("overdue").Add(float64(moved))
	w.failed(ctx, "sweep of overdue actions", err)
}

// Sweep advances every open action, once.
func (w *Worker) Sweep(ctx context.Context) {
	moved, err := w.Engine.Sweep(ctx)
	w.Metrics.sweepMoves.WithLabelValues("full").Add(float64(moved))
	w.failed(ctx, "sweep of open actions", err)
}
