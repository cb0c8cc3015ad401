package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// house is a world in which processes hear of what a node does only when they are told, as often and in the order that the house
// chooses.
type house struct {
	*enginetest.World
	author, payer, item int64
	wallet              *enginetest.Wallet
	times               int // that each event is delivered in a round, over all processes
	processes           []*process
	stop                func()

	mu      sync.Mutex
	random  *rand.Rand
	invoice []paidaction.InvoiceEvent // all that the node's streams have told
	heights []uint32
	heard   map[string]bool          // kinds of events that were delivered
	old     int                      // invoices of the node that are of earlier stories
	over    map[paidaction.Hash]bool // payments that were heard of: true for those of earlier stories
}

// process is an engine, its relay, a worker and a listener: each its own, on the same database.
type process struct {
	house    *house
	worker   *worker.Worker
	listener *worker.Listener
}

// mute are streams that say nothing: the house delivers.
type mute struct{}

func (mute) WatchInvoices(context.Context, uint64, uint64, func(paidaction.InvoiceEvent) error) error {
	return nil
}
func (mute) WatchInvoice(context.Context, paidaction.Hash, func(paidaction.InvoiceEvent) error) error {
	return nil
}
func (mute) WatchBlocks(context.Context, func(uint32) error) error { return nil }

// open makes a house with so many processes, in which a post has been written.
func open(t testing.TB, processes, times int, seed uint64) *house {
	t.Helper()
	h := &house{World: enginetest.New(t, paidaction.Settings{}), times: times, random: rand.New(rand.NewPCG(seed, seed)), heard: map[string]bool{},
		over: map[paidaction.Hash]bool{}}
	h.author, h.payer = h.User("author", 100_000, 0), h.User("payer", 0, 0)
	h.item, h.wallet = h.Post(h.author, "a post"), h.Wallets.Add(h.author)
	h.Drain()
	// What a step does is counted, also where it changes nothing that is seen.
	h.exec(`CREATE TABLE test_effect (what text);
		CREATE FUNCTION nth(action bigint) RETURNS bigint LANGUAGE sql AS 'SELECT nullif(count(*), 0) FROM paid_action WHERE id <= action';
		CREATE FUNCTION test_effect() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO test_effect VALUES (concat_ws('' '', TG_TABLE_NAME, TG_OP, NEW.state)); RETURN NULL; END';
		CREATE TRIGGER test_effect AFTER INSERT OR UPDATE ON zap FOR EACH ROW EXECUTE FUNCTION test_effect();
		CREATE TRIGGER test_effect AFTER INSERT OR UPDATE ON donation FOR EACH ROW EXECUTE FUNCTION test_effect()`)
	ctx, cancel := context.WithCancel(h.Ctx)
	var all sync.WaitGroup
	h.stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(h.stop)
	for range processes {
		all.Go(h.enters(ctx))
	}
	all.Go(func() { _ = h.Node.WatchInvoices(ctx, 0, 0, h.tells) })
	all.Go(func() { _ = h.Node.WatchBlocks(ctx, h.tellsHeight) })
	return h
}

func (h *house) exec(sql string, args ...any) {
	h.Helper()
	if _, err := h.Pool.Exec(h.Ctx, sql, args...); err != nil {
		h.Fatal(err)
	}
}

// enters adds a process. Its relay runs in the function that is returned.
func (h *house) enters(ctx context.Context) (run func()) {
	h.Helper()
	r := h.NewRelay(func(c *relay.Config) {
		c.Nodes = repeated{h.Nodes, h}
		c.Settings.SendWindow = relay.MaxSendWindow // on a busy machine a shorter one runs out, and a claim comes to nothing
	})
	config := h.Engine.Config
	config.Relay = r
	engine, err := paidaction.New(config)
	if err != nil {
		h.Fatal(err)
	}
	c := worker.Config{Pool: h.Pool, Engine: engine, Jobs: config.Jobs, Log: slog.New(slog.DiscardHandler)}
	p := &process{house: h}
	if p.worker, err = worker.New(c); err != nil {
		h.Fatal(err)
	}
	if p.listener, err = worker.NewListener(c, h.Node.Name(), mute{}); err != nil {
		h.Fatal(err)
	}
	h.processes = append(h.processes, p)
	return func() { _ = r.Run(ctx, engine.Advance) }
}

func (h *house) tells(e paidaction.InvoiceEvent) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.invoice = append(h.invoice, e)
	return nil
}

func (h *house) tellsHeight(height uint32) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heights = append(h.heights, height)
	return nil
}

// follows opens the node's stream of one invoice: what is held, and what goes back, is told there alone.
func (h *house) follows(pa *paidaction.PaidAction) {
	if pa.Invoice != nil {
		go func() { _ = h.Node.WatchInvoice(h.Ctx, pa.Invoice.Hash, h.tells) }()
		h.await("the invoice's stream", func() bool { // it begins with the present state: what comes next is not missed
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.ContainsFunc(h.invoice, func(e paidaction.InvoiceEvent) bool { return e.Hash == pa.Invoice.Hash })
		})
	}
}

