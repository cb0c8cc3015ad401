package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/lock/postgres"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

type nodesCommand struct {
	List    nodesList    `cmd:"" default:"1" help:"List the Lightning nodes: which of them send payments, and why the others do not."`
	Drain   nodesDrain   `cmd:"" changes:"" help:"Give a node no new payments. Those in flight continue."`
	Undrain nodesUndrain `cmd:"" changes:"" help:"Give a node payments again."`
	Disable nodesDisable `cmd:"" changes:"" help:"Drain a node and raise the alarm, with a reason for others to read."`
	Enable  nodesEnable  `cmd:"" changes:"" help:"Undo disable. If another node answers under this name, --key accepts it as the right one from now on."`
}

// Help says what the command does without another word.
func (nodesCommand) Help() string { return "Without another word it lists them." }

// shownNode is a row of the list.
type shownNode struct {
	Name         string          `json:"name"`
	Eligible     bool            `json:"eligible"`
	Reason       pool.Reason     `json:"reason"` // empty if it may send
	Why          string          `json:"why"`
	InFlight     *int64          `json:"in_flight"` // payments for which it looks for a route, in all processes; null if the locks are not in PostgreSQL
	Slots        int             `json:"slots"`
	UnderWay     int             `json:"under_way"` // payments that it was given and that have not ended, also if it is to be given them again: nobody else knows what becomes of them
	Holds        int             `json:"holds"`     // its hold invoices that are open or held
	Outbound     paidaction.Msat `json:"outbound_msat"`
	Height       uint32          `json:"height"`
	Synced       bool            `json:"synced"`
	Draining     bool            `json:"draining"`
	Disabled     string          `json:"disabled"`
	CoolingUntil *time.Time      `json:"cooling_until"`
	PublicKey    string          `json:"public_key"`
}

type nodesList struct{}

func (nodesList) Run(ctx context.Context, e *environment) error {
	return withDatabase(ctx, e, func(database *pgxpool.Pool, q *db.Queries) error {
		stand, err := health(ctx, e, database)
		if err != nil {
			return err
		}
		busy, err := slotsInUse(ctx, e, database)
		if err != nil {
			return err
		}
		list := make([]shownNode, len(stand))
		for i, s := range stand {
			list[i] = shownNode{
				Name: s.Name, Eligible: s.Eligible, Reason: s.Reason, Why: s.Why, Slots: s.Slots, Outbound: s.Outbound,
				Height: s.Height, Synced: s.Synced, Draining: s.Draining, Disabled: s.Disabled, PublicKey: s.PublicKey,
			}
			if list[i].UnderWay, list[i].Holds, err = needed(ctx, q, s.Name); err != nil {
				return err
			}
			if busy != nil {
				list[i].InFlight = new(busy(s.Name, s.Slots))
			}
			if !s.CoolingUntil.IsZero() {
				list[i].CoolingUntil = &s.CoolingUntil
			}
		}
		return printNodes(e, list)
	})
}

// health looks once at every configured node. It stores nothing, because the settings here may differ from the
// service's.
func health(ctx context.Context, e *environment, database *pgxpool.Pool) ([]pool.Status, error) {
	s := &service{environment: e}
	defer s.close()
	if err := s.dial(); err != nil {
		return nil, err
	}
	silent := slog.New(slog.DiscardHandler) // the list says everything
	locker, err := lock.New(lock.NewMemory(0), lock.Settings{Log: silent})
	if err != nil {
		return nil, err
	}
	defer locker.Close() // in this process alone: nothing is leased here
	nodes, err := pool.New(pool.Config{Nodes: s.members(), Locker: locker, Register: pool.NewRegister(database, time.Now).Reading(),
		Settings: e.config.Sending.Pool(), Log: silent})
	if err != nil {
		return nil, err
	}
	defer nodes.Close()
	return nodes.Health(ctx)
}

