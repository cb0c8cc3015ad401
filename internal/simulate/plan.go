package simulate

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// plan is what people mean to do in a seed, and what befalls the world: everything that does not depend on the course
// of events.
type plan struct {
	seed    uint64
	trouble float64 // how often something goes wrong at a yield point
	people  []person
	items   []item
	acts    []*act
	strokes []stroke
	horizon time.Duration // after this nothing new begins, and nothing goes wrong

	territories []rental
	aim         *aim // nil: none
	again       bool // what failed is withdrawn again
	outlasts    bool // and payments of it, and those who look after them, last longer than claims and invoices
}

// person is a user. The first one stands for the anonymous.
type person struct {
	credits, sats int64 // msat at the beginning
	wallets       int
}

// item is an item that exists from the beginning. A comment is below the item before it.
type item struct {
	kind      string
	author    int // 0: anonymous
	forwards  map[int]int
	territory bool
}

// rental is a territory that exists from the beginning. The first person has founded it.
type rental struct {
	name    string
	billing string        // empty: paid for before there were periods
	due     time.Duration // after the start of the seed; negative: before it, and the territory is stopped
	renews  bool
}

// act is one thing that a person means to do, with all that they do about it afterwards.
type act struct {
	id     int
	at     time.Duration
	who    int
	kind   *kind
	method paidaction.Method // empty: the action's own order
	draw   uint64            // what the kind makes its arguments of
	keyed  bool              // with an idempotency key: the request is repeated until it is answered
	twice  bool              // asks twice at once
	rush   bool              // asks the same process as the other acts of the rush
	again  bool              // withdraws what was withdrawn before

	pays     payment
	cancels  time.Duration // after asking; 0: never; negative: that long before the invoice expires
	retries  int
	together bool // two retries at once
}

// payment is how a payer pays.
type payment struct {
	never    bool
	after    time.Duration
	atExpiry bool
	over     int64 // msat too much
	parts    int
	soon     bool // with few blocks left
}

// stroke is something that befalls the world.
type stroke struct {
	id    int
	at    time.Duration
	fault Fault
	node  int
	who   int // process
	takes time.Duration
	size  uint32
	off   time.Duration // by how much a clock is wrong
}

const (
	processes = 3
	theNodes  = 2
)

// newPlan draws the plan of a seed.
func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 7))
	p := &plan{seed: seed, horizon: time.Duration(8+r.IntN(14)) * time.Minute}
	p.trouble = []float64{0, 0.01, 0.02, 0.04, 0.04, 0.08, 0.15}[r.IntN(7)]
	p.people = append(p.people, person{})
	for range 1 + r.IntN(3) {
		p.people = append(p.people, person{
			credits: []int64{0, 300_000, 5_000_000, 50_000_000}[r.IntN(4)], sats: []int64{0, 300_000, 5_000_000, 50_000_000}[r.IntN(4)],
			wallets: []int{0, 0, 1, 2}[r.IntN(4)],
		})
	}
	for i, kind := range []string{"POST", "POLL", "BOUNTY", "COMMENT"} {
		it := item{kind: kind, author: i % len(p.people), territory: r.IntN(3) == 0, forwards: map[int]int{}}
		if kind == "BOUNTY" && it.author == 0 {
			it.kind = "POST" // the anonymous cannot promise a bounty
		}
		if r.IntN(2) == 0 {
			if to := 1 + r.IntN(len(p.people)-1); to != it.author {
				it.forwards[to] = 1 + r.IntN(100)
			}
		}
		p.items = append(p.items, it)
	}
	p.territories = []rental{{name: landName}, {name: stoppedName, billing: "MONTHLY", due: -10 * 24 * time.Hour},
		{name: dueName, billing: "MONTHLY", due: time.Duration(r.Int64N(int64(p.horizon))).Truncate(time.Second), renews: r.IntN(2) == 0}}
	p.drawActs(r)
	p.drawStrokes(r)
	p.drawRare()
	p.drawLoss()
	p.drawLostNode()
	p.takeAim()
	p.drawRush()
	p.drawAgain()
	return p
}

