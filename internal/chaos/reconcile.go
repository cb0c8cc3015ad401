package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// reconcile runs the operator's command, and returns the breaks. What is fresh is not spared: nothing is under way any more, but for
// what LND has forgotten, which is past its deadline.
func (r *run) reconcile(ctx context.Context, u unended) (broken []string, err error) {
	out, err := r.stack.ServiceCommand(ctx, "reconcile", "--json", "--grace", "1s").Output()
	var report struct {
		Invariants []struct {
			ID      int
			Broken  int
			Checked int
			Breaks  []string
		}
	}
	if unreadable := json.Unmarshal(bytes.TrimSpace(out), &report); unreadable != nil {
		return nil, fmt.Errorf("reconcile: %w", errors.Join(err, unreadable))
	}
	checked := 0
	for _, i := range report.Invariants {
		checked += i.Checked
		if i.ID == 7 {
			late := len(i.Breaks)
			i.Breaks = slices.DeleteFunc(i.Breaks, func(b string) bool { return u.explains(b) })
			i.Broken -= late - len(i.Breaks)
		}
		for at := range i.Broken {
			what := "one more"
			if at < len(i.Breaks) {
				what = i.Breaks[at]
			}
			broken = append(broken, fmt.Sprintf("invariant %d: %s", i.ID, what))
		}
	}
	r.tell("Reconcile: %d broken of %d checked.", len(broken), checked)
	return broken, nil
}

// explains says that a break is about an action whose payment LND has forgotten.
func (u unended) explains(b string) bool {
	for id := range u.forgotten {
		if strings.HasPrefix(b, "action "+id+" ") {
			return true
		}
	}
	return false
}