// slotsInUse counts the leases of all processes on a node; it is nil if the locks are not in PostgreSQL.
func slotsInUse(ctx context.Context, e *environment, database *pgxpool.Pool) (func(node string, slots int) int64, error) {
	if e.config.Lock.Strategy != "postgres" {
		return nil, nil
	}
	held, err := postgres.List(ctx, database, math.MaxInt32, 0)
	if err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, h := range held {
		keys[h.Key] = h.Left > 0
	}
	return func(node string, slots int) (n int64) {
		for i := range slots {
			if key, err := lock.Normalise(pool.Key(node, i)); err == nil && keys[key] {
				n++
			}
		}
		return n
	}, nil
}

// needed counts what still depends on a node that is to be stopped: payments in flight or that wait for this very node,
// and hold invoices. A payment that its receiver lets hang takes no slot.
func needed(ctx context.Context, q *db.Queries, node string) (underWay, holds int, err error) {
	waiting, err := q.WaitingForNode(ctx, &node)
	if err != nil {
		return 0, 0, err
	}
	underWay = int(waiting)
	const page = 1000
	for after := int64(0); ; {
		rows, err := q.RelayOfNode(ctx, db.RelayOfNodeParams{Node: &node, After: after, Page: page})
		if err != nil {
			return 0, 0, err
		}
		if underWay += len(rows); len(rows) < page {
			break
		}
		after = rows[page-1].ID
	}
	invoices, err := q.OpenHoldInvoices(ctx, node)
	return underWay, len(invoices), err
}

func printNodes(e *environment, list []shownNode) error {
	return e.print(list, func(t *table) {
		t.row("NODE", "SENDS", "IN FLIGHT", "SLOTS", "UNDER WAY", "HOLDS", "OUTBOUND (msat)", "HEIGHT", "WHY NOT")
		for _, n := range list {
			sends := "no"
			if n.Eligible {
				sends = "yes"
			}
			t.row(n.Name, sends, n.InFlight, n.Slots, n.UnderWay, n.Holds, n.Outbound, n.Height, n.Why)
		}
	})
}

type nodesDrain struct {
	Name string `arg:"" help:"The node."`
}

func (c nodesDrain) Run(ctx context.Context, e *environment) error {
	return pull(ctx, e, "drained", c.Name, "gets no new payments; those in flight continue", (*pool.Register).Drain)
}

type nodesUndrain struct {
	Name string `arg:"" help:"The node."`
}

func (c nodesUndrain) Run(ctx context.Context, e *environment) error {
	return pull(ctx, e, "undrained", c.Name, "is no longer drained", (*pool.Register).Undrain)
}

type nodesDisable struct {
	Name   string `arg:"" help:"The node."`
	Reason string `help:"Why." required:""`
}

func (c nodesDisable) Run(ctx context.Context, e *environment) error {
	if strings.TrimSpace(c.Reason) == "" {
		return fmt.Errorf("%w: --reason must say why", errArguments)
	}
	return pull(ctx, e, "disabled", c.Name, "is disabled", func(r *pool.Register, ctx context.Context, name string) error {
		return r.Disable(ctx, name, c.Reason)
	})
}

type nodesEnable struct {
	Name string `arg:"" help:"The node."`
	Key  string `help:"The public key of the node that answers under this name now, if that is another than before."`
}

func (c nodesEnable) Run(ctx context.Context, e *environment) error {
	return pull(ctx, e, "enabled", c.Name, "is enabled", func(r *pool.Register, ctx context.Context, name string) error {
		return r.Enable(ctx, name, c.Key)
	})
}

// pull changes a node's state in the register, and reports it.
func pull(ctx context.Context, e *environment, done, name, said string, lever func(*pool.Register, context.Context, string) error) error {
	return withDatabase(ctx, e, func(database *pgxpool.Pool, _ *db.Queries) error {
		if err := lever(pool.NewRegister(database, time.Now), ctx, name); err != nil {
			return err
		}
		return e.print(map[string]string{done: name}, func(t *table) { t.row("Node " + name + " " + said + ".") })
	})
}