// drawActs has people act in bursts, so that they get in each other's way.
func (p *plan) drawActs(r *rand.Rand) {
	var bursts []time.Duration
	for range 4 + r.IntN(4) {
		bursts = append(bursts, time.Duration(r.Int64N(int64(p.horizon*7/10))))
	}
	var lots []*kind
	for _, k := range kinds {
		lots = append(lots, slices.Repeat([]*kind{k}, k.weight)...)
	}
	for id := 1; id <= 18+r.IntN(8); id++ {
		a := &act{id: id, kind: lots[r.IntN(len(lots))], draw: r.Uint64(),
			at: bursts[r.IntN(len(bursts))] + time.Duration(r.Int64N(int64(80*time.Millisecond)))}
		a.who = r.IntN(len(p.people))
		if a.who == 0 && !a.kind.anonymous || a.kind.first && r.IntN(5) > 0 {
			a.who = 1
		}
		if r.IntN(3) > 0 {
			a.method = a.kind.methods[r.IntN(len(a.kind.methods))]
		}
		a.keyed, a.twice = r.IntN(2) == 0, r.IntN(6) == 0
		a.pays = payment{never: r.IntN(7) == 0, after: time.Duration(r.Int64N(int64(20 * time.Second))), atExpiry: r.IntN(10) == 0,
			parts: 1 + r.IntN(5)/4, soon: r.IntN(12) == 0}
		if r.IntN(4) == 0 {
			a.pays.after = time.Duration(r.Int64N(int64(11 * time.Minute)))
		}
		if r.IntN(6) == 0 {
			a.pays.over = 1 + r.Int64N(9_000)
		}
		if r.IntN(6) == 0 {
			a.cancels = time.Duration(1 + r.Int64N(int64(25*time.Second)))
		}
		a.retries, a.together = r.IntN(3), r.IntN(3) == 0
		// Now and then somebody repeats what they have just begun. Code that looks before it locks sees neither of the
		// two.
		if last := len(p.acts) - 1; last >= 0 && r.IntN(6) == 0 {
			twin := *p.acts[last]
			twin.id, twin.at = id, twin.at+time.Duration(r.Int64N(int64(3*time.Millisecond)))
			a = &twin
		}
		p.acts = append(p.acts, a)
	}
}

// drawRush has many people do the same at once, in every third seed. They zap, so that a process pays several actions in
// one transaction, or withdraw, so that more withdrawals wait than there are places for.
func (p *plan) drawRush() {
	if p.seed%3 != 0 {
		return
	}
	r := rand.New(rand.NewPCG(p.seed, 10))
	name, methods := community.KindZap, fromBalance
	if p.seed%6 == 3 {
		name, methods = community.KindWithdraw, []paidaction.Method{paidaction.Outgoing}
	}
	does := kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })]
	at, method := time.Duration(r.Int64N(int64(p.horizon/2))), methods[r.IntN(len(methods))]
	for range 8 + r.IntN(6) {
		p.acts = append(p.acts, &act{id: len(p.acts) + 1, kind: does, draw: r.Uint64(), at: at + time.Duration(r.Int64N(int64(2*time.Millisecond))),
			who: 1 + r.IntN(len(p.people)-1), method: method, keyed: r.IntN(2) == 0, twice: r.IntN(6) == 0, rush: true})
	}
}

func (p *plan) drawStrokes(r *rand.Rand) {
	if p.trouble == 0 {
		return
	}
	faults := []Fault{nodeAway, nodeAway, nodeBehind, clockJumps, blockBurst, processDies, processDies, databaseRestarts}
	for id := range 1 + r.IntN(6) {
		s := stroke{id: id, at: time.Duration(r.Int64N(int64(p.horizon))), fault: faults[r.IntN(len(faults))], node: r.IntN(theNodes), who: r.IntN(processes),
			takes: time.Duration(r.Int64N(int64(4 * time.Minute))), size: 1 + uint32(r.IntN(12))}
		if r.IntN(3) == 0 {
			s.size = 40 + uint32(r.IntN(60))
		}
		// More is under way in the middle of a burst.
		if r.IntN(2) == 0 && len(p.acts) > 0 {
			s.at = p.acts[r.IntN(len(p.acts))].at + time.Duration(r.Int64N(int64(2*time.Second)))
		}
		p.strokes = append(p.strokes, s)
	}
}

// drawLoss has every tenth seed lose the database, and restore it to a moment a few seconds before.
func (p *plan) drawLoss() {
	if p.trouble == 0 || p.seed%10 != 8 {
		return
	}
	r := rand.New(rand.NewPCG(p.seed, 12))
	p.strokes = append(p.strokes, stroke{id: 200, fault: databaseForgets, at: p.acts[r.IntN(len(p.acts))].at + time.Duration(r.Int64N(int64(8*time.Second))),
		takes: time.Duration(r.Int64N(int64(4 * time.Minute)))})
}

// loses reports whether the database or a node forgets something in this plan.
func (p *plan) loses() bool {
	return slices.ContainsFunc(p.strokes, func(s stroke) bool { return s.fault == databaseForgets || s.fault == nodeForgets })
}

// drawRare has every third seed meet something rare.
func (p *plan) drawRare() {
	if p.trouble == 0 || p.seed%3 != 1 {
		return
	}
	r := rand.New(rand.NewPCG(p.seed, 11))
	faults := []Fault{processStops, processStops, clockIsWrong, clockIsWrong, nodesClock}
	for id := range 1 + r.IntN(4) {
		p.strokes = append(p.strokes, stroke{id: 100 + id, fault: faults[r.IntN(len(faults))], node: r.IntN(theNodes), who: r.IntN(processes),
			at:    p.acts[r.IntN(len(p.acts))].at + time.Duration(r.Int64N(int64(20*time.Second))),
			takes: time.Duration(r.Int64N(int64(4 * time.Minute))), off: time.Duration(r.Int64N(int64(6*time.Hour))) - 3*time.Hour})
	}
}
