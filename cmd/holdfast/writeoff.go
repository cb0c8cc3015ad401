package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning"
	"github.com/a-seed-a7aed72f/holdfast/operator"
)

type actionsWriteOff struct {
	ID       int64    `arg:"" help:"The action."`
	Reason   string   `required:"" help:"What happened to the node. It is stored, and holdfast reconcile lists it."`
	Replaced []string `help:"The node that was made anew, if it answers with another key since. Its data must be gone for good." placeholder:"NODE"`
	Yes      bool     `help:"Really do it: this cannot be undone."`
}

// Run asks the nodes itself, independently of the running service.
func (c actionsWriteOff) Run(ctx context.Context, e *environment) error {
	if strings.TrimSpace(c.Reason) == "" {
		return fmt.Errorf("%w: --reason must say what happened to the node", errArguments)
	}
	if !c.Yes {
		return fmt.Errorf("%w: what is written off is booked as lost for good, even if the node's data comes back; add --yes to do it", errArguments)
	}
	return atKnownNodes(ctx, e, c.Replaced, func(s *service, q *db.Queries) error {
		if err := s.engine.WriteOff(ctx, c.ID, c.Reason); err != nil {
			return noSuchAction(c.ID, err)
		}
		whole, err := operator.ReadAction(ctx, q, c.ID)
		if err != nil {
			return err
		}
		var lost int64
		for _, p := range whole.Postings {
			if p.From == ledger.LossSats.String() {
				lost += p.Msat
			}
		}
		return e.print(map[string]int64{"written_off": c.ID, "lost_msat": lost}, func(t *table) {
			t.row(fmt.Sprintf("Action %d is %s; %d msat are booked as lost.", c.ID, whole.State, lost))
		})
	})
}

// atKnownNodes runs do with the nodes of the settings, apart from the running service, if each of them is the one known
// under its name, or was replaced.
func atKnownNodes(ctx context.Context, e *environment, replaced []string, do func(*service, *db.Queries) error) error {
	if err := checked(e); err != nil { // or the database would keep the print of a secret that is none
		return err
	}
	e.config.Roles = nil
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, q *db.Queries) error {
		s, err := newService(ctx, e, pool)
		if err != nil {
			return err
		}
		defer s.close()
		if err := sameNodes(ctx, q, s.clients, replaced); err != nil {
			return err
		}
		return do(s, q)
	})
}

// sameNodes refuses to ask a node that is another than the one known under its name: it knows nothing of what that one
// holds, which then would go back to its payer, though its receiver was paid. The settings of whoever types this may not
// be the service's. A node that cannot be reached says nothing of payments either; but one that does not say who it is,
// such as to a macaroon that allows less, may well say that it does not know one.
func sameNodes(ctx context.Context, q *db.Queries, nodes []*lightning.Client, replaced []string) error {
	for _, node := range nodes {
		known, err := q.GetNode(ctx, node.Name())
		if slices.Contains(replaced, node.Name()) {
			continue
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		key, err := node.PublicKey(ctx)
		if errors.Is(err, lightning.ErrUnreachable) {
			continue
		}
		if err != nil {
			return fmt.Errorf("node %[1]s does not say who it is, and what another node does not know proves nothing. Once it does, call this again; only if its data are gone for good, and it was made anew, add --replaced %[1]s: %[2]w", node.Name(), err)
		}
		if known.PublicKey != nil && key != *known.PublicKey {
			return fmt.Errorf("node %[1]s answers as %[2]s, and was known as %[3]s: what another node does not know proves nothing. Correct HOLDFAST_NODES; only if the data of the one before are gone for good, and it was made anew, add --replaced %[1]s", node.Name(), key, *known.PublicKey)
		}
	}
	return nil
}
