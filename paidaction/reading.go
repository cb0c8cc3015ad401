package paidaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// Actions asked for at the same time are read together. A read always begins after it was asked for.
const (
	readsAtOnce  = 2
	readPatience = 5 * time.Millisecond
)

// reading is a request to read one action. err is set until it is answered.
type reading struct {
	id    int64
	found *PaidAction
	err   error
}

// ErrNoAction says that there is no action with this id.
var ErrNoAction = errors.New("there is no such action")

var errNotRead = errors.New("it was not read")

// get reads an action. It wraps ErrNoAction where there is none.
func (e *Engine) get(ctx context.Context, id int64) (*PaidAction, error) {
	r := &reading{id: id, err: errNotRead}
	err := e.reads.Do(ctx, r)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return nil, fmt.Errorf("read action %d: %w", id, err)
	}
	return r.found, nil
}

// read answers several requests at once.
func (e *Engine) read(ctx context.Context, all []*reading) {
	if len(all) == 1 {
		row, err := db.New(e.Pool).GetAction(ctx, all[0].id)
		if errors.Is(err, pgx.ErrNoRows) {
			err = ErrNoAction
		}
		if all[0].err = err; err == nil {
			all[0].found = view(row)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ids := make([]int64, len(all))
	for i, r := range all {
		ids[i] = r.id
	}
	var rows []db.ActionsInFullRow
	err := db.Alone(ctx, e.Pool, func(q *db.Queries) (err error) {
		rows, err = q.ActionsInFull(ctx, ids)
		return err
	})
	byID := make(map[int64]db.GetActionRow, len(rows))
	for _, row := range rows {
		byID[row.PaidAction.ID] = db.GetActionRow(row)
	}
	for _, r := range all {
		row, found := byID[r.id]
		switch r.err = err; {
		case err != nil:
		case !found:
			r.err = ErrNoAction
		default:
			r.found = view(row) // each gets its own copy: whoever takes a step writes into it
		}
	}
}

// OpenOf reads the open actions whose invoices have these hashes, and leaves out those that have ended.
func (e *Engine) OpenOf(ctx context.Context, hashes []Hash) ([]*PaidAction, error) {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	var rows []db.ActionsByHashRow
	err := db.Alone(ctx, e.Pool, func(q *db.Queries) (err error) {
		rows, err = q.ActionsByHash(ctx, raw)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find the actions of hashes: %w", err)
	}
	open := make([]*PaidAction, len(rows))
	for i, r := range rows {
		open[i] = view(db.GetActionRow{PaidAction: r.PaidAction, Node: &r.Node, PaymentHash: r.PaymentHash, Preimage: r.Preimage, Hold: &r.Hold,
			AmountMsat: &r.AmountMsat, Memo: &r.Memo, CltvDelta: &r.CltvDelta, ExpiresAt: &r.ExpiresAt, Bolt11: r.Bolt11, ReceivedMsat: r.ReceivedMsat})
	}
	return open, nil
}
