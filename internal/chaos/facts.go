package chaos

import (
	"context"
	"encoding/hex"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/chaos/bookdb"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// gatherPatience is how long the database and both nodes may take to tell everything.
const gatherPatience = time.Minute

// database runs do on the service's database, which is only read.
func (r *run) database(ctx context.Context, do func(q *bookdb.Queries) error) error {
	conn, err := pgx.Connect(ctx, r.stack.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(bookdb.New(conn))
}

// forgottenAfter is how long LND must carry a payment in no channel before it counts as forgotten. For a moment that is
// so of every payment: before the channel is committed, and between that and the node's record of the outcome. It takes
// longer while a channel is being re-established.
const forgottenAfter = 30 * time.Second

// oblivion is which payments nodes carry in no channel, by hash, and since when.
type oblivion map[string]time.Time

// lasting is told which payments are in no channel now, and returns those for which this has been so long enough.
func (o oblivion) lasting(now time.Time, nowhere map[string]bool) map[string]bool {
	maps.DeleteFunc(o, func(hash string, _ time.Time) bool { return !nowhere[hash] })
	long := map[string]bool{}
	for hash := range nowhere {
		since, known := o[hash]
		if !known {
			o[hash] = now
		} else if now.Sub(since) >= forgottenAfter {
			long[hash] = true
		}
	}
	return long
}

// unended is what has not ended: what is stuck for a reason of ours, and, by action, the outgoing payments that LND has
// forgotten, so that nobody can know the outcome.
type unended struct {
	stuck     []string
	forgotten map[string]string
	owed      int64 // jobs that may begin something
}

func (r *run) unended(ctx context.Context) (u unended, err error) {
	u.forgotten = map[string]string{}
	nowhere := map[string]bool{}
	for _, ours := range r.stack.Network.Ours() {
		own, err := ours.Forgotten(ctx)
		if err != nil {
			return u, err
		}
		maps.Copy(nowhere, own)
	}
	forgotten := r.ours.lasting(time.Now(), nowhere)
	err = r.database(ctx, func(q *bookdb.Queries) error {
		rows, err := q.Stuck(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if forgotten[hex.EncodeToString(row.LeavingHash)] {
				u.forgotten[strconv.FormatInt(row.ID, 10)] = row.What
			} else {
				u.stuck = append(u.stuck, row.What)
			}
		}
		u.owed, err = q.Owed(ctx)
		return err
	})
	return u, err
}

// paying is how many payments the payer's node has in flight. That node learns that a payment is settled after our node
// has told us, and long after that if one of the two was killed in between and they have to reconnect first.
func (r *run) paying(ctx context.Context) (n int, err error) {
	node := r.stack.Network.Node(devnet.Payer)
	payments, err := node.Payments(ctx)
	if err != nil {
		return 0, err
	}
	nowhere, err := node.Forgotten(ctx)
	if err != nil {
		return 0, err
	}
	forgotten := r.payers.lasting(time.Now(), nowhere)
	for hash, p := range payments {
		if !p.Settled && p.Failure == "" && !forgotten[hash] {
			n++
		}
	}
	return n, nil
}

// gather reads the facts.
func (r *run) gather(ctx context.Context) (f facts, err error) {
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
		return nil
	})
	if err != nil {
		return f, err
	}
	if f.paid, err = r.stack.Network.Node(devnet.Payer).Payments(ctx); err != nil {
		return f, err
	}
	if f.forgotten, err = r.stack.Network.Node(devnet.Payer).Forgotten(ctx); err != nil {
		return f, err
	}
	if f.received, err = r.stack.Network.Node(devnet.Receiver).Invoices(ctx); err != nil {
		return f, err
	}
	for _, p := range r.crowd.zappers {
		var me struct {
			Credits int64 `json:"creditsMsat,string"`
		}
		if err := p.do(ctx, &me, `{ me { creditsMsat } }`, nil); err != nil {
			return f, err
		}
		f.credits[p.name] = me.Credits
	}
	return f, nil
}

func recordOf(row bookdb.RecordsRow) record {
	return record{
		id: strconv.FormatInt(row.ID, 10), genesis: strconv.FormatInt(row.Genesis, 10), key: row.Key, kind: row.Kind,
		state: paidaction.State(row.State), hash: hex.EncodeToString(row.PaymentHash), received: row.ReceivedMsat,
		leaving: hex.EncodeToString(row.LeavingHash), left: row.LeavingMsat, completed: row.Completed,
	}
}