// awaitTold waits until the streams have told how every invoice stands, and how high the chain is.
func (h *house) awaitTold() {
	h.Helper()
	h.await("the node's streams", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, inv := range h.Node.Invoices()[h.old:] {
			if !slices.ContainsFunc(h.invoice, func(e paidaction.InvoiceEvent) bool { return e.Hash == inv.Request.Hash && e.State == inv.State }) {
				return false
			}
		}
		return slices.Contains(h.heights, h.Node.Height())
	})
}

func (h *house) await(what string, holds func() bool) {
	h.Helper()
	limit, tick := time.NewTimer(3*time.Minute), time.NewTicker(2*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			h.Fatalf("waited in vain: %s", what)
		}
	}
}

// chance is a source of its own for one goroutine.
func (h *house) chance() *rand.Rand {
	h.mu.Lock()
	defer h.mu.Unlock()
	return rand.New(rand.NewPCG(h.random.Uint64(), 0))
}

// deck is each event so many times, in any order.
func deck[T any](events []T, times int, chance *rand.Rand) []T {
	all := slices.Repeat(events, times)
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// burst is how many of the latest blocks are told again: a listener looks at no older ones while newer ones wait.
const burst = 2

// round delivers all that was ever told to the processes, old and new, while they do their jobs: all at once, and each process every
// job, though another one does it too.
func (h *house) round() {
	h.Helper()
	h.awaitTold()
	jobs := h.due()
	h.mu.Lock()
	for _, e := range h.invoice {
		h.heard[string(e.State)] = true
	}
	invoices, heights := slices.Clone(h.invoice), slices.Clone(h.heights[max(0, len(h.heights)-burst):])
	h.mu.Unlock()
	invoices, heights = deck(invoices, h.times, h.chance()), deck(heights, h.times, h.chance())
	again := make([]map[int64]bool, len(h.processes))
	var all sync.WaitGroup
	for i, p := range h.processes {
		mine, blocks := share(invoices, i, len(h.processes)), share(heights, i, len(h.processes))
		all.Go(func() { p.hears(mine, h.chance()) })
		all.Go(func() { p.sees(blocks) })
		all.Go(func() { again[i] = p.works(deck(jobs, 1, h.chance())) })
	}
	all.Wait()
	for _, j := range jobs {
		if !slices.ContainsFunc(again, func(a map[int64]bool) bool { return a[j.id] }) {
			h.exec(`DELETE FROM test_job WHERE id = $1`, j.id)
		}
	}
}

// share is every n-th, from the i-th on.
func share[T any](all []T, i, n int) (mine []T) {
	for ; i < len(all); i += n {
		mine = append(mine, all[i])
	}
	return mine
}

// hears is told of invoices, in batches of any size.
func (p *process) hears(events []paidaction.InvoiceEvent, chance *rand.Rand) {
	for len(events) > 0 {
		n := 1 + chance.IntN(min(len(events), 8))
		if err := p.listener.OnInvoices(p.house.Ctx, events[:n]); err != nil {
			p.house.Error(err)
		}
		events = events[n:]
	}
}

func (p *process) sees(heights []uint32) {
	for _, height := range heights {
		if err := p.listener.OnHeight(p.house.Ctx, height); err != nil {
			p.house.Error(err)
		}
	}
}

type job struct {
	paidaction.Job
	id int64
}

func (h *house) due() []job {
	h.Helper()
	rows, err := h.Pool.Query(h.Ctx, `SELECT id, kind, action FROM test_job WHERE at <= $1 ORDER BY id`, h.Clock.Now())
	if err != nil {
		h.Fatal(err)
	}
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (j job, err error) {
		return j, row.Scan(&j.id, &j.Kind, &j.Action)
	})
	if err != nil {
		h.Fatal(err)
	}
	return jobs
}

// works does jobs, and returns those that have to be done again.
func (p *process) works(jobs []job) map[int64]bool {
	again := map[int64]bool{}
	for _, j := range jobs {
		again[j.id] = p.worker.Do(p.house.Ctx, j.Job, 0) > 0
	}
	return again
}

// until has rounds until the action has come to a state.
func (h *house) until(pa *paidaction.PaidAction, want paidaction.State) {
	h.Helper()
	h.await("an action in "+string(want), func() bool {
		h.round()
		return h.Count(`SELECT count(*) FROM action_history WHERE action_id = $1 AND to_state = $2`, pa.ID, want) > 0
	})
}

