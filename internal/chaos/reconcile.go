package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// reconcile runs the operator's command, and returns what is broken. Recent actions are not spared: nothing is under
// way any more.
func (r *run) reconcile(ctx context.Context) (broken []string, err error) {
	out, err := r.stack.ServiceCommand(ctx, "reconcile", "--json", "--grace", "1s").Output()
	var report struct {
		Invariants []struct {
			ID      int
			Broken  int
			Checked int
			Breaks  []struct{ Explanation string }
		}
		Unknown []string
	}
	if unreadable := json.Unmarshal(bytes.TrimSpace(out), &report); unreadable != nil {
		return nil, fmt.Errorf("reconcile: %w", errors.Join(err, unreadable))
	}
	checked := 0
	for _, i := range report.Invariants {
		checked += i.Checked
		for at := range i.Broken {
			what := "one more"
			if at < len(i.Breaks) {
				what = i.Breaks[at].Explanation
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
