package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

type reconcileCommand struct {
	Grace time.Duration `help:"How far past its deadline an open action may be before it counts as broken." default:"90s"`
	Since time.Duration `help:"How far back invoices that have ended are checked against the nodes." default:"24h"`
	Again time.Duration `help:"How long to wait before what looks broken is checked again; 0 if the service is not running." default:"2s"`
}

// Run only reads, and locks nothing: it may run at any time while the service runs.
func (c reconcileCommand) Run(ctx context.Context, e *environment) error {
	if err := c.check(); err != nil {
		return err
	}
	pool, err := openPool(ctx, e)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := &service{environment: e, pool: pool}
	defer s.close()
	if err := s.dial(); err != nil {
		return err
	}
	compared := s.reconciled(c.Again)
	compared.Grace, compared.Since = c.Grace, c.Since
	report, err := reconcile.Run(ctx, compared)
	if err != nil {
		return err
	}
	if e.json { // one line, because scripts read the last one
		err = json.NewEncoder(e.out).Encode(report)
	} else {
		err = e.print(report, invariantsTable(report))
	}
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(report.Invariants, func(i reconcile.Invariant) bool { return i.Broken > 0 }):
		return exitCode(exitFound)
	case !report.OK:
		return errors.New("nothing was found broken, and not everything could be looked at: " + strings.Join(report.Unknown, "; "))
	}
	return nil
}

// check refuses what would look at nothing that has ended, and then say that nothing is broken.
func (c reconcileCommand) check() error {
	switch {
	case c.Since <= 0:
		return fmt.Errorf("%w: --since must be longer than 0, such as 168h", errArguments)
	case c.Grace < 0:
		return fmt.Errorf("%w: --grace must not be below 0", errArguments)
	case c.Again < 0:
		return fmt.Errorf("%w: --again must not be below 0", errArguments)
	}
	return nil
}

// printed is how many breaks of one invariant are shown on a terminal.
const printed = 20

func invariantsTable(report *reconcile.Report) func(t *table) {
	return func(t *table) {
		t.row("", "INVARIANT", "CHECKED", "BROKEN")
		for _, i := range report.Invariants {
			t.row(i.ID, i.Name, i.Checked, i.Broken)
			told := i.Breaks[:min(len(i.Breaks), printed)]
			for _, b := range told {
				t.row("", "  "+b.What)
				t.row("", "    What to do: "+b.Mend)
			}
			if more := i.Broken - int64(len(told)); more > 0 {
				t.row("", fmt.Sprintf("  and %d more; --json names up to a thousand in all", more))
			}
		}
		if report.Archived > 0 {
			t.row()
			t.row("", fmt.Sprintf("The history and postings of %d actions are archived; their sums were counted.", report.Archived))
		}
		for _, u := range report.Unknown {
			t.row()
			t.row("", "UNKNOWN: "+u)
		}
		if len(report.Losses) == 0 {
			return
		}
		t.row()
		t.row("", "BOOKED AS LOST", "MSAT", "REASON")
		for _, l := range report.Losses {
			t.row("", fmt.Sprint("  action ", show(l.Action)), l.Msat, l.Reason)
		}
		t.row("", "  total ever booked", report.LostMsat)
	}
}
