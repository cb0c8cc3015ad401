// Package relay is the pipeline of payments that leave: forwards to receivers whose invoices ours wrap, and withdrawals
// (spec 04 §4.3). One row is one payment, and its stage says how far it has come. The relay sends and tracks; the
// engine decides what a payment means for an action, and where money is booked.
//
// The dangers are a payment made twice, and a payment given up while it may still arrive. So a claim is committed
// before anything is sent; it names the node and ends at a fixed moment. A payment has failed only when the node of
// every claim says so (spec 01 §1.6). Begin with Run (work.go), which claims payments and sends them (send.go).
// proceed.go finds out what has become of a payment; witness.go says when a node's word counts for that, claimend.go
// what follows for the claim, and failure.go why a payment is given up. terms.go says beforehand what may be paid.
package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/places"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Nodes are the nodes through which payments leave, by name.
type Nodes interface {
	// Names are all of them, in a fixed order.
	Names() []string
	// Ours are all nodes of ours: these, and those that only issue invoices, which may have sent payments before.
	Ours() []string
	// Sender is the node with this name; an error if none is configured under it.
	Sender(name string) (paidaction.SendingNode, error)
}

// Lease is the right to use one node for one payment.
type Lease interface {
	// Fence grows whenever a place at the node goes to another process.
	Fence() int64
	// Release gives the place back. blame says who was at fault if the payment failed.
	Release(ctx context.Context, blame Blame)
}

// Blame is who was at fault for a failed payment.
type Blame int

// Who can be at fault.
const (
	Unused     Blame = iota // there was no payment
	Nobody                  // it did not fail, or nothing is known of it yet
	TheNode                 // it is down and rests for a while
	ThePayment              // the receiver, the terms, no route in time, too much for the node: another payment may well work
)

// Leases hands out places at nodes.
type Leases interface {
	// Lease waits for a place at this node for as long as the pool's settings say. It wraps ErrNoNode where there is
	// none.
	Lease(ctx context.Context, node string) (Lease, error)
}

// ErrNoNode says that no place at the node is available now.
var ErrNoNode = errors.New("the node takes no payment now")

// Wallets are the receivers' wallets.
type Wallets interface {
	// Has reports whether the receiver has a wallet that can be asked.
	Has(ctx context.Context, receiver int64) (bool, error)
	// Asked reports whether a wallet's owner has neither removed nor disabled it.
	Asked(ctx context.Context, wallet int64) (bool, error)
	// Each calls try with an invoice of every usable wallet of the receiver in turn, until try returns nil. A refusal
	// is logged for the wallet's owner; any other error of try is ours, and ends Each. paidaction.ErrNoReceiver if no
	// wallet is left.
	Each(ctx context.Context, receiver, genesis int64, amount paidaction.Msat, memo string, try func(wallet int64, bolt11 string) error) error
	// Failed notes, in the caller's transaction, that a payment of a wallet's invoice failed.
	Failed(ctx context.Context, q *db.Queries, wallet, genesis int64, reason paidaction.FailureReason) error
	// Address gets an invoice from a lightning address or an LNURL. The error is a refusal, or the end of ctx.
	Address(ctx context.Context, address string, amount paidaction.Msat, comment string) (bolt11 string, err error)
}

// Settings bound what the relay does. The zero value of each field stands for its default.
type Settings struct {
	MaxAttempts   int             // claims of one payment that may have sent it; default 3
	SendWindow    time.Duration   // how long after the claim the send may begin; default 10 s
	Grace         time.Duration   // added to that, for a node that is slow to say what it was given; default 10 s
	SendTimeout   time.Duration   // how long a node tries routes for a withdrawal; default 30 s
	ExpirySlack   time.Duration   // added to a bolt11's expiry, because clocks differ; default 2 min
	AskTimeout    time.Duration   // for a node's answer about a payment; default 10 s
	LookTimeout   time.Duration   // for what a node can answer at once, while somebody waits for an invoice; default 2 s
	MaxWait       time.Duration   // how long a withdrawal waits for a node that can send it; default 1 h
	Audit         time.Duration   // between comparisons with the nodes; default 5 s
	Pause         time.Duration   // before an unsent payment is tried again; default 2 s, doubling up to sixteenfold
	Poll          time.Duration   // between looks for new payments that no wake announced; default 1 s
	Lacking       time.Duration   // how long a node does not get as much as it had no balance for; default 20 s
	ProbeTimeout  time.Duration   // for probing a route; default 5 s
	NoteTimeout   time.Duration   // for PostgreSQL to note a probe; default 5 s
	MaxProbes     int64           // probes to one receiver that are out or hang; default 3
	CrowdedAt     int64           // percent in use of what a node can send from which on it gets no forward; default 50; 100: no bound
	MinOutbound   paidaction.Msat // what a node must be able to send for the pool to lease it at all; default 0
	MinFee        paidaction.Msat // least fee limit of a withdrawal; default 0
	WithdrawLimit paidaction.Msat // the most of one withdrawal, its highest fee included; default 1,000,000 sats
}

