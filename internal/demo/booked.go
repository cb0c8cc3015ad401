package demo

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// database runs do with queries of the service's database, which is only read.
func (d *Demo) database(ctx context.Context, a action, do func(q *db.Queries, action int64) error) error {
	id, err := strconv.ParseInt(a.ID, 10, 64)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, d.stack.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(db.New(conn), id)
}

// sent is the outgoing payment of an action.
func (d *Demo) sent(ctx context.Context, a action) (row db.RelayPayment, err error) {
	err = d.database(ctx, a, func(q *db.Queries, id int64) error {
		row, err = q.GetRelay(ctx, id)
		return err
	})
	return row, err
}

// paidOnce is the one payment that our nodes have made under a hash. None of them may have another one in flight.
func (d *Demo) paidOnce(ctx context.Context, hash string) (devnet.Payment, error) {
	payments, err := d.stack.Network.OursPaid(ctx, hash)
	if err != nil {
		return devnet.Payment{}, err
	}
	var made []devnet.Payment
	for _, p := range payments {
		if p.Failure == "" {
			made = append(made, p)
		}
	}
	if len(made) != 1 || !made[0].Settled {
		return devnet.Payment{}, fmt.Errorf("our nodes' payments of %s: %+v", hash, payments)
	}
	return made[0], nil
}

// outgoing is the outcome of an outgoing payment, in msat.
type outgoing struct{ msat, fee int64 }

// booked checks, for a PAID action with an outgoing payment, that everything is where it belongs, to the millisatoshi:
// the receiver's node has what we sent, one of our nodes sent it, once, and its cost is what was booked.
func (d *Demo) booked(ctx context.Context, a action) (o outgoing, err error) {
	row, err := d.completed(ctx, a)
	if err != nil {
		return o, err
	}
	o = outgoing{row.AmountMsat, *row.FeeMsat}
	hash := hex.EncodeToString(row.PaymentHash)
	payment, err := d.paidOnce(ctx, hash)
	if err != nil {
		return o, err
	}
	got, err := d.stack.Network.Node(devnet.Receiver).Issued(ctx, hash)
	if err != nil {
		return o, err
	}
	if payment.AmountMsat != o.msat || got.PaidMsat != o.msat || got.State != "SETTLED" {
		return o, fmt.Errorf("%d msat booked, %d paid, the receiver has %+v", o.msat, payment.AmountMsat, got)
	}
	if payment.FeeMsat == 0 || o.fee != payment.FeeMsat {
		return o, fmt.Errorf("a routing fee of %d msat booked, %d paid", o.fee, payment.FeeMsat)
	}
	left, err := d.postedTo(ctx, a, func(to ledger.Account) bool { return to == ledger.Lightning })
	if err == nil && left != o.msat+o.fee {
		err = fmt.Errorf("%d msat booked as having left, %d have", left, o.msat+o.fee)
	}
	return o, err
}

// completed is the outgoing payment of a PAID action once its fee is booked: together with PAID, or a moment later if a
// part was still in flight.
func (d *Demo) completed(ctx context.Context, a action) (db.RelayPayment, error) {
	for {
		row, err := d.sent(ctx, a)
		if err != nil || row.FeeMsat != nil {
			return row, err
		}
		if err := pause(ctx); err != nil {
			return row, fmt.Errorf("the payment stays in stage %s: %w", row.Stage, err)
		}
	}
}

// postedTo is what an action posted to the accounts that are counted, in msat.
func (d *Demo) postedTo(ctx context.Context, a action, counts func(to ledger.Account) bool) (msat int64, err error) {
	err = d.database(ctx, a, func(q *db.Queries, id int64) error {
		postings, err := q.PostingsOfAction(ctx, &id)
		for _, p := range postings {
			if counts(ledger.Account(p.ToAccount)) {
				msat += p.Msat
			}
		}
		return err
	})
	return msat, err
}
