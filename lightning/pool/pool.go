// Package pool hands out the nodes that payments leave through. The holder of a lease has one of the node's slots to
// itself, among all processes that share the lock's store, until the release; then the node rests. The node is chosen
// at random among those that can take the payment now. docs/nodes.md says what is promised.
//
// Leases spread payments, and keep a node from having too many at once. They are not what prevents a double payment:
// the database does that (spec 01 §1.6).
//
//	lease, err := nodes.Acquire(ctx, pool.Need{Amount: amount + feeLimit})
//	if err != nil { return err }
//	outcome := pay(lease.Context(), lease.Node())
//	return lease.Release(ctx, outcome)
package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Config is what a Pool is made of. Nodes, Locker and Register are required; the rest has defaults.
type Config struct {
	Nodes    []Member
	Locker   *lock.Locker // its store decides which processes leases exclude
	Register *Register
	Settings Settings
	Random   rand.Source  // default: a random seed
	Log      *slog.Logger // default slog.Default()
	Metrics  *Metrics     // default: not registered anywhere
}

// Pool leases nodes to the payments of one process (Acquire), and watches how the nodes are. It is safe for concurrent
// use; what has to hold among processes is in the lock and in the Register.
type Pool struct {
	Register *Register
	locker   *lock.Locker
	settings Settings
	log      *slog.Logger
	metrics  *Metrics
	now      func() time.Time

	keptIdle, keptFor time.Duration // as the constants say

	stop       context.CancelFunc
	background sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	order   uint64 // of looks and leases
	random  *rand.Rand
	members []*member
	slots   []*slot // of all members
	waiting []*waiter
	wake    *time.Timer
}

// New makes a pool and begins to look at its nodes. It refuses settings that cannot work, and names that the lock
// cannot tell apart. Close it before the Locker.
func New(c Config) (*Pool, error) {
	if c.Locker == nil || c.Register == nil {
		return nil, errors.New("pool: a locker and a register are needed")
	}
	if err := c.Settings.Check(); err != nil {
		return nil, err
	}
	if c.Random == nil {
		c.Random = rand.NewPCG(rand.Uint64(), rand.Uint64())
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Metrics == nil {
		c.Metrics = NewMetrics(nil)
	}
	p := &Pool{
		Register: c.Register, locker: c.Locker, settings: c.Settings, log: c.Log, metrics: c.Metrics, now: c.Register.now,
		random: rand.New(c.Random), keptIdle: keptIdle, keptFor: keptFor,
	}
	keys := map[string]bool{}
	for _, n := range c.Nodes {
		key, err := lock.Normalise(Key(n.Name, 0))
		if err != nil {
			return nil, fmt.Errorf("lightning node %q: %w", n.Name, err)
		}
		if keys[key] {
			return nil, fmt.Errorf("two lightning nodes are named %q, but for capitals: give each a name of its own", n.Name)
		}
		keys[key] = true
		p.add(n)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	for _, m := range p.members {
		p.background.Go(func() { p.watch(ctx, m) })
	}
	return p, nil
}

func (p *Pool) add(n Member) {
	m := &member{Member: n, kick: make(chan struct{}, 1), looked: make(chan struct{}), leases: map[*Lease]bool{}}
	for i := range n.Slots {
		m.slots = append(m.slots, &slot{member: m, key: Key(n.Name, i)})
	}
	p.members = append(p.members, m)
	p.slots = append(p.slots, m.slots...)
}

// Need is what a payment needs of a node.
type Need struct {
	Amount paidaction.Msat // what it may take from the node, including the fee limit
	Only   string          // only this node; empty: any
	Avoid  []string        // not these
}

// errWaited is the cause that ends a wait after the retry timeout.
var errWaited = errors.New("waited for the retry timeout")

// Acquire leases a node that can take the payment and has a free slot. It waits for one for at most the retry timeout.
// The lease's context ends with ctx. Callers are served in order, as far as a node can serve them.
//
// Errors: LIGHTNING_UNAVAILABLE, with [ErrNoNode] and the reasons as its cause, or without if no such node is
// configured; TRY_AGAIN if the lock or the database is unavailable, since nobody gets a node then; the cause with which
// ctx ended; [ErrClosed].
func (p *Pool) Acquire(ctx context.Context, need Need) (*Lease, error) {
	if need.Amount < 0 {
		return nil, paidaction.Errorf(paidaction.CodeInvalidAmount, "The amount cannot be negative.")
	}
	begun := time.Now()
	lease, err := p.acquire(ctx, need)
	p.metrics.wait.Observe(time.Since(begun).Seconds())
	if none := (*NoNodeError)(nil); errors.As(err, &none) {
		p.metrics.refused.WithLabelValues(cmp.Or(string(none.Reason()), "no_node")).Inc()
	}
	return lease, err
}

func (p *Pool) acquire(ctx context.Context, need Need) (*Lease, error) {
	w := &waiter{ctx: ctx, need: need, since: time.Now(), given: make(chan grant, 1)}
	if err := p.join(w); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, p.settings.RetryTimeout, errWaited)
	defer cancel()
	select {
	case g := <-w.given:
		return g.lease, g.err
	case <-waiting.Done():
	}
	g := p.leave(w)
	if ctx.Err() == nil {
		return g.lease, g.err
	}
	if g.lease != nil {
		return nil, errors.Join(context.Cause(ctx), g.lease.Release(ctx, Outcome{}))
	}
	return nil, context.Cause(ctx)
}

// join puts a waiter at the end of the line. One that no node here could ever serve is refused at once.
func (p *Pool) join(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	asked := p.askedFor(w.need)
	if len(asked) == 0 && w.need.Only != "" {
		return paidaction.Errorf(paidaction.CodeLightningUnavailable, "The Lightning node of this payment is not configured.").
			Because(fmt.Errorf("lightning node %q", w.need.Only))
	}
	now := p.now()
	hope, fit := false, false
	for _, m := range asked {
		r := m.refusal(w.need, &p.settings, now)
		hope = hope || r != Receives && r != Avoided
		fit = fit || r == "" || r == Cooling
	}
	if !hope {
		return p.none(w.need)
	}
	if !fit {
		for _, m := range asked {
			token(m.kick) // the result of the last look may be out of date
		}
	}
	p.waiting = append(p.waiting, w)
	p.arrange()
	return nil
}

// askedFor returns the nodes that a need allows. Called with mu held.
func (p *Pool) askedFor(need Need) []*member {
	if need.Only == "" {
		return p.members
	}
	at := slices.IndexFunc(p.members, func(m *member) bool { return m.Name == need.Only })
	if at < 0 {
		return nil
	}
	return p.members[at : at+1]
}

// none is the refusal if no node could be leased. Called with mu held.
func (p *Pool) none(need Need) error {
	now := p.now()
	why := &NoNodeError{}
	for _, m := range p.askedFor(need) {
		r := m.refusal(need, &p.settings, now)
		if r == "" {
			r = Busy
		}
		why.Nodes = append(why.Nodes, Refusal{Node: m.Name, Reason: r, Detail: m.detail(r)})
	}
	return paidaction.Errorf(paidaction.CodeLightningUnavailable, "No Lightning node can send this payment now. Try again later.").Because(why)
}

// tick is the next moment in the pool's own order of events. Called with mu held.
func (p *Pool) tick() uint64 {
	p.order++
	return p.order
}

// Close ends all waits with [ErrClosed], and stops looking at nodes. Leases that are held stay valid and can be
// released.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.waiting {
		w.given <- grant{err: ErrClosed}
	}
	p.waiting = nil
	p.arrange()
	p.mu.Unlock()
	p.stop()
	p.background.Wait()
}