// rest has rounds until nobody has anything left to do, and one more in which everything is old. Then what was told is forgotten.
// It returns the kinds of events that there were.
func (h *house) rest() (heard string) {
	h.Helper()
	quiet := func() bool {
		h.round()
		return len(h.due()) == 0 && h.Count(`SELECT count(*) FROM relay_payment WHERE stage NOT IN ('completed', 'failed')`) == 0
	}
	h.await("nothing under way", quiet)
	h.await("nothing under way", quiet)
	h.mu.Lock()
	defer h.mu.Unlock()
	heard = strings.Join(slices.Sorted(maps.Keys(h.heard)), " ")
	for hash := range h.over {
		h.over[hash] = true
	}
	h.invoice, h.heard, h.old = nil, map[string]bool{}, len(h.Node.Invoices())
	return heard
}

// account is all that has come of it, but for times, hashes and running numbers.
func (h *house) account() (all []string) {
	h.Helper()
	for _, query := range []string{
		`SELECT concat_ws(' ', 'history', nth(action_id), from_state, to_state, fact) FROM action_history ORDER BY action_id, id`,
		`SELECT concat_ws(' ', 'action', nth(id), kind, state, attempt, nth(successor_id), failure_code) FROM paid_action ORDER BY id`,
		`SELECT concat_ws(' ', 'posting', nth(action_id), from_account, to_account, msat, reason) AS x FROM posting ORDER BY x`,
		`SELECT concat_ws(' ', 'balance', id, balance) FROM account WHERE balance <> 0 ORDER BY id`,
		`SELECT concat_ws(' ', 'delta', account_id, msat) AS x FROM balance_delta ORDER BY x`,
		`SELECT concat_ws(' ', 'effect', what) AS x FROM test_effect ORDER BY x`,
		`SELECT concat_ws(' ', 'item', item_id, msat, comment_msat, upvotes, vote_micros) AS x FROM item_delta ORDER BY x`,
		`SELECT concat_ws(' ', 'vote', nth(action_id), micros) FROM vote_event ORDER BY action_id`,
		`SELECT concat_ws(' ', 'told', user_id, kind, nth(action_id), item_id) AS x FROM notification ORDER BY x`,
		`SELECT concat_ws(' ', 'received', nth(action_id), received_msat) FROM invoice ORDER BY action_id`,
		`SELECT concat_ws(' ', 'outgoing', nth(action_id), stage, attempts, fee_msat) FROM relay_payment ORDER BY action_id`,
		`SELECT concat_ws(' ', 'claim', payment_id, outcome) FROM relay_attempt ORDER BY id`,
	} {
		rows, err := h.Pool.Query(h.Ctx, query)
		if err != nil {
			h.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			h.Fatal(err)
		}
		all = append(all, lines...)
	}
	for _, inv := range h.Node.Invoices() {
		all = append(all, "the node's invoice is "+string(inv.State))
	}
	all = append(all, fmt.Sprintf("the wallet failed %d times", h.Wallets.Failures(h.wallet.ID, h.Count(`SELECT min(id) FROM paid_action WHERE kind <> 'ITEM_CREATE'`))))
	for _, sent := range h.Node.Payments() {
		all = append(all, "the node's payment is "+string(sent.Present.State))
	}
	return all
}

// wantSound fails the test unless every invariant holds.
func (h *house) wantSound() { h.Helper(); h.WantSound() }

// repeated are nodes whose word on a payment comes again and again, the old one too.
type repeated struct {
	simnode.Nodes
	house *house
}

func (r repeated) Sender(name string) (paidaction.SendingNode, error) {
	n, err := r.Nodes.Sender(name)
	return repeatedNode{n, r.house}, err
}

type repeatedNode struct {
	paidaction.SendingNode
	house *house
}

func (n repeatedNode) Pay(ctx context.Context, r paidaction.PaymentRequest, on func(paidaction.PaymentUpdate) error) error {
	inv, err := n.SendingNode.DecodeInvoice(ctx, r.Bolt11)
	if err != nil {
		return err
	}
	return n.SendingNode.Pay(ctx, r, n.house.again(inv.Hash, on))
}

func (n repeatedNode) TrackPayment(ctx context.Context, hash paidaction.Hash, on func(paidaction.PaymentUpdate) error) error {
	return n.SendingNode.TrackPayment(ctx, hash, n.house.again(hash, on))
}

// again hands on all updates that came so far. Of a payment of an earlier story some may still come: who follows it is told its end once more.
func (h *house) again(hash paidaction.Hash, on func(paidaction.PaymentUpdate) error) func(paidaction.PaymentUpdate) error {
	var updates []paidaction.PaymentUpdate
	return func(u paidaction.PaymentUpdate) error {
		updates = append(updates, u)
		h.mu.Lock()
		if !h.over[hash] {
			h.over[hash], h.heard["payment "+string(u.State)] = false, true
		}
		h.mu.Unlock()
		for _, u := range deck(updates, h.times, h.chance()) {
			if err := on(u); err != nil {
				return err
			}
		}
		return nil
	}
}

// zap begins a zap of a hundred sats, of the post or by its author's wallet.
func (h *house) zap(method paidaction.Method) *paidaction.PaidAction {
	h.Helper()
	return h.Pay(h.payer, community.KindZap, community.ZapArgs{Item: h.item, Sats: 100}, method)
}
