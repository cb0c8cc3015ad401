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

// outgoing is a payment of ours as the service's database has it. Amounts are in msat.
type outgoing struct {
	Stage        string
	Hash         string // hex
	Msat, Budget int64
	Fee          *int64 // once it is booked
	Claims       int    // promises to send it
}

// database runs do with a connection to the service's database, which is read beside the service and never written.
func (d *Demo) database(ctx context.Context, do func(*db.Queries) error) error {
	conn, err := pgx.Connect(ctx, d.stack.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(db.New(conn))
}

// sent is the outgoing payment of an action.
func (d *Demo) sent(ctx context.Context, a action) (o outgoing, err error) {
	id, err := strconv.ParseInt(a.ID, 10, 64)
	if err != nil {
		return o, err
	}
	err = d.database(ctx, func(q *db.Queries) error {
		row, err := q.GetRelay(ctx, id)
		if err != nil {
			return err
		}
		claims, err := q.Attempts(ctx, row.ID)
		o = outgoing{Stage: row.Stage, Hash: hex.EncodeToString(row.PaymentHash), Msat: row.AmountMsat, Budget: row.BudgetMsat, Fee: row.FeeMsat,
			Claims: len(claims)}
		return err
	})
	return o, err
}

// paidOnce is the one payment that our nodes have made under a hash, and that none of them may have under way beside it.
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

// booked checks that of a PAID action with an outgoing payment everything is where it belongs, to the millisatoshi: the receiver's
// node has what we sent, one of our nodes sent it, once, and what that cost is what was booked. It returns what the receiver has.
func (d *Demo) booked(ctx context.Context, a action) (o outgoing, err error) {
	for { // the fee is booked with PAID, or, if a part was still under way, a moment later
		if o, err = d.sent(ctx, a); err != nil {
			return o, err
		}
		if o.Stage == "completed" {
			break
		}
		if err := pause(ctx); err != nil {
			return o, fmt.Errorf("the payment stays in stage %s: %w", o.Stage, err)
		}
	}
	payment, err := d.paidOnce(ctx, o.Hash)
	if err != nil {
		return o, err
	}
	got, err := d.stack.Network.Node(devnet.Receiver).Issued(ctx, o.Hash)
	if err != nil {
		return o, err
	}
	if payment.AmountMsat != o.Msat || got.PaidMsat != o.Msat || got.State != "SETTLED" {
		return o, fmt.Errorf("%d msat booked, %d paid, the receiver has %+v", o.Msat, payment.AmountMsat, got)
	}
	if payment.FeeMsat == 0 || *o.Fee != payment.FeeMsat {
		return o, fmt.Errorf("a routing fee of %d msat booked, %d paid", *o.Fee, payment.FeeMsat)
	}
	left, err := d.postedTo(ctx, a, func(to ledger.Account) bool { return to == ledger.Lightning })
	if err == nil && left != o.Msat+*o.Fee {
		err = fmt.Errorf("%d msat booked as having left, %d have", left, o.Msat+*o.Fee)
	}
	return o, err
}

// postedTo is what was booked of an action to the accounts that wanted names, in msat.
func (d *Demo) postedTo(ctx context.Context, a action, wanted func(ledger.Account) bool) (msat int64, err error) {
	id, err := strconv.ParseInt(a.ID, 10, 64)
	if err != nil {
		return 0, err
	}
	err = d.database(ctx, func(q *db.Queries) error {
		postings, err := q.PostingsOfAction(ctx, &id)
		for _, p := range postings {
			if wanted(ledger.Account(p.ToAccount)) {
				msat += p.Msat
			}
		}
		return err
	})
	return msat, err
}
