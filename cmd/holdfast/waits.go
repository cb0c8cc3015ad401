package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// waitsFor is why a payment has not left: through one node, or through any.
type waitsFor struct {
	Node *string `json:"node"` // null: through any
	Why  string  `json:"why"`
}

// waits says why a payment has not left yet, as far as the database says it, and these settings: which nodes send, and
// with how many slots. Only a node itself knows whether it is synced and what it can send, and is not asked here.
func waits(ctx context.Context, e *environment, pool *pgxpool.Pool, row db.RelayPayment) ([]waitsFor, error) {
	if paidaction.Stage(row.Stage) != paidaction.StageIncoming || row.InsideID != nil {
		return nil, nil
	}
	now := time.Now()
	if !row.ExpiresAt.After(now) && row.Node != nil {
		return []waitsFor{{Why: "its invoice has expired: its payer gets the money back once " + *row.Node + " says that it was never given it"}}, nil
	}
	if !row.ExpiresAt.After(now) {
		return []waitsFor{{Why: "its invoice has expired: its payer gets the money back"}}, nil
	}
	var all []waitsFor
	if row.NotBefore != nil && row.NotBefore.After(now) && !row.NotBefore.After(relay.DefaultSettings().Latest(now)) {
		all = append(all, waitsFor{Why: "it is not sent before " + show(*row.NotBefore)})
	}
	q := db.New(pool)
	refused, err := q.RefusingNodes(ctx, row.ID)
	if err != nil {
		return nil, err
	}
	busy, err := slotsInUse(ctx, e, pool)
	if err != nil {
		return nil, err
	}
	sends := false
	for _, node := range e.config.Nodes {
		if !node.Sends {
			continue
		}
		sends = true
		why, err := waitsAt(ctx, e, q, row, at{name: node.Name, slots: e.config.Slots(node), busy: busy, refused: slices.Contains(refused, node.Name), now: now})
		if err != nil {
			return nil, err
		}
		all = append(all, waitsFor{&node.Name, why})
	}
	if !sends {
		all = append(all, waitsFor{Why: "no node sends payments by these settings (HOLDFAST_NODES)"})
	}
	return all, nil
}

// at is a node through which a payment could leave.
type at struct {
	name    string
	slots   int
	busy    func(node string, slots int) int64 // nil: the locks are not in the database
	refused bool                               // it has failed the payment
	now     time.Time
}

// waitsAt is why the payment does not leave through one node. What lasts longest is said first.
func waitsAt(ctx context.Context, e *environment, q *db.Queries, row db.RelayPayment, n at) (string, error) {
	if row.Node != nil && *row.Node != n.name {
		return fmt.Sprintf("it may leave only through %s, which may have sent it already", *row.Node), nil
	}
	if n.refused {
		return "it has failed there", nil
	}
	known, err := q.GetNode(ctx, n.name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "no process has ever used this node", nil
	case err != nil:
		return "", err
	case known.OtherKey != nil:
		return "disabled: another node answers under its name", nil
	case known.DisabledReason != nil:
		return "disabled: " + *known.DisabledReason, nil
	case known.Draining:
		return "it is being drained", nil
	case known.CoolingUntil != nil && e.config.Sending.Pool().Rests(*known.CoolingUntil, n.now):
		return fmt.Sprintf("it rests until %s: %s", show(*known.CoolingUntil), known.CoolingReason), nil
	}
	if most := relay.MostWithdrawals(n.slots); row.PayerID != nil && most <= int64(n.slots) {
		since := n.now.Add(-e.config.Relay.SendWindow)
		held, err := q.HeldByWithdrawals(ctx, db.HeldByWithdrawalsParams{Node: &n.name, Since: since, Latest: relay.DefaultSettings().Latest(n.now), Most: most})
		if err != nil {
			return "", err
		}
		if held >= most {
			return fmt.Sprintf("withdrawals hold all that they may of its slots: %d of %d", most, n.slots), nil
		}
	}
	if n.busy != nil && n.busy(n.name, n.slots) >= int64(n.slots) {
		return fmt.Sprintf("all of its %d slots are taken", n.slots), nil
	}
	return fmt.Sprintf("nothing in the database is against it: holdfast nodes asks it whether it is synced and can send %d msat", row.AmountMsat+row.BudgetMsat), nil
}
