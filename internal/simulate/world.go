package simulate

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// epoch is when every seed begins: a few minutes before midnight, so that a day ends during the seed, and on a day of
// the month that the next month does not have.
var epoch = time.Date(2026, 1, 31, 23, 55, 0, 0, time.UTC)

// world is one seed: people, processes of the service, nodes, and what happens to them all.
type world struct {
	ctx      context.Context // ends with the world
	end      context.CancelFunc
	group    sync.WaitGroup // the fibers
	chance   chance
	plan     *plan
	without  map[string]bool // faults left out while a failing seed is shrunk
	database *database

	// The schedule.
	tick     time.Duration // the simulated time since the epoch
	jumped   time.Duration // by how much the clocks were set forward since then
	queue    queue
	news     chan news   // from the running fiber
	arrivals chan *fiber // fibers that have got their lock
	fibers   []*fiber
	running  *fiber      // the one that runs now; nil: the scheduler
	asides   []*fiber    // fibers that wait for a lock
	freed    atomic.Bool // some lock may have become free since the last check
	late     []*wire     // connections whose commit is still on its way
	waits    []*fiber    // fibers that wait for something to change

	network *simnode.Network
	nodes   simnode.Nodes
	away    map[string]bool
	wallets *wallets
	outside []*purse // of people outside
	places  places
	fences  int64
	looking map[string]bool // by node: a worker will look soon
	woken   int

	backup   *backup
	lost     map[string]bool // hashes that the database has forgotten; nil: it was never restored
	restored time.Duration   // when that was
	opens    time.Duration   // no process starts before then
	accepts  time.Duration   // nothing new is begun before then
	loss     *loss           // nil: no node has lost its data

	processes []*process
	wrong     [processes]time.Duration // by how much the clock of each is wrong for now
	jobs      map[int64]*job
	known     map[paidaction.Hash]paidaction.InvoiceState // the state that the processes were told

	people []int64 // users; the first is people[1]
	model  *model
	calm   bool // nothing goes wrong any more
	ended  bool // everything is over

	story      bytes.Buffer
	violations []string
	faults     int
	met        []string // names of the faults
	coverage   coverage
	labels     map[int64]string // of actions
	attempts   map[string]int   // of the acts of the plan
	stored     map[int64]int    // jobs, by action
	flows      map[int64]paidaction.Flow
	touched    map[int64][]Fault
	open       map[int64]bool
	states     map[int64]paidaction.State        // of actions, as last committed
	left       map[paidaction.Hash]time.Duration // when payments ceased to be held
	awaited    map[int64]bool                    // of actions whose payment only the chain shows to arrive: whether nobody has looked yet
}

// process is one process of the service.
type process struct {
	number, life int
	dead         bool
	stopping     bool // it was told to end
	died         time.Duration
	skew         time.Duration // of its clock
	engine       *paidaction.Engine
	relay        *relay.Relay
	worker       *worker.Worker
	listeners    []*listener
	world        *world
}

func (p *process) String() string { return fmt.Sprintf("p%d.%d", p.number, p.life) }

// Now is the clock of the nodes, in whole seconds.
func (w *world) Now() time.Time { return epoch.Add((w.tick + w.jumped).Truncate(time.Second)) }

// now is the clock of a process.
func (p *process) now() time.Time { return p.world.Now().Add(p.skew) }

var quiet = slog.New(slog.DiscardHandler)

// inTurn does within the caller's fiber what would otherwise be done in parallel.
func inTurn(do func()) (wait func()) {
	do()
	return func() {}
}

