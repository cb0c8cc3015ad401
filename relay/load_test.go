package relay_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Ten thousand forwards wait. So many of them, which expire before all others, cannot be sent while the test lasts:
const (
	refused  = 500 // by both nodes that are up
	tooLarge = 500 // for what any node can send
	stuck    = 50  // the node that holds the payer's payment is away: they are tried again and again
	good     = 10_000 - refused - tooLarge - stuck
	enough   = 600 // of the good ones: then the processes are stopped
)

// heldZap is a zap whose payment is held.
func (b *bundle) heldZap(sats int64) *paidaction.PaidAction {
	b.Helper()
	pa, err := b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: sats}, paidaction.P2P, "")
	if err != nil {
		b.Fatal(err)
	}
	b.pay(pa)
	return pa
}

// crowd makes forwards of a zap of so many sats: the engine writes one, they are copied from it, and the engine writes another, so that
// they can be held against it. prepare does to the engine's what has happened to all of them.
func (b *bundle) crowd(n int, sats int64, expires time.Duration, prepare func(*paidaction.PaidAction)) []paidaction.Hash {
	b.Helper()
	before := b.census()
	first := b.heldZap(sats)
	prepare(first)
	between := b.census()
	hashes := b.copies(first, n-2, expires+time.Second)
	for table, rows := range b.census() {
		if each := between[table] - before[table]; rows-between[table] != each*int64(n-2) {
			b.Errorf("%s: the engine writes %d rows for a forward, there are %d more for %d", table, each, rows-between[table], n-2)
		}
	}
	last := b.heldZap(sats)
	prepare(last)
	b.wantLike(last)
	// Both expire within the hour, as invoices do that are for the payer alone to pay: before all others.
	return append([]paidaction.Hash{first.Invoice.Hash, last.Invoice.Hash}, hashes...)
}

