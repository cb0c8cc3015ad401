package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

type reconcileCommand struct {
	Grace time.Duration `help:"How far past its deadline an open action may be." default:"90s"`
	Since time.Duration `help:"How far back invoices that have ended are held against the nodes." default:"24h"`
}

// Run reads only, and locks nothing: it may run beside the service at any time.
func (c reconcileCommand) Run(ctx context.Context, e *environment) error {
	pool, err := openPool(ctx, e)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := &service{environment: e, pool: pool}
	defer s.close()
	if err := s.dial(ctx); err != nil {
		return err
	}
	report, err := reconcile.Run(ctx, reconcile.Config{Pool: pool, Nodes: s.nodes, Senders: s.senders().Names(), Grace: c.Grace, Since: c.Since})
	if err != nil {
		return err
	}
	if e.json { // one line: scripts read the last one
		err = json.NewEncoder(e.out).Encode(report)
	} else {
		err = e.print(report, invariantsTable(report))
	}
	if err != nil {
		return err
	}
	if !report.OK {
		return exitCode(exitFound)
	}
	return nil
}

func invariantsTable(report *reconcile.Report) func(t *table) {
	return func(t *table) {
		t.row("", "INVARIANT", "CHECKED", "BROKEN")
		for _, i := range report.Invariants {
			t.row(i.ID, i.Name, i.Checked, i.Broken)
			for _, b := range i.Breaks {
				t.row("", "  "+b)
			}
			if i.Mend != "" {
				t.row("", "  What to do: "+i.Mend)
			}
		}
		if len(report.Losses) == 0 {
			return
		}
		t.row()
		t.row("", "BOOKED AS LOST", "MSAT", "REASON")
		for _, l := range report.Losses {
			t.row("", fmt.Sprint("  action ", show(l.Action)), l.Msat, l.Reason)
		}
		t.row("", "  all there ever was", report.LostMsat)
	}
}
