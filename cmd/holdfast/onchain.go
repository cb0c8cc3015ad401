package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/operator"
)

type actionsOnChain struct {
	ID      int64  `arg:"" help:"The action."`
	Arrived bool   `help:"Its payment is at the node: the action counts as paid."`
	Lost    bool   `help:"Its payer took the payment back: the action fails."`
	Reason  string `help:"With --lost: what the payer is told, in a whole sentence."`
	Yes     bool   `help:"Really do it: this cannot be undone."`
}

// Run asks the node itself, as write-off does.
func (c actionsOnChain) Run(ctx context.Context, e *environment) error {
	switch {
	case c.Arrived == c.Lost:
		return fmt.Errorf("%w: say what the chain has shown, either --arrived or --lost", errArguments)
	case c.Lost == (strings.TrimSpace(c.Reason) == ""):
		return fmt.Errorf("%w: --reason says what the payer is told, with --lost and only then", errArguments)
	case !c.Yes:
		return fmt.Errorf("%w: what is said of a payment is said for good, whatever the chain shows later; add --yes to do it", errArguments)
	}
	return atKnownNodes(ctx, e, nil, func(s *service, q *db.Queries) (err error) {
		if c.Arrived {
			err = s.engine.Arrived(ctx, c.ID)
		} else {
			err = s.engine.NeverArrived(ctx, c.ID, c.Reason)
		}
		if err != nil {
			return noSuchAction(c.ID, err)
		}
		now, err := operator.ReadAction(ctx, q, c.ID)
		if err != nil {
			return err
		}
		return e.print(map[string]any{"id": c.ID, "state": now.State}, func(t *table) {
			t.row(fmt.Sprintf("Action %d is %s.", c.ID, now.State))
		})
	})
}
