package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// reconcile runs the operator's command, and returns what is broken. Recent actions are not spared: nothing is under
// way any more.
func (r *run) reconcile(ctx context.Context) (broken []string, err error) {
	out, err := r.stack.ServiceCommand(ctx, "reconcile", "--json", "--grace", "1s").Output()
	var report reconcile.Report
	if unreadable := json.Unmarshal(out, &report); unreadable != nil {
		return nil, fmt.Errorf("reconcile: %w", errors.Join(err, unreadable))
	}
	var checked int64
	for _, i := range report.Invariants {
		checked += i.Checked
		for at := range int(i.Broken) {
			what := "one more"
			if at < len(i.Breaks) {
				what = i.Breaks[at].What
			}
			broken = append(broken, fmt.Sprintf("invariant %d: %s", i.ID, what))
		}
	}
	for _, u := range report.Unknown {
		broken = append(broken, "reconcile could not look: "+u)
	}
	r.tell("Reconcile: %d broken of %d checked.", len(broken), checked)
	return broken, nil
}