// MaxSendWindow is the longest SendWindow that a process may have.
const MaxSendWindow = time.Minute

// DefaultSettings are what the zero value stands for.
func DefaultSettings() Settings { return Settings{}.withDefaults() }

func (s Settings) withDefaults() Settings {
	s.MaxAttempts = cmp.Or(s.MaxAttempts, 3)
	s.SendWindow = cmp.Or(s.SendWindow, 10*time.Second)
	s.Grace = cmp.Or(s.Grace, 10*time.Second)
	s.SendTimeout = cmp.Or(s.SendTimeout, 30*time.Second)
	s.ExpirySlack = cmp.Or(s.ExpirySlack, 2*time.Minute)
	s.AskTimeout = cmp.Or(s.AskTimeout, 10*time.Second)
	s.LookTimeout = cmp.Or(s.LookTimeout, 2*time.Second)
	s.MaxWait = cmp.Or(s.MaxWait, paidaction.MaxWait)
	s.Audit = cmp.Or(s.Audit, 5*time.Second)
	s.Pause = cmp.Or(s.Pause, 2*time.Second)
	s.Poll = cmp.Or(s.Poll, time.Second)
	s.Lacking = cmp.Or(s.Lacking, 20*time.Second)
	s.ProbeTimeout = cmp.Or(s.ProbeTimeout, 5*time.Second)
	s.NoteTimeout = cmp.Or(s.NoteTimeout, 5*time.Second)
	s.MaxProbes = cmp.Or(s.MaxProbes, 3)
	s.CrowdedAt = cmp.Or(s.CrowdedAt, 50)
	s.WithdrawLimit = cmp.Or(s.WithdrawLimit, 1_000_000_000)
	return s
}

// mostDoubled is how often the pause before a payment is tried again doubles.
const mostDoubled = 4

// Latest is the latest moment that a process with a right clock can have written down by now, be it that it claimed a
// payment then, or that one is not sent before. Clocks may differ by a minute. By a later one, which was ahead,
// payments would wait for hours.
func (s Settings) Latest(now time.Time) time.Time { return now.Add(s.Pause<<mostDoubled + time.Minute) }

// Config is what a Relay is made of.
type Config struct {
	Pool     *pgxpool.Pool
	Nodes    Nodes
	Issuers  paidaction.Nodes // the nodes of the outer invoices
	Leases   Leases           // needed where a node sends
	Places   map[string]int   // by node: how many payments it may have in flight; 0: withdrawals may hold all places
	Wallets  Wallets          // nil: nobody is paid directly
	Rules    wrap.Settings
	Settings Settings
	Now      func() time.Time // default time.Now

	// ConfirmClock, if set, says why Now is not to be believed that the time of a payment is over (paidaction.Config).
	ConfirmClock func(ctx context.Context) error

	// Doubted, if set, reports whether the database may lack claims, and since when by Monotonic: then nothing is sent,
	// and nothing given up, while a node that could have the payment is silent, or somebody may yet send by such a
	// claim. since stays when the doubt is over: whoever asked nodes before it may conclude something only now.
	Doubted func() (since time.Time, doubted bool)

	Random  io.Reader    // default crypto/rand
	Log     *slog.Logger // default slog.Default()
	Metrics *Metrics     // default: registered nowhere

	// Monotonic is the clock by which contexts end, and which nobody sets. Nodes are told of the deadlines that are
	// counted from it, so it must also show the time of day. What only this process knows lasts by it: by a clock that
	// is set back it would last for longer. Default time.Now.
	Monotonic func() time.Time

	Beside paidaction.Beside // default paidaction.InGoroutine

	// Wait, if not nil, is called before somebody waits for others' probes or claims. It returns once still is false or
	// ctx has ended (paidaction.Hooks).
	Wait func(ctx context.Context, still func() bool)

	// Conflict is called when the database broke a transaction (paidaction.Hooks). May be nil.
	Conflict func(code string)

	// Trace begins a span for the work on an action whose payment was claimed; done ends it. nil: no spans.
	Trace func(ctx context.Context, action int64) (_ context.Context, done func())
}

