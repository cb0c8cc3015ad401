package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Wallets are the receivers' wallets. Each issues invoices of a simulated receiver, as a test wants them. Real wallets
// and their protocols are tested in package wallet.
type Wallets struct {
	Counting func(wallet, genesis int64) // called before a failed payment is counted

	network *simnode.Network

	mu       sync.Mutex
	wallets  []*Wallet
	failures map[[2]int64]int // by wallet and genesis
}

// Wallet is a receiver's wallet.
type Wallet struct {
	ID       int64
	Owner    int64
	Receiver *simnode.Receiver
	Ask      simnode.Ask // what its invoices are like, except for the amount, which is what was asked for
	Err      error       // returned instead of an invoice
	Same     string      // returned instead of a new invoice
	Issued   []simnode.Issued
	Said     []error // what it was told of its invoices
	Before   func()  // called while it is asked
	Gone     bool    // removed: it is not asked any more
	Hangs    bool    // it does not answer

	mu sync.Mutex // guards Issued and Said while it is asked
}

func newWallets(network *simnode.Network) *Wallets {
	return &Wallets{network: network, failures: map[[2]int64]int{}}
}

// Add gives a user one more wallet.
func (ws *Wallets) Add(owner int64) *Wallet {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	id := int64(len(ws.wallets) + 1)
	w := &Wallet{ID: id, Owner: owner, Receiver: ws.network.AddReceiver(fmt.Sprintf("receiver %d", id))}
	ws.wallets = append(ws.wallets, w)
	return w
}

// Last is the newest invoice of the wallet.
func (w *Wallet) Last() simnode.Issued { return w.Issued[len(w.Issued)-1] }

// Has implements relay.Wallets.
func (ws *Wallets) Has(_ context.Context, owner int64) (bool, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.wallets {
		if w.Owner == owner && !w.Gone {
			return true, nil
		}
	}
	return false, nil
}

// Asked implements relay.Wallets.
func (ws *Wallets) Asked(_ context.Context, wallet int64) (bool, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return !ws.wallets[wallet-1].Gone, nil
}

