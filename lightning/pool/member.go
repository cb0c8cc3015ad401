package pool

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Member is a node of the pool.
type Member struct {
	Name  string // the name that rows refer to it by
	Node  paidaction.SendingNode
	Slots int // at most so many payments in flight; 0: it is watched, and gets none
}

// member is a node and what this process knows of it. The pool's mu guards what changes.
type member struct {
	Member
	slots  []*slot
	kick   chan struct{} // holds a token when the node should be looked at soon
	looked chan struct{} // closed after the first look

	silent error // why it did not answer when it was last asked
	chain  paidaction.Chain

	met    bool // the register has compared its key
	record db.LightningNode

	measured    bool            // it has said what it can send
	asked       uint64          // when the look began in which it last said so, in the pool's order
	outbound    paidaction.Msat // what it said then
	promised    paidaction.Msat // of outbound, to payments since
	unknowns    int             // looks in a row in which it did not say
	lastUnknown error

	cooling       time.Time // it rests until then, if that counts (Settings.Rests)
	coolingReason string

	leases map[*Lease]bool
	alarm  Reason // the last one that was raised
}

// answer is what a node says in one look.
type answer struct {
	key      string
	chain    paidaction.Chain
	outbound paidaction.Msat
	silent   error // it did not answer
	unknown  error // it did not say what it can send
}

// ask asks the node everything.
func (m *member) ask(ctx context.Context) (a answer) {
	if a.chain, a.silent = m.Node.Chain(ctx); a.silent == nil {
		a.key, a.silent = m.Node.PublicKey(ctx)
	}
	a.unknown = a.silent
	if a.silent == nil && m.Slots > 0 {
		a.outbound, a.unknown = m.Node.Sendable(ctx)
	}
	return a
}

// watch looks at the node from time to time, and soon after it is kicked, until ctx ends. Only this goroutine asks the
// node, and nobody waits for the answer: a node that hangs holds up nothing else.
func (p *Pool) watch(ctx context.Context, m *member) {
	p.look(ctx, m)
	close(m.looked)
	for p.pause(ctx, m) {
		p.look(ctx, m)
	}
}

// pause waits until it is time to look again. It returns false if ctx has ended.
func (p *Pool) pause(ctx context.Context, m *member) bool {
	soonest := time.NewTimer(p.settings.Probe / 20)
	defer soonest.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-soonest.C: // however often it is kicked
	}
	latest := time.NewTimer(p.settings.Probe - p.settings.Probe/20 + p.jitter())
	defer latest.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-latest.C:
	case <-m.kick:
	}
	return true
}

// look asks the node and the register, and then lets the line go on: payments may have waited for the answers.
func (p *Pool) look(ctx context.Context, m *member) {
	p.mu.Lock()
	begun := p.tick()
	p.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, p.settings.ProbeTimeout)
	said := m.ask(limited)
	cancel()
	if ctx.Err() != nil {
		return // the pool is closed: that says nothing about the node
	}
	record, err := p.Register.Meet(ctx, m.Name, said.key)
	if err != nil {
		p.log.WarnContext(ctx, "it is not known what other processes and operators say of a node", "node", m.Name, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m.learn(said, begun)
	switch {
	case err == nil:
		m.met = true
		p.remember(m, record)
	case said.key != "" && said.key != last(m.record):
		m.met = false // it may be another node, and its key has not been compared
	}
	p.arrange()
}

// learn stores what the node said in the look that began at begun. Called with the pool's mu held, as are remember and
// cool.
func (m *member) learn(a answer, begun uint64) {
	m.silent, m.chain = a.silent, a.chain
	if a.unknown != nil {
		m.unknowns++
		m.lastUnknown = a.unknown
		return
	}
	m.unknowns, m.lastUnknown, m.measured = 0, nil, true
	m.asked, m.outbound, m.promised = begun, a.outbound, 0
	for lease := range m.leases {
		if lease.begun > begun {
			m.promised += lease.amount // the node may not have known of it when it was asked
		}
	}
}

// remember stores what the register says.
func (p *Pool) remember(m *member, record db.LightningNode) {
	m.record = record
	if record.CoolingUntil != nil {
		p.cool(m, *record.CoolingUntil, record.CoolingReason)
	}
}

// cool stores that a node rests. Of two rests that count, the one that ends later does.
func (p *Pool) cool(m *member, until time.Time, reason string) {
	now := p.now()
	if p.settings.Rests(until, now) && (until.After(m.cooling) || !p.settings.Rests(m.cooling, now)) {
		m.cooling, m.coolingReason = until, reason
	}
}

// jitter is a random pause.
func (p *Pool) jitter() time.Duration {
	return time.Duration(rand.Float64() * float64(p.settings.Jitter))
}

// token puts a token into the channel, unless it holds one.
func token(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
