package chaos

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/chaos/bookdb"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// gatherPatience is for the database and both nodes to tell all they know.
const gatherPatience = time.Minute

// database runs do on the service's database, which is read and never written.
func (r *run) database(ctx context.Context, do func(q *bookdb.Queries) error) error {
	conn, err := pgx.Connect(ctx, r.stack.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(bookdb.New(conn))
}

// open is how much there is that has not ended, or that may begin by itself.
func (r *run) open(ctx context.Context) (n int, err error) {
	err = r.database(ctx, func(q *bookdb.Queries) error {
		stuck, err := q.Stuck(ctx)
		if err != nil {
			return err
		}
		owed, err := q.Owed(ctx)
		n = len(stuck) + int(owed)
		return err
	})
	return n, err
}

// gather reads the facts, and what is stuck.
func (r *run) gather(ctx context.Context) (f facts, stuck []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, gatherPatience)
	defer cancel()
	f = facts{records: map[string]record{}, credits: map[string]int64{}}
	err = r.database(ctx, func(q *bookdb.Queries) error {
		rows, err := q.Records(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			own := recordOf(row)
			f.records[own.id] = own
		}
		stuck, err = q.Stuck(ctx)
		return err
	})
	if err != nil {
		return f, stuck, err
	}
	if f.paid, err = r.stack.Network.Node(devnet.Payer).Payments(ctx); err != nil {
		return f, stuck, err
	}
	if f.received, err = r.stack.Network.Node(devnet.Receiver).Invoices(ctx); err != nil {
		return f, stuck, err
	}
	for _, p := range r.crowd.zappers {
		var me struct {
			Credits int64 `json:"creditsMsat,string"`
		}
		if err := p.do(ctx, &me, `{ me { creditsMsat } }`, nil); err != nil {
			return f, stuck, err
		}
		f.credits[p.name] = me.Credits
	}
	return f, stuck, nil
}

func recordOf(row bookdb.RecordsRow) record {
	return record{
		id: strconv.FormatInt(row.ID, 10), genesis: strconv.FormatInt(row.Genesis, 10), key: row.Key, kind: row.Kind,
		state: paidaction.State(row.State), hash: hex.EncodeToString(row.PaymentHash), received: row.ReceivedMsat,
		leaving: hex.EncodeToString(row.LeavingHash), left: row.LeavingMsat, completed: row.Completed,
	}
}