// start starts a process.
func (w *world) start(number, life int) {
	if w.tick < w.opens {
		w.queue.add(w.opens, func() { w.start(number, life) })
		return
	}
	p := &process{number: number, life: life, world: w}
	if w.chance.happens(0.3, "skew", number) {
		p.skew = w.chance.between(-4*time.Second, 4*time.Second, "skewed", number).Truncate(time.Second)
	}
	var random [32]byte
	binary.BigEndian.PutUint64(random[:], w.chance.hash(p.String(), 0))
	shared := rand.NewChaCha8(random) // shared by two, of which one runs at a time
	var err error
	p.relay, err = relay.New(relay.Config{Pool: w.database.pool, Nodes: nodes{w}, Issuers: nodes{w}, Leases: leases{w}, Places: w.placesOfEach(), Beside: inTurn, Wait: w.waitInProcess,
		Wallets: w.wallets, Now: p.reads(p.relays), Monotonic: p.monotonic, ConfirmClock: p.confirmClock, Doubted: w.doubted, Random: shared, Log: quiet,
		Settings: relay.Settings{SendWindow: sendWindow, Grace: claimGrace, ExpirySlack: 30 * time.Second, AskTimeout: 30 * time.Second, LookTimeout: 30 * time.Second,
			Pause: time.Millisecond}})
	if err == nil {
		p.engine, err = paidaction.New(paidaction.Config{
			Pool: w.database.pool, Nodes: nodes{w}, Relay: p.relay, Jobs: queueing{w}, Actions: community.Actions(settings()),
			Secret: make([]byte, 32), Now: p.reads(p.now), MayBegin: w.mayBegin, Random: shared, Log: quiet,
			Settings: paidaction.Settings{SweepWorkers: 1, MaxGroup: 4, MaxForwards: busyReceiver, MaxWithdrawals: 1 << 40},
			Hooks: paidaction.Hooks{
				Fault: func(id int64, err error) { w.violate("fault", "action %s: %v", w.name(id), err) },
				Wait:  w.waitInProcess, Beside: inTurn,
			},
		})
	}
	if err == nil {
		p.worker, err = worker.New(worker.Config{Pool: w.database.pool, Engine: p.engine, Jobs: queueing{w}, Clock: clock{w}, Log: quiet})
	}
	if err == nil {
		err = w.listen(p)
	}
	if err != nil {
		panic(err)
	}
	w.processes[number] = p
	w.tell(nil, "%s starts, its clock %+v", p, p.skew)
}

// busyReceiver is how many payments may be on their way to a receiver at once. It is small, so that a receiver that
// lets them hang refuses others.
const busyReceiver = 2

// clock is the clock of the loops of package worker.
type clock struct{ world *world }

