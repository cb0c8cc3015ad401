package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Books compares every balance with all that was ever posted, archived ranges included, and checks that the guards of
// the balances are there. It returns what is broken, up to a limit. Nodes are not asked.
func Books(ctx context.Context, c Config) ([]Break, error) {
	r := &run{Config: c.defaults(), seen: map[string]bool{}}
	ctx = patient(ctx)
	err := r.snapshot(ctx, 10*statementTimeout, func(q *db.Queries, tx pgx.Tx) error {
		if err := r.money(ctx, q); err != nil {
			return err
		}
		return r.guards(ctx, tx)
	})
	if err != nil {
		return nil, fmt.Errorf("look at the books: %w", err)
	}
	return r.suspect, nil
}

// Range checks the actions from first to last as Run does, but asks no node: these actions should have been at rest for
// long. It returns the breaks that the last periodic run found among them, and those that it finds itself, up to the
// first page with any.
func Range(ctx context.Context, c Config, first, last int64) ([]Break, error) {
	r := &run{Config: c.defaults(), seen: map[string]bool{}}
	ctx = patient(ctx)
	if err := r.standing(ctx, first, last); err != nil {
		return nil, err
	}
	for after := first - 1; ; {
		var ids []int64
		err := r.snapshot(ctx, statementTimeout, func(q *db.Queries, _ pgx.Tx) (err error) {
			ids, err = q.ActionsToCheck(ctx, db.ActionsToCheckParams{After: after, Page: stock})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read actions: %w", err)
		}
		ids = slices.DeleteFunc(ids, func(id int64) bool { return id > last })
		if len(ids) == 0 {
			return r.suspect, nil
		}
		for part := range slices.Chunk(ids, page) {
			if _, err := r.rows(ctx, part); err != nil || len(r.suspect) > 0 {
				return r.suspect, err
			}
		}
		after = ids[len(ids)-1]
	}
}

// standing takes over the breaks of these actions that the last periodic run found.
func (r *run) standing(ctx context.Context, first, last int64) error {
	found, err := db.New(r.Pool).LastReconcile(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	var report Report
	if err == nil {
		err = json.Unmarshal(found.Report, &report)
	}
	if err != nil {
		return fmt.Errorf("read what was found last: %w", err)
	}
	for _, b := range report.breaks() {
		if slices.ContainsFunc(b.Actions, func(id int64) bool { return first <= id && id <= last }) {
			r.found(b)
		}
	}
	return nil
}
