package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/dbclock"
	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

type actionsCommand struct {
	List    actionsList    `cmd:"" help:"List actions, newest first."`
	Stuck   actionsStuck   `cmd:"" help:"List open actions that are past their deadline. Exit code 3 if there are any."`
	Show    actionsShow    `cmd:"" help:"Show one action with its whole history."`
	Requeue actionsRequeue `cmd:"" changes:"" help:"Queue jobs that advance an action now and at its deadline. Harmless at any time."`

	OnChain  actionsOnChain  `cmd:"" changes:"" help:"Say what the chain has shown of a payment from a channel that was closed by force: an action that was paid by a plain invoice waits for that."`
	GiveUp   actionsGiveUp   `cmd:"" changes:"" help:"End actions as failed, when a node has lost its data and will never say what became of them, once nothing can be paid any more."`
	WriteOff actionsWriteOff `cmd:"" changes:"" help:"End an action that was done, or whose receiver was paid, when a node has lost its data and will never report the rest. Books a loss."`
}

func printActions(e *environment, actions []operator.Action) error {
	return e.print(actions, func(t *table) {
		t.row("ID", "KIND", "FLOW", "STATE", "ATTEMPT", "PAYER", "COST (msat)", "DEADLINE", "CHANGED", "FAILURE")
		for _, a := range actions {
			t.row(a.ID, a.Kind, a.Flow, a.State, a.Attempt, a.PayerID, a.CostMsat, a.Deadline, a.ChangedAt, a.FailureCode)
		}
	})
}

type actionsList struct {
	State string `help:"Only actions in this state, such as HELD."`
	newest
}

func (c actionsList) Run(ctx context.Context, e *environment) error {
	before, err := c.page()
	if err != nil {
		return err
	}
	state := paidaction.State(c.State)
	if state != "" && !slices.Contains(paidaction.States, state) {
		return fmt.Errorf("%w: there is no state %q; the states are %s", errArguments, c.State, strings.Trim(fmt.Sprint(paidaction.States), "[]"))
	}
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		actions, err := operator.Newest(ctx, q, state, before, c.Limit)
		if err != nil {
			return err
		}
		return printActions(e, actions)
	})
}

// newest says which page of a list is shown. The newest come first.
type newest struct {
	Before int64 `help:"Only those with a smaller number (ID): gives the next page." default:"0"`
	Limit  int32 `help:"How many to list at most." default:"50"`
}

// page is where the page begins; 0 is the first page. A negative number is refused: below it is nothing, so the list would
// look as if there were nothing at all.
func (n newest) page() (before int64, err error) {
	switch {
	case n.Before < 0:
		return 0, fmt.Errorf("%w: --before must not be below 0", errArguments)
	case n.Before == 0:
		return math.MaxInt64, atLeastOne(n.Limit)
	}
	return n.Before, atLeastOne(n.Limit)
}

// atLeastOne refuses a limit of 0: an empty list would look as if there were nothing.
func atLeastOne(limit int32) error {
	if limit < 1 {
		return fmt.Errorf("%w: --limit must be 1 or more", errArguments)
	}
	return nil
}

type actionsStuck struct {
	Grace time.Duration `help:"How long past the deadline they must be." default:"5s"`
	Limit int32         `help:"How many to list at most." default:"50"`
}

func (c actionsStuck) Run(ctx context.Context, e *environment) error {
	if err := atLeastOne(c.Limit); err != nil {
		return err
	}
	if c.Grace < 0 { // those that are not due yet would be shown as stuck
		return fmt.Errorf("%w: --grace must not be below 0", errArguments)
	}
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		now := time.Now()
		since := now.Add(-c.Grace)
		rows, err := q.ListStuck(ctx, db.ListStuckParams{At: &since, WaitsSince: since.Add(-e.config.Relay.MaxWait), WaitsTo: now.Add(dbclock.Apart), Page: c.Limit})
		if err != nil {
			return err
		}
		actions := make([]operator.Action, len(rows))
		for i, row := range rows {
			actions[i] = operator.Action(row)
		}
		if err := printActions(e, actions); err != nil {
			return err
		}
		if len(actions) > 0 {
			return exitCode(exitFound)
		}
		return nil
	})
}

