package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/operator"
)

type actionsWriteOff struct {
	ID     int64  `arg:"" help:"The action."`
	Reason string `required:"" help:"What happened to the node. It is stored, and holdfast reconcile lists it."`
	Yes    bool   `help:"Really do it: this cannot be undone."`
}

// Run asks the nodes itself, independently of the running service.
func (c actionsWriteOff) Run(ctx context.Context, e *environment) error {
	if strings.TrimSpace(c.Reason) == "" {
		return fmt.Errorf("%w: --reason must say what happened to the node", errArguments)
	}
	if !c.Yes {
		return fmt.Errorf("%w: what is written off is booked as lost for good, even if the node's data comes back; add --yes to do it", errArguments)
	}
	e.config.Roles = nil
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, q *db.Queries) error {
		s, err := newService(ctx, e, pool)
		if err != nil {
			return err
		}
		defer s.close()
		if err := s.engine.WriteOff(ctx, c.ID, c.Reason); err != nil {
			return noSuchAction(c.ID, err)
		}
		whole, err := operator.ReadAction(ctx, q, c.ID)
		if err != nil {
			return err
		}
		var lost int64
		for _, p := range whole.Postings {
			if p.From == "loss sats" {
				lost += p.Msat
			}
		}
		return e.print(map[string]int64{"written_off": c.ID, "lost_msat": lost}, func(t *table) {
			t.row(fmt.Sprintf("Action %d is %s; %d msat are booked as lost.", c.ID, whole.State, lost))
		})
	})
}