// plan is how PostgreSQL answers one of the relay's queries, and how long it takes.
func (b *bundle) plan(query string) (plan string, took time.Duration) {
	b.Helper()
	rows, err := b.Pool.Query(b.Ctx, `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) `+query)
	if err != nil {
		b.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	ms := 0.0
	_, _ = fmt.Sscanf(lines[len(lines)-1], "Execution Time: %f ms", &ms)
	return strings.Join(lines, "\n"), time.Duration(ms * float64(time.Millisecond))
}

func (b *bundle) wantQuickQueries() {
	b.Helper()
	if _, err := b.Pool.Exec(b.Ctx, `ANALYZE`); err != nil {
		b.Fatal(err)
	}
	const claimable = `FROM relay_payment p WHERE p.stage = 'incoming' AND (p.node IS NULL OR p.node = 'one') AND p.amount_msat + p.budget_msat <= 400000000
		AND p.expires_at > now() + interval '90 minutes' AND (p.not_before IS NULL OR p.not_before <= now() OR p.not_before > now() + interval '92 seconds') AND NOT EXISTS (SELECT FROM relay_attempt a WHERE a.payment_id = p.id AND a.node = 'one'
		AND a.outcome = 'FAILED' AND a.id > p.requeued_after)`
	for name, query := range map[string]string{
		"NextClaimable": `SELECT p.amount_msat + p.budget_msat ` + claimable + ` ORDER BY p.expires_at, p.id LIMIT 1`,
		"ClaimRelay":    `SELECT * ` + claimable + ` ORDER BY p.expires_at, p.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`,
	} {
		plan, took := b.plan(query)
		b.Logf("%s took %v", name, took)
		if took > 500*time.Millisecond {
			b.Errorf("%s took %v:\n%s", name, took, plan)
		}
	}
}

// Spec 04 §4.3: ten thousand forwards wait. At their head are those that no node can send, that every node has refused, or that come
// back again and again; they hold up nobody behind them. Who expires first leaves first, no process loads more than it has places for,
// and of four processes on one database only one ever sends a payment, once. It is not parallel: it takes the whole machine.
func TestTenThousandForwardsWait(t *testing.T) {
	b := newBundle(t, paidaction.Settings{MaxForwards: 1 << 40, MaxForwarded: paidaction.MaxMsat}, "one", "two", "three")
	b.Clock.Live()
	b.payer = 0 // who zapped one item ten thousand times would wait for themselves
	one, two, three := b.Nodes[0], b.Nodes[1], b.Nodes[2]
	begun := time.Now()
	lap := func(what string) {
		t.Logf("%s took %v", what, time.Since(begun).Round(time.Millisecond))
		begun = time.Now()
	}
	nothing := func(*paidaction.PaidAction) {}

	b.crowd(refused, 101, 2*time.Hour, func(pa *paidaction.PaidAction) {
		three.SetAway(true)
		one.SetIsolated(true)
		two.SetIsolated(true)
		stop := b.Run(b.NewRelay(func(c *relay.Config) { c.Leases = newCounted(1, "one", "two", "three") }))
		b.await("two nodes have refused it", func() bool {
			return b.Count(`SELECT count(*) FROM relay_attempt a JOIN relay_payment p ON p.id = a.payment_id
				WHERE p.action_id = $1 AND a.outcome = 'FAILED' AND p.stage = 'incoming'`, pa.ID) == 2
		})
		stop()
		three.SetAway(false)
		one.SetIsolated(false)
		two.SetIsolated(false)
	})
	b.crowd(tooLarge, 1_000_000, 4*time.Hour, nothing)
	one.SetSynced(false)
	two.SetSynced(false)
	b.crowd(stuck, 102, 6*time.Hour, nothing)
	one.SetSynced(true)
	two.SetSynced(true)
	hashes := b.crowd(good, 100, 8*time.Hour, nothing)
	three.SetAway(true)
	one.SetSendable(400_000_000) // and what it receives meanwhile
	two.SetSendable(400_000_000)
	if n := b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming'`); n != 10_000 {
		t.Fatalf("%d wait", n)
	}
	// That some go by their age comes once they have waited for long (TestNobodyIsOvertakenForEver): not here, also
	// on a machine that takes long.
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_payment SET created_at = created_at + interval '1 hour' WHERE stage = 'incoming'`); err != nil {
		t.Fatal(err)
	}
	b.wantQuickQueries()
	given := map[paidaction.Hash]int{}
	for _, n := range b.Nodes { // the refused ones that were not copies
		for _, c := range n.Calls() {
			if c.Method == simnode.MethodPay {
				given[c.Hash]--
			}
		}
	}
	lap("to have them wait")

	socket := serveNodes(t, b.Nodes)
	processes := make([]*process, 4)
	for i := range processes {
		processes[i] = b.spawn(socket)
	}
	completed := func() int64 { return b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'completed'`) }
	b.awaitFor(5*time.Minute, "those that expire first are paid and booked", func() bool { return completed() >= enough })
	claims := 0
	for _, p := range processes {
		_ = p.in.Close()
	}
	for i, p := range processes {
		said := p.end(t)
		t.Logf("process %d: %+v", i, said)
		claims += said.Leased
		if said.Leased < enough/20 {
			t.Errorf("process %d has claimed %d payments only", i, said.Leased)
		}
		if said.Most > 2*placesEach {
			t.Errorf("%d payments were loaded for %d places", said.Most, 2*placesEach)
		}
		if said.Heap > 64<<20 {
			t.Errorf("process %d has used %d bytes", i, said.Heap)
		}
	}
	lap(fmt.Sprintf("%d forwards by four processes, with %d claims,", completed(), claims))

	for _, n := range []string{"one", "two"} { // what was under way when they were stopped
		if err := b.Relay.Audit(b.Ctx, n, b.Engine.Advance); err != nil {
			t.Fatal(err)
		}
	}
	paid := b.wantInOrder(hashes)
	for _, n := range b.Nodes {
		for _, c := range n.Calls() {
			if c.Method == simnode.MethodPay {
				given[c.Hash]++
			}
		}
	}
	for _, h := range paid {
		if given[h] != 1 {
			t.Errorf("payment %s was given to nodes %d times", h, given[h])
		}
		delete(given, h)
	}
	maps.DeleteFunc(given, func(_ paidaction.Hash, n int) bool { return n == 0 })
	if len(given) > 0 {
		t.Errorf("nodes were given what is not paid: %v", given)
	}
	// A process that is stopped between a claim and its send leaves a payment that was given to nobody, and keeps its claim until that
	// is over.
	claimed := b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'in_work'`)
	if n, want := b.Count(`SELECT count(*) FROM relay_payment WHERE stage = 'incoming'`), 10_000-int64(len(paid))-claimed; n != want || claimed > 4*2*placesEach {
		t.Errorf("%d wait still, and %d are claimed; want %d", n, claimed, want)
	}
	three.SetAway(false)
	b.wantSound()
	lap("to hold all of it against nodes and books")
}

// wantInOrder fails the test unless each was paid under one claim, and what expires first was claimed first: but for what was claimed at
// the same time. It returns what was paid, in the order of the claims.
func (b *bundle) wantInOrder(hashes []paidaction.Hash) (paid []paidaction.Hash) {
	b.Helper()
	rows, err := b.Pool.Query(b.Ctx, `SELECT p.payment_hash FROM relay_attempt a JOIN relay_payment p ON p.id = a.payment_id WHERE a.outcome = 'PAID' ORDER BY a.id`)
	if err != nil {
		b.Fatal(err)
	}
	claimed, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		b.Fatal(err)
	}
	place, worst := map[paidaction.Hash]int{}, 0
	for i, h := range hashes {
		place[h] = i
	}
	for i, raw := range claimed {
		h := paidaction.Hash(raw)
		at, ok := place[h]
		if !ok {
			b.Fatalf("payment %s was paid twice, or cannot have been paid", h)
		}
		delete(place, h)
		paid = append(paid, h)
		worst = max(worst, i-at, at-i)
	}
	b.Logf("no payment left more than %d places from where it stood", worst)
	if together := 4 * 2 * placesEach; worst > 2*together {
		b.Errorf("a payment left %d places from where it stood, and %d are under way at the same time", worst, together)
	}
	return paid
}
