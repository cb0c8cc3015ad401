package enginetest

import (
	"crypto/rand"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Nodes issues invoices and sends payments.
type Nodes interface {
	paidaction.Nodes
	relay.Nodes
}

// Join makes the relay and the engine of a separate, real process without a test, on the database of a world that runs
// on the real clock. It stores jobs and works off none.
func Join(pool *pgxpool.Pool, nodes Nodes, leases relay.Leases, settings relay.Settings) (*relay.Relay, *paidaction.Engine, error) {
	r, err := relay.New(relay.Config{Pool: pool, Nodes: nodes, Issuers: nodes, Leases: leases, Log: quiet, Settings: settings})
	if err != nil {
		return nil, nil, err
	}
	engine, err := paidaction.New(paidaction.Config{Pool: pool, Nodes: nodes, Relay: r, Jobs: jobs{&Clock{}},
		Actions: community.Actions(community.DefaultSettings()), Secret: make([]byte, 32), Now: time.Now, Random: rand.Reader, Log: quiet})
	return r, engine, err
}
