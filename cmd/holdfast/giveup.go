package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

type actionsGiveUp struct {
	IDs      []int64  `arg:"" optional:"" name:"id" help:"The actions."`
	Node     string   `help:"In place of single actions: all that can be given up whose invoices this node has issued, or whose payments it was given." placeholder:"NODE"`
	Reason   string   `required:"" help:"What their payers are told: a whole sentence that says what happened, and what to do if they had paid."`
	Replaced []string `help:"The node that was made anew, if it answers with another key since. Its data must be gone for good." placeholder:"NODE"`
	Yes      bool     `help:"Really do it: this cannot be undone."`
}

// leftOpen is an action that was not given up.
type leftOpen struct {
	ID  int64  `json:"id"`
	Why string `json:"why"`
}

// Run asks the nodes itself, as write-off does. It goes on where one action cannot be given up.
func (c actionsGiveUp) Run(ctx context.Context, e *environment) error {
	switch {
	case (len(c.IDs) == 0) == (c.Node == ""):
		return fmt.Errorf("%w: name either actions or --node", errArguments)
	case strings.TrimSpace(c.Reason) == "":
		return fmt.Errorf("%w: --reason must say what the payers are to be told", errArguments)
	case !c.Yes:
		return fmt.Errorf("%w: what is given up fails for good, even if the node's data comes back; add --yes to do it", errArguments)
	}
	return atKnownNodes(ctx, e, c.Replaced, func(s *service, q *db.Queries) (err error) {
		ids := c.IDs
		if c.Node != "" {
			if _, err := s.nodes.Node(c.Node); err != nil {
				return fmt.Errorf("node %q is not configured: name one of HOLDFAST_NODES", c.Node)
			}
			if ids, err = openAt(ctx, q, c.Node); err != nil {
				return err
			}
		}
		givenUp, left := []int64{}, []leftOpen{}
		var failed error
		for i := 0; i < len(ids) && failed == nil; i++ {
			id := ids[i]
			err := s.engine.GiveUp(ctx, id, c.Reason)
			switch _, refused := paidaction.AsRefusal(err); {
			case err == nil:
				givenUp = append(givenUp, id)
			case refused, errors.Is(err, paidaction.ErrNotGivenUp), errors.Is(err, paidaction.ErrNoAction):
				left = append(left, leftOpen{ID: id, Why: plain(noSuchAction(id, err))})
			default: // what was given up so far is told all the same
				failed = fmt.Errorf("give up action %d: %w", id, err)
			}
		}
		err = e.print(map[string]any{"given_up": givenUp, "left": left}, func(t *table) {
			t.row(fmt.Sprintf("%d actions were given up, and their payers are told so; %d stay as they are.", len(givenUp), len(left)))
			for _, l := range left {
				t.row(l.ID, l.Why)
			}
		})
		switch {
		case failed != nil:
			return failed
		case err != nil || len(left) == 0:
			return err
		case len(givenUp) == 0: // refused, as by the commands for a single action
			return errors.New(left[0].Why)
		}
		return fmt.Errorf("%d of %d actions were given up: %w", len(givenUp), len(ids), exitCode(exitFound))
	})
}

// openAt are the open actions whose invoices a node has issued, or whose payments it was given.
func openAt(ctx context.Context, q *db.Queries, node string) (ids []int64, err error) {
	after := db.OpenAtParams{Node: node, AfterDeadline: time.Unix(0, 0), Page: 1000}
	for {
		page, err := q.OpenAt(ctx, after)
		for _, row := range page {
			ids = append(ids, row.ID)
			after.AfterDeadline, after.AfterID = *row.Deadline, row.ID
		}
		if err != nil || len(page) < int(after.Page) {
			return ids, err
		}
	}
}