// Each implements relay.Wallets.
func (ws *Wallets) Each(ctx context.Context, owner, genesis int64, amount paidaction.Msat, memo string, try func(int64, string) error) error {
	ws.mu.Lock()
	wallets := append([]*Wallet(nil), ws.wallets...)
	slices.SortStableFunc(wallets, func(x, y *Wallet) int {
		return cmp.Compare(ws.failures[[2]int64{x.ID, genesis}], ws.failures[[2]int64{y.ID, genesis}])
	})
	ws.mu.Unlock()
	for _, w := range wallets {
		ws.mu.Lock()
		failed := ws.failures[[2]int64{w.ID, genesis}]
		ws.mu.Unlock()
		if w.Owner != owner || w.Gone || failed >= 2 {
			continue
		}
		if w.Hangs {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		bolt11, err := w.invoice(amount, memo)
		if err == nil {
			err = try(w.ID, bolt11)
			if _, refusal := paidaction.AsRefusal(err); err != nil && !refusal {
				return err
			}
		}
		w.mu.Lock()
		w.Said = append(w.Said, err)
		w.mu.Unlock()
		if err == nil {
			return nil
		}
	}
	return paidaction.ErrNoReceiver
}

func (w *Wallet) invoice(amount paidaction.Msat, memo string) (string, error) {
	if w.Before != nil {
		w.Before()
	}
	if w.Err != nil || w.Same != "" {
		return w.Same, w.Err
	}
	ask := w.Ask
	ask.Amount, ask.Memo = amount+ask.Amount, memo
	issued := w.Receiver.Issue(ask)
	w.mu.Lock()
	w.Issued = append(w.Issued, issued)
	w.mu.Unlock()
	return issued.Bolt11, nil
}

// Failed implements relay.Wallets.
func (ws *Wallets) Failed(_ context.Context, _ *db.Queries, wallet, genesis int64, _ paidaction.FailureReason) error {
	if ws.Counting != nil {
		ws.Counting(wallet, genesis)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.failures[[2]int64{wallet, genesis}]++
	return nil
}

// Failures is how many payments to a wallet failed, over all attempts of one action.
func (ws *Wallets) Failures(wallet, genesis int64) int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.failures[[2]int64{wallet, genesis}]
}

// Address implements relay.Wallets: the address of a user is their number.
func (ws *Wallets) Address(_ context.Context, address string, amount paidaction.Msat, memo string) (string, error) {
	nobody := paidaction.Errorf(paidaction.CodeInvalidInput, "Nobody has this address.")
	var owner int64
	if _, err := fmt.Sscanf(address, "%d@", &owner); err != nil {
		return "", nobody
	}
	for _, w := range ws.wallets {
		if w.Owner == owner {
			return w.invoice(amount, memo)
		}
	}
	return "", nobody
}

// places are unlimited leases.
type places struct{}

func (places) Lease(context.Context, string) (relay.Lease, error) { return place{}, nil }

type place struct{}

func (place) Fence() int64                         { return 1 }
func (place) Release(context.Context, relay.Blame) {}

// NewRelay is the relay of another process on the same database, with a test's changes.
func (w *World) NewRelay(change ...func(*relay.Config)) *relay.Relay {
	w.Helper()
	config := relay.Config{Pool: w.Pool, Nodes: w.Nodes, Issuers: w.Nodes, Leases: places{}, Wallets: w.Wallets, Now: w.Clock.Now,
		Log: quiet, Settings: relay.Settings{Poll: 20 * time.Millisecond, Audit: 20 * time.Millisecond, Pause: 20 * time.Millisecond}}
	for _, c := range change {
		c(&config)
	}
	r, err := relay.New(config)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// Run runs a relay as one process would. stop is the death of that process, and returns once nothing of it runs any
// more.
func (w *World) Run(r *relay.Relay) (stop func()) {
	ctx, cancel := context.WithCancel(w.Ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = r.Run(ctx, w.Engine.Advance) })
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	w.Cleanup(stop)
	return stop
}

// changes wakes those who wait for an action.
type changes struct {
	mu   sync.Mutex
	next chan struct{}
}

func (c *changes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

func (c *changes) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Await waits until the action is in a state.
func (w *World) Await(id int64, want paidaction.State) *paidaction.PaidAction {
	w.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		changed := w.signal.wait()
		pa := w.Look(id)
		if pa.State == want {
			return pa
		}
		if pa.State.Terminal() && want != paidaction.Retrying {
			w.Fatalf("action %d is %s (%v), want %s", id, pa.State, pa.Failure, want)
		}
		select {
		case <-changed:
		case <-limit.C:
			w.Fatalf("action %d is still %s, want %s", id, pa.State, want)
		}
	}
}

// AwaitLeft waits until the action has left a state, whatever its state is then.
func (w *World) AwaitLeft(id int64, left paidaction.State) {
	w.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		changed := w.signal.wait()
		if w.Look(id).State != left {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			w.Fatalf("action %d is still %s", id, left)
		}
	}
}

// AwaitBlocked waits until so many of the database's transactions wait for locks.
func (w *World) AwaitBlocked(many int) {
	w.Helper()
	limit, tick := time.NewTimer(time.Minute), time.NewTicker(5*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for {
		n := w.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		if n >= int64(many) {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			var doing string
			err := w.Pool.QueryRow(w.Ctx, `SELECT coalesce(string_agg(format('%s, %s %s: %s', state, wait_event_type, wait_event, left(query, 100)), E'\n'), '')
				FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&doing)
			w.Fatalf("%d transactions wait for locks, want %d; the connections (%v):\n%s", n, many, err, doing)
		}
	}
}

// AwaitStage waits until an action's outgoing payment is in a stage. It polls, because a stage can change without the
// action.
func (w *World) AwaitStage(id int64, want string) db.RelayPayment {
	w.Helper()
	limit, tick := time.NewTimer(time.Minute), time.NewTicker(5*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for {
		row, err := db.New(w.Pool).GetRelay(w.Ctx, id)
		if err == nil && row.Stage == want {
			return row
		}
		select {
		case <-tick.C:
		case <-limit.C:
			w.Fatalf("the payment of action %d is %s (%v), want %s", id, row.Stage, err, want)
		}
	}
}

// AwaitShown waits until a node has shown an action's outgoing payment. It polls as AwaitStage does.
func (w *World) AwaitShown(id int64) {
	w.Helper()
	limit, tick := time.NewTimer(time.Minute), time.NewTicker(5*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	for w.Count(`SELECT count(*) FROM relay_attempt a JOIN relay_payment p ON p.id = a.payment_id WHERE p.action_id = $1 AND a.seen`, id) == 0 {
		select {
		case <-tick.C:
		case <-limit.C:
			w.Fatalf("no node has shown the payment of action %d", id)
		}
	}
}
