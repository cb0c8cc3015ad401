package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/benchdb"
	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
)

// books are what a load is checked against afterwards.
type books struct {
	connection *pgx.Conn
	benchdb.BooksRow
}

// openBooks records the state before a load.
func openBooks(ctx context.Context, dsn string) (*books, error) {
	connection, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	b := &books{connection: connection}
	if b.BooksRow, err = benchdb.New(connection).Books(ctx); err != nil {
		return nil, errors.Join(err, connection.Close(ctx))
	}
	return b, nil
}

func (b *books) close(ctx context.Context) { _ = b.connection.Close(ctx) }

// settlePatience is how long side effects may take after the last answer.
const settlePatience = 5 * time.Minute

// settle waits until every side effect is done and everything is folded.
func (b *books) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settlePatience, errors.New("the side effects are not done"))
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		unsettled, err := benchdb.New(b.connection).Unsettled(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || !unsettled {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

// referenceActions is how many actions the reference's tables hold.
func (d *database) referenceActions(ctx context.Context) (n int64, err error) {
	connection, err := pgx.Connect(ctx, d.DSN(referenceDB))
	if err != nil {
		return 0, err
	}
	err = connection.QueryRow(ctx, "SELECT count(*) FROM action").Scan(&n)
	return n, errors.Join(err, connection.Close(ctx))
}

// rewardsPart is the part of a zap that goes to the rewards; the author gets the rest. There are no territories or
// forwards here.
const rewardsPart = 0.3

// check compares the ledger with what the clients were told. As many zaps are paid as they counted, there are no other
// actions, each author was notified of each zap once, and the money is where it belongs. Everything must be settled.
func (b *books) check(ctx context.Context, r load.Result, sats int64) error {
	q := benchdb.New(b.connection)
	zaps, err := q.ZapsSince(ctx, b.LastAction)
	if err != nil {
		return err
	}
	now, err := q.Books(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	differ := func(what string, got, want int64) {
		if got != want {
			wrong = append(wrong, fmt.Errorf("%s: %d, and not %d", what, got, want))
		}
	}
	fee := int64(float64(r.Paid*sats*1000) * rewardsPart)
	differ("zaps that are paid", zaps.Paid, r.Paid)
	differ("zaps in another state", zaps.Others, 0)
	differ("zaps that their authors were told of", zaps.Told, r.Paid)
	differ("notifications of zaps", zaps.Notifications, r.Paid)
	differ("msat that they cost", zaps.CostMsat, r.Paid*sats*1000)
	differ("msat that people have less", b.PeopleMsat-now.PeopleMsat, fee)
	differ("msat that the rewards pool has more", now.RewardsMsat-b.RewardsMsat, fee)
	if len(wrong) > 0 {
		return fmt.Errorf("the ledger is not what the clients were told: %w", errors.Join(wrong...))
	}
	return nil
}
