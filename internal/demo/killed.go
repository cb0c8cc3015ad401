package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// stand is a lock on a table. Whatever touches the table waits until it is released.
type stand struct {
	conn  *pgx.Conn
	tx    pgx.Tx
	table string
}

// lockTable locks a table of the service's database against those who write to it. Those who read it go on.
func (d *Demo) lockTable(ctx context.Context, table string) (*stand, error) {
	conn, err := pgx.Connect(ctx, d.stack.DSN())
	if err != nil {
		return nil, err
	}
	tx, err := conn.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, `LOCK TABLE `+pgx.Identifier{table}.Sanitize()+` IN SHARE MODE`)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return &stand{conn, tx, table}, nil
}

// release releases the lock. It may be repeated.
func (s *stand) release(ctx context.Context) { _ = s.conn.Close(context.WithoutCancel(ctx)) }

// reached returns once somebody waits for the lock.
func (s *stand) reached(ctx context.Context) error {
	for waiting := 0; waiting == 0; {
		if err := pause(ctx); err != nil {
			return err
		}
		err := s.tx.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE relation = $1::regclass AND NOT granted`, s.table).Scan(&waiting)
		if err != nil {
			return err
		}
	}
	return nil
}

// whileKilled kills the service, runs do, and starts the service again.
func (d *Demo) whileKilled(ctx context.Context, do func() error) error {
	d.serving.Lock()
	defer d.serving.Unlock()
	return d.killed(ctx, do)
}

// killed is whileKilled for callers that already hold serving.
func (d *Demo) killed(ctx context.Context, do func() error) error {
	d.stack.ServiceKill()
	return errors.Join(do(), d.stack.ServiceStart(ctx))
}

// killedBeforeSend kills the service when the promise to send is committed, but nothing is sent. A lock stops it before
// it writes the promise, after it has asked the node what that can send. Then nodes that stand still stop it at the
// questions that come before the send.
func killedBeforeSend(ctx context.Context, d *Demo) (string, error) {
	a, err := d.wrap(ctx, d.payer, d.byAddress)
	if err != nil {
		return "", err
	}
	claims, err := d.lockTable(ctx, "relay_attempt")
	if err != nil {
		return "", err
	}
	defer claims.release(ctx)
	paid := d.pay(ctx, a)
	// Whoever waits at the lock writes a promise. Only once this payment is in the pipeline is it this one's.
	if err := d.dispatched(ctx, a, func(db.RelayPayment) bool { return true }); err != nil {
		return "", err
	}
	if err := claims.reached(ctx); err != nil {
		return "", err
	}
	thaw, err := d.freezeNodes()
	defer thaw()
	if err != nil {
		return "", err
	}
	claims.release(ctx)
	if err := d.dispatched(ctx, a, func(row db.RelayPayment) bool { return row.Attempts > 0 }); err != nil {
		return "", err
	}
	err = d.whileKilled(ctx, func() error {
		thaw()
		if payments, err := d.stack.Network.OursPaid(ctx, a.Invoice.Hash); err != nil || len(payments) > 0 {
			return fmt.Errorf("sent before the kill: %+v, %w", payments, err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return d.settledOnce(ctx, a, paid)
}

// freezeNodes makes our nodes stand still, until thaw is called, which may be repeated.
func (d *Demo) freezeNodes() (thaw func(), err error) {
	network := d.stack.Network
	for _, node := range network.Ours() {
		err = errors.Join(err, network.FreezeNode(node.Name()))
	}
	return func() {
		for _, node := range network.Ours() {
			_ = network.ThawNode(node.Name())
		}
	}, err
}

// dispatched returns once the payment is in the pipeline and has come as far as far says.
func (d *Demo) dispatched(ctx context.Context, a action, far func(db.RelayPayment) bool) error {
	for {
		row, err := d.sent(ctx, a)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) || err == nil && far(row) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// settledOnce waits for PAID, and checks that everything is paid and booked once.
func (d *Demo) settledOnce(ctx context.Context, a action, paid <-chan payment) (string, error) {
	last, err := d.payer.await(ctx, a, "PAID", "FAILED")
	if err != nil || last.State != "PAID" {
		return last.State, err
	}
	if p := <-paid; p.err != nil || !p.Settled {
		return last.State + ", payment not settled", p.err
	}
	return d.paidDirectly(ctx, a)
}

// killedBeforeResult kills the service while the receiver holds what was sent. The receiver settles once the service is
// back.
func killedBeforeResult(ctx context.Context, d *Demo) (string, error) {
	a, paid, err := d.wrapAndHang(ctx, d.payer)
	if err != nil {
		return "", err
	}
	if err := d.whileKilled(ctx, func() error { return nil }); err != nil {
		return "", err
	}
	if err := d.stack.Network.Node(devnet.Receiver).Settle(ctx, a.Invoice.Hash); err != nil {
		return "", err
	}
	return d.settledOnce(ctx, a, paid)
}

// killedBeforeSettle stops the node that holds the payer's payment while the other node pays the receiver: the preimage
// comes, but cannot be used. The service is killed there, and finds both when they are back.
func killedBeforeSettle(ctx context.Context, d *Demo) (string, error) {
	if err := d.stack.ServiceCommand(ctx, "nodes", "drain", devnet.Holdfast).Run(); err != nil {
		return "", fmt.Errorf("drain the first node: %w", err)
	}
	got, err := d.killWithPreimage(ctx)
	return got, errors.Join(err, d.stack.ServiceCommand(ctx, "nodes", "undrain", devnet.Holdfast).Run())
}

func (d *Demo) killWithPreimage(ctx context.Context) (string, error) {
	a, paid, err := d.wrapAndHang(ctx, d.payer)
	if err != nil {
		return "", err
	}
	forwarded, err := d.killWithoutNode(ctx, a)
	if err != nil {
		return "", err
	}
	if got, err := d.settledOnce(ctx, a, paid); err != nil || got != directly {
		return forwarded + ", " + got, err
	}
	return forwarded + ", PAID", nil
}

// killWithoutNode stops our first node, has the payment forwarded, kills the service, and then starts both again. From
// the start it keeps out parallel flows that pay by that node: they would wait for the node, and it for them.
func (d *Demo) killWithoutNode(ctx context.Context, a action) (forwarded string, err error) {
	d.serving.Lock()
	defer d.serving.Unlock()
	d.stack.Network.StopNode(devnet.Holdfast)
	forwarded, err = d.forwardedThere(ctx, a)
	return forwarded, d.killed(ctx, func() error { return errors.Join(err, d.stack.Network.StartNode(ctx, devnet.Holdfast)) })
}

// forwardedThere has the receiver settle, and waits until the service knows.
func (d *Demo) forwardedThere(ctx context.Context, a action) (string, error) {
	if err := d.stack.Network.Node(devnet.Receiver).Settle(ctx, a.Invoice.Hash); err != nil {
		return "", err
	}
	last, err := d.payer.await(ctx, a, "FORWARDED", "PAID", "FAILED")
	return last.State, err
}