type actionsShow struct {
	ID int64 `arg:"" help:"The action."`
}

func (c actionsShow) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		whole, err := operator.ReadAction(ctx, q, c.ID)
		if err != nil {
			return noSuchAction(c.ID, err)
		}
		return e.print(whole, func(t *table) {
			t.row("action", whole.ID)
			t.row("kind", whole.Kind)
			t.row("flow", whole.Flow)
			t.row("method", whole.Method)
			t.row("state", whole.State)
			payer := show(whole.PayerID)
			if whole.PayerName != nil {
				payer += ", " + *whole.PayerName
			}
			t.row("payer", payer)
			t.row("attempt", whole.Attempt)
			t.row("genesis", whole.Genesis)
			t.row("successor", whole.Successor)
			t.row("cost", fmt.Sprint(whole.CostMsat, " msat"))
			t.row("deadline", whole.Deadline)
			t.row("safety height", whole.DeadlineHeight)
			t.row("failure", whole.FailureMessage)
			t.row("args", string(whole.Args))
			t.row("result", string(whole.Result))
			t.row("node", whole.Node)
			t.row("payment hash", whole.PaymentHash)
			t.row("received", msat(whole.ReceivedMsat))
			t.row()
			if whole.Archived {
				t.row("Its history and postings are archived (holdfast archive).")
				if len(whole.Postings) == 0 {
					return
				}
				t.row("Booked since then, by hand:") // or it would be given back once more
			} else {
				t.row("AT", "FROM", "TO", "FACT")
				for _, h := range whole.History {
					t.row(h.At, h.From, h.To, h.Fact)
				}
			}
			t.row()
			t.row("MSAT", "FROM", "TO", "REASON")
			for _, p := range whole.Postings {
				t.row(p.Msat, p.From, p.To, p.Reason)
			}
		})
	})
}

func msat(amount *int64) string {
	if amount == nil {
		return "-"
	}
	return fmt.Sprint(*amount, " msat")
}

type actionsRequeue struct {
	ID int64 `arg:"" help:"The action."`
}

func (c actionsRequeue) Run(ctx context.Context, e *environment) error {
	queue, err := worker.NewQueue(e.log)
	if err != nil {
		return err
	}
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, q *db.Queries) error {
		row, err := q.GetAction(ctx, c.ID)
		if err != nil {
			return noSuchAction(c.ID, err)
		}
		if paidaction.State(row.PaidAction.State).Terminal() {
			return fmt.Errorf("action %d has ended in %s: there is nothing left to do", c.ID, row.PaidAction.State)
		}
		jobs := []paidaction.Job{{Kind: paidaction.JobAdvance, Action: c.ID}}
		if deadline := row.PaidAction.Deadline; deadline != nil && deadline.After(time.Now()) {
			// A job for an action that waits for its payer ends at once. If the job for the deadline is lost, nothing
			// else replaces it: so store that job too.
			jobs = append(jobs, paidaction.Job{Kind: paidaction.JobAdvance, Action: c.ID, At: *deadline})
		}
		err = db.InTransaction(ctx, pool, func(tx *db.Transaction) error { return queue.Insert(ctx, tx, jobs...) })
		if err != nil {
			return err
		}
		return e.print(map[string]int64{"requeued": c.ID}, func(t *table) { t.row(fmt.Sprintf("Action %d will be looked at as soon as a worker is free.", c.ID)) })
	})
}

func noSuchAction(id int64, err error) error {
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, paidaction.ErrNoAction) {
		return fmt.Errorf("there is no action %d: holdfast actions list shows those that there are", id)
	}
	return err
}
