package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/archive"
	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

type archiveCommand struct {
	OlderThan time.Duration `help:"Only ranges in which nothing has changed for this long; at least 24h." default:"8760h"`
	DryRun    bool          `help:"Say what would be archived, and change nothing."`
}

// archivedRange is what is shown of a range, and what is left to do for it.
type archivedRange struct {
	archive.Archived
	Then []string `json:"then"` // commands for a shell
}

// Run may run at any time while the service runs. It exits with 3 if a range must stay because reconcile finds
// something broken.
func (c archiveCommand) Run(ctx context.Context, e *environment) error {
	if c.OlderThan < archive.MinAge {
		return fmt.Errorf("%w: --older-than: %w", errArguments, archive.ErrTooYoung)
	}
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, q *db.Queries) error {
		left, err := q.UndroppedRanges(ctx)
		if err != nil {
			return fmt.Errorf("find what was archived before: %w", err)
		}
		result, failed := archive.Run(ctx, archive.Config{Pool: pool, OlderThan: c.OlderThan, DryRun: c.DryRun})
		told := struct {
			DryRun   bool            `json:"dry_run"`
			Left     []archivedRange `json:"left"` // archived before: whoever called then may not have seen the commands
			Archived []archivedRange `json:"archived"`
			Kept     *archive.Kept   `json:"kept,omitempty"`
		}{c.DryRun, []archivedRange{}, []archivedRange{}, result.Kept}
		for _, l := range left {
			r := archive.Range{First: l.FirstAction, Last: l.LastAction}
			before := archive.Archived{Range: r, Steps: l.Steps, Postings: l.Postings}
			told.Left = append(told.Left, archivedRange{before, thenDo(e.config.Direct(), r, false)})
		}
		for _, a := range result.Archived {
			told.Archived = append(told.Archived, archivedRange{a, thenDo(e.config.Direct(), a.Range, c.DryRun)})
		}
		err = e.print(told, func(t *table) {
			advise := func(a archivedRange, are string) {
				t.row(fmt.Sprintf("The actions from %d to %d %s: %d steps, %d postings. To save them to a file and then drop them here:",
					a.First, a.Last, are, a.Steps, a.Postings))
				for _, command := range a.Then {
					t.row("  " + command)
				}
			}
			for _, l := range told.Left {
				advise(l, "were archived before, and are still here")
			}
			for _, a := range told.Archived {
				if c.DryRun {
					t.row(fmt.Sprintf("The actions from %d to %d would be archived.", a.First, a.Last))
					continue
				}
				advise(a, "are archived")
			}
			if k := told.Kept; k != nil {
				t.row(fmt.Sprintf("Those from %d to %d stay: %s.", k.First, k.Last, k.Why))
				for _, b := range k.Breaks[:min(len(k.Breaks), printed)] {
					t.row("  " + b.What)
					t.row("    What to do: " + b.Mend)
				}
			}
		})
		switch {
		case failed != nil:
			return failed // after the ranges archived before it
		case err == nil && result.Kept != nil && len(result.Kept.Breaks) > 0:
			return exitCode(exitFound)
		}
		return err
	})
}

// thenDo returns the commands that take an archived range out of the database. Nothing else needs its tables.
func thenDo(from config.Database, r archive.Range, dry bool) []string {
	if dry {
		return []string{}
	}
	tables, at, file := r.Tables(), from.ForTools(), fmt.Sprintf("actions_%d_%d.dump", r.First, r.Last)
	// One command, so that nothing is dropped if the file could not be written. pg_dump empties its file before it looks
	// for the tables: whoever gives the command once more must not lose what they were saved to.
	return []string{
		fmt.Sprintf(`pg_dump %s --format custom --table %s --file %s.part && mv %[3]s.part %[3]s`, at, strings.Join(tables, " --table "), file) +
			fmt.Sprintf(` && psql %s --command 'DROP TABLE %s'`, at, strings.Join(tables, ", ")),
	}
}
