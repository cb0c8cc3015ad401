package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Register is what all processes know of nodes: who they are, what an operator decided about them, and until when they
// rest. It is the table lightning_node. A node is in it from the first look on.
type Register struct {
	q     *db.Queries
	now   func() time.Time
	heard *sync.Map // for a read-only register: the keys that nodes answered with, by name; nil: they are written down
}

// NewRegister makes a Register on the database. now is the clock by which cooldowns end.
func NewRegister(database db.DBTX, now func() time.Time) *Register {
	return &Register{q: db.New(database), now: now}
}

// Reading returns a read-only register: the nodes' answers count in what it says of them, but are not written down.
func (r *Register) Reading() *Register { return &Register{q: r.q, now: r.now, heard: &sync.Map{}} }

// databaseTimeout bounds one call of the register.
const databaseTimeout = 5 * time.Second

// Drain stops payments to a node: once this has returned, no process gets one of its locks for a lease. Payments in
// flight go on, and a lease that was just being given may still arrive. So may one with a lock that its process has kept
// (see keep), for keptFor at most.
func (r *Register) Drain(ctx context.Context, name string) error {
	return changed(name)(r.q.DrainNode(ctx, db.DrainNodeParams{Name: name, Draining: true, At: r.now()}))
}

// Undrain undoes Drain.
func (r *Register) Undrain(ctx context.Context, name string) error {
	return changed(name)(r.q.DrainNode(ctx, db.DrainNodeParams{Name: name, At: r.now()}))
}

// Disable is Drain for a reason that people should look into: it raises the alarm.
func (r *Register) Disable(ctx context.Context, name, reason string) error {
	return changed(name)(r.q.DisableNode(ctx, db.DisableNodeParams{Name: name, Reason: reason, At: r.now()}))
}

// Enable undoes Disable. If another node answers under the name, key must be its public key: that one is the node from
// now on. It may not know the old node's payments, so none of those counts as failed (spec 01 §1.6). Otherwise key may
// be empty.
func (r *Register) Enable(ctx context.Context, name, key string) error {
	n, err := r.q.EnableNode(ctx, db.EnableNodeParams{Name: name, Key: key, At: r.now()})
	if err != nil || n != 0 {
		return err
	}
	known, err := r.q.GetNode(ctx, name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return changed(name)(0, nil)
	case err != nil:
		return err
	case known.OtherKey == nil:
		return paidaction.Errorf(paidaction.CodeForbidden, "Node %s does not answer with the key %s. Leave out --key.", name, key)
	}
	return paidaction.Errorf(paidaction.CodeForbidden, "Another node answers as %[1]s: its key is %[2]s, and it was known as %[3]s. "+
		"If the address is wrong, correct HOLDFAST_NODES. Only if that is the node from now on: holdfast nodes enable %[1]s --key %[2]s",
		name, *known.OtherKey, *known.PublicKey)
}

func changed(name string) func(rows int64, err error) error {
	return func(rows int64, err error) error {
		if err == nil && rows == 0 {
			return paidaction.Errorf(paidaction.CodeNotFound, "There is no node %q: no process has ever used it. holdfast nodes lists the configured ones.", name)
		}
		return err
	}
}

// read returns what is known of a node now.
func (r *Register) read(ctx context.Context, name string) (db.LightningNode, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	record, err := r.q.GetNode(ctx, name)
	if err != nil {
		return record, fmt.Errorf("read what is known of node %s: %w", name, err)
	}
	return record, nil
}

// Meet returns what is known of a node after it was asked who it is: key is its answer, empty if there was none. It
// writes only what is new.
func (r *Register) Meet(ctx context.Context, name, key string) (db.LightningNode, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	record, err := r.read(ctx, name)
	missing := errors.Is(err, pgx.ErrNoRows)
	if err != nil && !missing {
		return record, err
	}
	if r.heard != nil {
		record.Name = name
		r.heard.Store(name, key)
		return r.asHeard(record), nil
	}
	if !missing && (key == "" || key == last(record)) {
		return record, nil
	}
	arg := db.MeetNodeParams{Name: name, At: r.now()}
	if key != "" {
		arg.PublicKey = &key
	}
	if record, err = r.q.MeetNode(ctx, arg); err != nil {
		return record, fmt.Errorf("write down who node %s is: %w", name, err)
	}
	return record, nil
}

// Known is Meet for whoever is about to rely on the node: paidaction.ErrAnotherNode where another node answers under the
// name, until an operator says that it is the right one (Enable). Any other error says nothing about the node.
func (r *Register) Known(ctx context.Context, name, key string) error {
	record, err := r.Meet(ctx, name, key)
	if err == nil && record.OtherKey != nil {
		err = fmt.Errorf("%w as %s: its key is %s, and it was known as %s", paidaction.ErrAnotherNode, name, *record.OtherKey, *record.PublicKey)
	}
	return err
}

// asHeard returns what would be known of a node if the key that it answered with here were written down, as MeetNode
// does.
func (r *Register) asHeard(record db.LightningNode) db.LightningNode {
	if r.heard == nil {
		return record
	}
	said, _ := r.heard.Load(record.Name)
	switch key, _ := said.(string); {
	case key == "":
	case record.PublicKey == nil:
		record.PublicKey = &key
	case key == *record.PublicKey:
		record.OtherKey = nil
	default:
		record.OtherKey = &key
		if record.DisabledReason == nil {
			record.DisabledReason = new(fmt.Sprintf("it answered as %s and was known as %s", key, *record.PublicKey))
		}
	}
	return record
}

// last is the key that the node last answered with.
func last(record db.LightningNode) string {
	switch {
	case record.OtherKey != nil:
		return *record.OtherKey
	case record.PublicKey != nil:
		return *record.PublicKey
	}
	return ""
}

// cool lets a node rest until then. What is written down as later than latest is no rest. It works even when ctx is over.
func (r *Register) cool(ctx context.Context, name string, until, latest time.Time, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTimeout)
	defer cancel()
	if err := r.q.CoolNode(ctx, db.CoolNodeParams{Name: name, Until: until, Latest: latest, Reason: reason}); err != nil {
		return fmt.Errorf("write down that node %s rests: %w", name, err)
	}
	return nil
}

// list returns everything that is known.
func (r *Register) list(ctx context.Context) ([]db.LightningNode, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	all, err := r.q.ListNodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what is known of the nodes: %w", err)
	}
	for i := range all {
		all[i] = r.asHeard(all[i])
	}
	return all, nil
}