func (c clock) Now() time.Time                                { return c.world.Now() }
func (clock) Wait(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
func (clock) Jitter(d time.Duration) time.Duration            { return d }

// kill ends a process: its work breaks off, and its memory is lost. Another process takes its place.
func (w *world) kill(p *process) {
	if p.dead {
		return
	}
	p.dead, p.died = true, w.tick
	w.tell(nil, "%s is dead", p)
	w.touchAll(processDies)
	for _, f := range slices.Clone(w.fibers) {
		if f.process != p || f.ended {
			continue
		}
		if slices.Contains(w.asides, f) {
			w.breakOff(f)
		} else if f.wire != nil && f.tx != nil && f.pg.TxStatus() != 'I' { // an idle connection is used by others from now on
			f.wire.cut()
		}
		f.cancel()
		w.resume(f)
	}
	w.queue.add(w.tick+w.chance.between(10*time.Millisecond, 5*time.Second, p.String()+" restart", 0), func() { w.start(p.number, p.life+1) })
}

// breakOff ends the statement of a fiber that waits for a lock, and returns once the fiber has learned of it.
func (w *world) breakOff(f *fiber) {
	if err := w.database.terminate(w.ctx, f.blocked); err != nil {
		panic(err)
	}
	goOn(f.blocked)
	for slices.Contains(w.asides, f) {
		w.welcome(<-w.arrivals)
	}
}

// idleLimit is after how long PostgreSQL ends a session that is idle inside a transaction
// (idle_in_transaction_session_timeout).
const idleLimit = 10 * time.Second

// endIdle ends the transaction of a stalled process, unless it continues in time.
func (w *world) endIdle(f *fiber, c *wire) {
	turn := f.turn
	w.queue.add(w.tick+idleLimit, func() {
		if f.turn == turn && !f.ended {
			w.tell(f, "its session has ended: nothing was asked of it inside a transaction")
			c.cut()
		}
	})
}

// restartDatabase cuts every connection.
func (w *world) restartDatabase() {
	w.tell(nil, "the database restarts")
	w.touchAll(databaseRestarts)
	for _, f := range slices.Clone(w.fibers) {
		switch {
		case f.ended:
		case slices.Contains(w.asides, f):
			w.breakOff(f)
		case f.wire != nil:
			f.wire.cut()
		}
	}
	for _, c := range w.late {
		c.cut()
	}
	w.late = nil
}

// keepLate has a commit arrive some time after its connection was lost.
func (w *world) keepLate(f *fiber, c *wire, tx *written) {
	w.late = append(w.late, c)
	delay := w.chance.between(time.Millisecond, 8*time.Second, f.name+" late", f.seen)
	if w.chance.happens(0.6, f.name+" soon", f.seen) {
		delay /= 100
	}
	name := f.name
	const again, longest = 50 * time.Millisecond, 20 * time.Second // as in config.Bounds.LockWait
	var arrive func(waited time.Duration)
	arrive = func(waited time.Duration) {
		done, waits := c.arriveLate()
		if waits && waited < longest {
			if waited == 0 {
				w.tell(nil, "the late commit of %s arrives, and waits for a lock", name)
			}
			w.queue.add(w.tick+again, func() { arrive(waited + again) })
			return
		}
		c.cut()
		w.late = slices.DeleteFunc(w.late, func(other *wire) bool { return other == c })
		w.tell(nil, "the late commit of %s arrives: done %t", name, done)
		if done {
			w.happened(f, tx)
		}
	}
	w.queue.add(w.tick+delay, func() { arrive(0) })
}

// moveTo advances the time to a moment.
func (w *world) moveTo(tick time.Duration) {
	if tick <= w.tick {
		return
	}
	before := w.Now()
	w.tick = tick
	if w.Now() != before {
		w.network.Tick()
		w.look()
	}
}

// run works off the events until none is left, or over returns true.
func (w *world) run(over func() bool) {
	for !over() {
		w.settle()
		e, ok := w.queue.next()
		if !ok {
			return
		}
		w.moveTo(e.at)
		e.do()
		w.wakeWaiting()
	}
}

// wait parks a fiber while a condition holds.
func (w *world) wait(ctx context.Context, f *fiber, still func() bool) {
	for !f.dead() && ctx.Err() == nil && still() {
		w.waits = append(w.waits, f)
		f.park(0, still)
		w.waits = slices.DeleteFunc(w.waits, func(other *fiber) bool { return other == f })
	}
}

// waitInProcess parks a fiber that waits for another one of its process. It ends when the process dies, because nobody
// is left to wake it.
func (w *world) waitInProcess(ctx context.Context, still func() bool) {
	f := fiberOf(ctx)
	if f == nil {
		return
	}
	w.wait(ctx, f, still)
	if f.dead() {
		runtime.Goexit()
	}
}

// wakeWaiting wakes, a little later, the fibers whose condition no longer holds.
func (w *world) wakeWaiting() {
	for _, f := range w.waits {
		if f.still != nil && !f.still() {
			turn := f.turn
			f.still = nil
			w.queue.add(w.tick+w.chance.between(time.Millisecond, 30*time.Millisecond, f.name+" hears", f.seen), func() {
				if f.turn == turn {
					w.resume(f)
				}
			})
		}
	}
}

// mayLie reports whether nodes may deny what they know. A database that was restored has only their word.
func (w *world) mayLie() bool { return !w.calm && !w.forgot() }

// alive is one of the living processes, or nil.
func (w *world) alive(key string, n int) *process {
	var living []*process
	for _, p := range w.processes {
		if !p.dead && !p.stopping {
			living = append(living, p)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return living[w.chance.below(len(living), key, n)]
}

// happened applies what a transaction has left behind.
func (w *world) happened(f *fiber, tx *written) {
	for _, s := range tx.steps {
		if s.action == 0 {
			w.tell(f, "committed: a new action is %s", s.to)
			if len(tx.jobs) > 0 && f.action == 0 {
				f.action = tx.jobs[0].action // faults from here on count for this action
			}
			w.coverage.step(s, f.faults)
			continue
		}
		s.flow = w.flowOf(s.action)
		w.tell(f, "committed: %s is %s", w.name(s.action), s.to)
		w.coverage.step(s, f.faults, w.touched[s.action])
		delete(w.touched, s.action)
		w.open[s.action] = !s.to.Terminal()
	}
	if len(tx.steps) > 0 {
		f.faults = nil
	}
	for _, j := range tx.jobs {
		w.jobs[j.id] = j
		w.open[j.action] = true
		w.schedule(j, j.at)
	}
	if tx.relay {
		w.relaySoon(f)
	}
	if slices.Contains(tx.names, "ClaimRelay") {
		w.claimed(f)
	}
	if slices.Contains(tx.names, "EndAttempt") {
		f.claimed = false
	}
	w.lookAfter(tx)
	if tx.takes != 0 {
		w.hurry(f.name+" takes", w.model.hashes[tx.takes])
	}
	for _, s := range tx.steps {
		if s.to == paidaction.Held || s.to == paidaction.Forwarding || s.to == paidaction.Forwarded || s.to == paidaction.FailedForward {
			w.hurry(f.name+" "+string(s.to), w.model.hashes[s.action])
		}
	}
}

func (w *world) flowOf(action int64) paidaction.Flow {
	if flow, ok := w.flows[action]; ok {
		return flow
	}
	flow, err := w.database.queries().FlowOf(w.ctx, action)
	if err != nil {
		panic(err)
	}
	w.flows[action] = paidaction.Flow(flow)
	return w.flows[action]
}

// touch notes that an action has met faults since its last step.
func (w *world) touch(action int64, faults ...Fault) {
	if w.open[action] {
		w.touched[action] = append(w.touched[action], faults...)
	}
}

func (w *world) touchAll(fault Fault) {
	for action, open := range w.open {
		if open {
			w.touch(action, fault)
		}
	}
}

// cover records the fault that met a step about to be committed.
func (w *world) cover(s taken, fault Fault) {
	if s.action != 0 {
		s.flow = w.flowOf(s.action)
	}
	w.coverage.step(s, []Fault{fault})
}

// name is what an action is called in the story.
func (w *world) name(action int64) string {
	if label, ok := w.labels[action]; ok {
		return fmt.Sprintf("%s (action %d)", label, action)
	}
	return fmt.Sprintf("action %d", action)
}

// tell writes a line of the story.
func (w *world) tell(f *fiber, format string, args ...any) {
	fmt.Fprintf(&w.story, "%12.6f  ", (w.tick + w.jumped).Seconds())
	if f != nil {
		fmt.Fprintf(&w.story, "%-5s %-28s ", f.process, f.name)
	}
	fmt.Fprintf(&w.story, format, args...)
	w.story.WriteByte('\n')
}

// violate records a violation.
func (w *world) violate(kind, format string, args ...any) {
	said := kind + ": " + fmt.Sprintf(format, args...)
	if len(w.violations) < 30 {
		w.violations = append(w.violations, said)
	}
	w.tell(nil, "VIOLATION %s", said)
}

// talkative reports which calls are worth a line of the story.
func (w *world) talkative(method string) bool {
	switch method {
	case "Chain", "Sendable", "Channels", "PublicKey", "DecodeInvoice", "Time":
		return false
	}
	return true
}

// said is an error in one word, the same in every run.
func said(err error) string {
	if err == nil {
		return "done"
	}
	if refusal, ok := paidaction.AsRefusal(err); ok {
		return string(refusal.Code)
	}
	return err.Error()
}