// Relay sends and tracks payments (Run), and answers the engine about them (it implements paidaction.Relay). It is safe
// for concurrent use, and any number of relays may work on one database.
type Relay struct {
	Config
	wakes     map[string]chan struct{} // by node: there may be something to send
	fresh     map[string]chan struct{} // by node: there certainly is
	turn      atomic.Uint32            // which node's fresh is signalled next
	claiming  map[string]*claimingNow  // by node
	lacks     map[string]*lack         // by node
	shares    map[string]*share        // by node
	crowds    map[string]*crowd        // by node
	outbounds map[string]*outbound     // by node
	probing   *places.Shares           // by receiver: how many probes of this process may be out
	back      sync.Map                 // by number: probes that came back, which is not noted yet
	hung      sync.Map                 // by node: until when, by Monotonic, nobody who waits for an invoice asks it

	// heard holds, by action, the latest outcome of a payment that this process follows, once the preimage is known:
	// nobody needs to ask the node again.
	heard sync.Map
}

var _ paidaction.Relay = (*Relay)(nil)

// New makes a relay. It does nothing by itself until Run.
func New(c Config) (*Relay, error) {
	if c.Pool == nil || c.Nodes == nil || c.Issuers == nil {
		return nil, errors.New("relay: a database pool and nodes are needed")
	}
	c.Settings = c.Settings.withDefaults()
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.ConfirmClock == nil {
		c.ConfirmClock = func(context.Context) error { return nil }
	}
	if c.Doubted == nil {
		c.Doubted = func() (time.Time, bool) { return time.Time{}, false }
	}
	if c.Monotonic == nil {
		c.Monotonic = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	if c.Beside == nil {
		c.Beside = paidaction.InGoroutine
	}
	if c.Trace == nil {
		c.Trace = func(ctx context.Context, _ int64) (context.Context, func()) { return ctx, func() {} }
	}
	r := &Relay{Config: c, wakes: map[string]chan struct{}{}, fresh: map[string]chan struct{}{}, claiming: map[string]*claimingNow{},
		lacks: map[string]*lack{}, shares: map[string]*share{}, crowds: map[string]*crowd{}, outbounds: map[string]*outbound{},
		probing: places.New(int(c.Settings.MaxProbes))}
	for _, name := range c.Nodes.Names() {
		r.wakes[name], r.fresh[name], r.claiming[name] = make(chan struct{}, 1), make(chan struct{}, 1), &claimingNow{}
		r.lacks[name], r.shares[name], r.crowds[name] = &lack{}, &share{most: MostWithdrawals(c.Places[name])}, &crowd{}
		r.outbounds[name] = &outbound{}
	}
	for _, name := range c.Nodes.Ours() {
		// Prometheus sees no increase in a number that begins with the first loss.
		c.Metrics.lost.WithLabelValues(name)
	}
	return r, nil
}

// now is the injected time in the precision of the database.
func (r *Relay) now() time.Time { return r.Now().UTC().Truncate(time.Microsecond) }

// Wake implements paidaction.Relay. It tells one node, in rotation, that there certainly is a payment, so that its
// worker need not look first. The others look, and find what that node cannot send.
func (r *Relay) Wake() {
	names, turn := r.Nodes.Names(), r.turn.Add(1)
	for i, name := range names {
		if i != int(turn)%len(names) || !signal(r.fresh[name]) {
			signal(r.wakes[name])
		}
	}
}

// lookAgain tells the workers of this process to look.
func (r *Relay) lookAgain() {
	for _, w := range r.wakes {
		signal(w)
	}
}

// signal leaves a token. It returns false if one is there already.
func signal(to chan struct{}) bool {
	select {
	case to <- struct{}{}:
		return true
	default:
		return false
	}
}

// inTx runs do in one transaction, and runs it again where PostgreSQL breaks it; do must therefore keep nothing from a
// failed run. The relay's transactions lock one payment, and nothing after it. If one fails otherwise, or the outcome
// of its commit is unknown, the auditor's next look at the payment finds out.
func (r *Relay) inTx(ctx context.Context, do func(q *db.Queries) error) error {
	err := db.Repeat(ctx, r.Random, r.Conflict, func() error {
		return db.InTransaction(ctx, r.Pool, func(tx *db.Transaction) error { return do(db.New(tx)) })
	})
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	return nil
}
