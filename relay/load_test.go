package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// bounded are leases on so many places at each node.
type bounded struct {
	places chan struct{}

	mu   sync.Mutex
	used int
	most int
}

func newBounded(places int) *bounded { return &bounded{places: make(chan struct{}, places)} }

func (b *bounded) Lease(ctx context.Context, _ string) (relay.Lease, error) {
	select {
	case b.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used++
	b.most = max(b.most, b.used)
	return b, nil
}

func (b *bounded) Fence() int64 { return 1 }

func (b *bounded) Release(context.Context, relay.Blame) {
	b.mu.Lock()
	b.used--
	b.mu.Unlock()
	<-b.places
}

// crowd are withdrawals that wait in the pipeline, put there as the engine would have.
type crowd struct {
	*bundle
	hashes []paidaction.Hash // in the order in which they should leave
}

// wait puts n more withdrawals of one payer into the pipeline. The first expires after the given time, and each other one a second
// later. Those that expire first come last into the table.
func (c *crowd) wait(n int, expires time.Duration, a simnode.Ask) (first, last int64) {
	c.Helper()
	now := c.Clock.Now()
	first = c.Count(`SELECT coalesce(max(id), 0) + 1 FROM paid_action`)
	last = first + int64(n) - 1
	rows := make([][]any, n)
	for i := range n {
		a.Expiry = expires + time.Duration(i)*time.Second
		inv := c.issue(a)
		rows[n-1-i] = []any{last - int64(i), inv.Hash[:], inv.Bolt11, int64(a.Amount), int64(5_000), int32(80), now.Add(a.Expiry), now, now}
		c.hashes = append(c.hashes, inv.Hash)
	}
	err := pgx.BeginFunc(c.Ctx, c.Pool, func(tx pgx.Tx) error {
		for _, do := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO paid_action (id, kind, flow, method, state, payer_id, cost_msat, created_at, changed_at, deadline, args, result)
				OVERRIDING SYSTEM VALUE SELECT id, 'WITHDRAW', 'OUTGOING', 'OUTGOING', 'FORWARDING', $3, $4, $5, $5, $5, '{"to": "somebody"}', '{}'
				FROM generate_series($1::bigint, $2) id`, []any{first, last, c.payer, int64(a.Amount) + 5_000, now}},
			{`INSERT INTO action_history (action_id, to_state, fact, at) SELECT id, 'FORWARDING', 'REQUESTED', $3 FROM generate_series($1::bigint, $2) id`,
				[]any{first, last, now}},
			{`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at)
				SELECT id, $3, $4, $5, 'withdrawal', $6 FROM generate_series($1::bigint, $2) id`,
				[]any{first, last, int64(ledger.UserSats(c.payer)), int64(ledger.RoutingSats), int64(a.Amount) + 5_000, now}},
			{`INSERT INTO balance_delta (account_id, msat) VALUES ($1, $2)`, []any{int64(ledger.RoutingSats), int64(n) * (int64(a.Amount) + 5_000)}},
		} {
			if _, err := tx.Exec(c.Ctx, do.sql, do.args...); err != nil {
				return fmt.Errorf("%s: %w", do.sql, err)
			}
		}
		// As a debit would: from what was folded in.
		if _, err := tx.Exec(c.Ctx, `UPDATE account SET balance = balance + d.msat FROM (SELECT coalesce(sum(msat), 0) AS msat FROM balance_delta WHERE account_id = $1) d
			WHERE id = $1`, int64(ledger.UserSats(c.payer))); err != nil {
			return err
		}
		if _, err := tx.Exec(c.Ctx, `DELETE FROM balance_delta WHERE account_id = $1`, int64(ledger.UserSats(c.payer))); err != nil {
			return err
		}
		if _, err := tx.Exec(c.Ctx, `UPDATE account SET balance = balance - $2 WHERE id = $1`, int64(ledger.UserSats(c.payer)), int64(n)*(int64(a.Amount)+5_000)); err != nil {
			return err
		}
		_, err := tx.CopyFrom(c.Ctx, pgx.Identifier{"relay_payment"}, []string{"action_id", "payment_hash", "bolt11", "amount_msat", "budget_msat", "final_cltv",
			"expires_at", "created_at", "changed_at"}, pgx.CopyFromRows(rows))
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return first, last
}

// refusedBy notes that a node has refused the payments of these actions.
func (c *crowd) refusedBy(node string, first, last int64) {
	c.Helper()
	_, err := c.Pool.Exec(c.Ctx, `INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until, outcome, reason, ended_at)
		SELECT id, $3, 'key', 1, created_at, created_at, 'FAILED', 'NO_ROUTE', created_at FROM relay_payment WHERE action_id BETWEEN $1 AND $2`,
		first, last, node)
	if err != nil {
		c.Fatal(err)
	}
}

// plan is how PostgreSQL answers one of the relay's queries for a node, and how long it takes.
func (c *crowd) plan(query string) (plan string, took time.Duration) {
	c.Helper()
	rows, err := c.Pool.Query(c.Ctx, `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) `+query)
	if err != nil {
		c.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		c.Fatal(err)
	}
	ms := 0.0
	_, _ = fmt.Sscanf(lines[len(lines)-1], "Execution Time: %f ms", &ms)
	return strings.Join(lines, "\n"), time.Duration(ms * float64(time.Millisecond))
}

// Spec 04 §4.3: ten thousand wait. At their head are those that no node can send or that every node has refused; they hold up nobody
// behind them. Who expires first leaves first, no more are loaded than there are places, and four processes on one database make
// each payment once.
func TestTenThousandWait(t *testing.T) {
	b := setup(t, "one", "two").rich(50_000_000_000)
	c := &crowd{bundle: b}
	for _, n := range b.Nodes {
		n.SetSendable(500_000_000)
	}
	c.wait(4_900, time.Hour, simnode.Ask{Amount: 900_000_000})
	first, last := c.wait(4_900, 2*time.Hour, simnode.Ask{Amount: 10_000})
	c.refusedBy("one", first, last)
	c.refusedBy("two", first, last)
	c.hashes = nil
	const good = 100
	first, last = c.wait(good, 4*time.Hour, simnode.Ask{Amount: 10_000})
	if _, err := b.Pool.Exec(b.Ctx, `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	const claimable = `FROM relay_payment p WHERE p.stage = 'incoming' AND (p.node IS NULL OR p.node = 'one') AND p.amount_msat + p.budget_msat <= 500000000
		AND (p.not_before IS NULL OR p.not_before <= now()) AND NOT EXISTS (SELECT FROM relay_attempt a WHERE a.payment_id = p.id AND a.node = 'one'
		AND a.outcome = 'FAILED' AND (p.requeued_at IS NULL OR a.ended_at > p.requeued_at))`
	for name, query := range map[string]string{
		"AnyClaimable":   `SELECT EXISTS (SELECT ` + claimable + `)`,
		"ClaimableRelay": `SELECT * ` + claimable + ` ORDER BY p.expires_at, p.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`,
	} {
		plan, took := c.plan(query)
		t.Logf("%s took %v\n%s", name, took, plan)
		if took > 500*time.Millisecond {
			t.Errorf("%s took %v", name, took)
		}
	}

	// One process with one place: the order is exact.
	const alone = 20
	leases := newBounded(1)
	stop := b.Run(b.NewRelay(func(r *relay.Config) { r.Leases = leases; r.Nodes = b.Nodes[:1] }))
	begun := time.Now()
	b.await("the first are paid", func() bool { return len(b.Node.Payments()) >= alone })
	stop()
	t.Logf("%d payments by one process took %v", alone, time.Since(begun))
	for i, sent := range b.Node.Payments()[:alone] {
		if sent.Present.Hash != c.hashes[i] {
			t.Fatalf("payment %d is not the one that expires first", i)
		}
	}

	begun = time.Now()
	var all []*bounded
	for range 4 {
		leases := newBounded(2)
		all = append(all, leases)
		b.Run(b.NewRelay(func(r *relay.Config) { r.Leases = leases }))
	}
	b.await("all are paid", func() bool {
		return b.Count(`SELECT count(*) FROM paid_action WHERE id BETWEEN $1 AND $2 AND state <> 'PAID'`, first, last) == 0
	})
	t.Logf("the others by four processes took %v", time.Since(begun))
	for _, leases := range all {
		if leases.most > 2 {
			t.Errorf("%d payments were loaded for 2 places", leases.most)
		}
	}
	for _, h := range c.hashes {
		b.wantPaidOut(h, 10_000)
		b.wantSent(h, 1)
	}
	if n := b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming'`); n != 9_800 {
		t.Errorf("%d wait, want those that cannot be sent", n)
	}
	b.wantSound()
}
