package simulate

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate/simdb"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Result is the outcome of one seed.
type Result struct {
	Seed       uint64
	Actions    int // requests that people made
	Faults     int
	Violations []string
	Story      string

	met      []string
	acts     []int
	forgot   bool // the database or a node did, so that the model was not asked
	coverage coverage
}

// less is what is left out of a failing seed while it is shrunk.
type less struct {
	faults map[string]bool
	acts   map[int]bool
}

type insideKey struct{}

// try runs one seed on an empty database.
func try(ctx context.Context, d *database, seed uint64, without less) (result Result) {
	ctx, end := context.WithCancel(context.WithValue(ctx, insideKey{}, true))
	w := &world{
		ctx: ctx, end: end, chance: chance(mix(seed)), plan: newPlan(seed), without: without.faults, database: d,
		news: make(chan news), arrivals: make(chan *fiber), away: map[string]bool{}, processes: make([]*process, processes), jobs: map[int64]*job{},
		known: map[paidaction.Hash]paidaction.InvoiceState{}, coverage: coverage{}, labels: map[int64]string{}, attempts: map[string]int{}, stored: map[int64]int{},
		flows: map[int64]paidaction.Flow{}, touched: map[int64][]Fault{}, open: map[int64]bool{},
		places: places{}, looking: map[string]bool{}, states: map[int64]paidaction.State{}, left: map[paidaction.Hash]time.Duration{}, awaited: map[int64]bool{},
	}
	defer func() {
		if v := recover(); v != nil {
			w.violate("simulation", "%v", v)
		}
		w.abandon()
		result = Result{Seed: seed, Faults: w.faults, Violations: w.violations, Story: w.story.String(), met: w.met, coverage: w.coverage,
			forgot: w.forgot() || w.loss != nil}
		for _, a := range w.plan.acts {
			if !without.acts[a.id] {
				result.acts = append(result.acts, a.id)
			}
		}
		if w.model != nil {
			for _, r := range w.model.requests {
				result.Actions += r.asked + r.retried
			}
		}
	}()
	w.network = simnode.NewNetwork(w.Now)
	for i := range theNodes {
		w.nodes = append(w.nodes, w.network.AddNode(fmt.Sprintf("node%d", i+1)))
	}
	w.wallets = &wallets{world: w, failures: map[[2]int64]int{}}
	w.model = newModel(w)
	for i := range w.processes {
		w.start(i, 1)
	}
	w.settleIn()
	for _, a := range w.plan.acts {
		if !without.acts[a.id] {
			w.queue.add(a.at, func() { w.begin(a) })
		}
	}
	for _, s := range w.plan.strokes {
		w.queue.add(s.at, func() { w.strike(s) })
	}
	for _, c := range w.chores() {
		w.keepDoing(c, 0)
	}
	w.queue.add(time.Minute, func() { w.blocksCome(0) })
	w.queue.add(w.plan.horizon, w.heal)
	w.run(func() bool { return w.ended || len(w.violations) > 0 })
	if len(w.violations) == 0 {
		w.check()
	}
	return result
}

// abandon ends whatever still runs, as may be the case after a violation.
func (w *world) abandon() {
	for _, f := range w.asides {
		if err := w.database.terminate(w.ctx, f.blocked); err != nil {
			w.violate("simulation", "end a session that waits: %v", err)
		}
		goOn(f.blocked)
	}
	w.end()
	for _, c := range w.late {
		c.cut()
	}
	for _, f := range w.fibers {
		if f.wire != nil && !f.aside.Load() {
			f.wire.cut()
		}
	}
	w.group.Wait()
}

// settleIn makes the people, their wallets, and their first posts.
func (w *world) settleIn() {
	q := db.New(w.database.pool)
	must := func(err error) {
		if err != nil {
			panic(fmt.Errorf("settle in: %w", err))
		}
	}
	w.people = []int64{0}
	for i, p := range w.plan.people[1:] {
		id, err := q.InsertUser(w.ctx, db.InsertUserParams{Name: fmt.Sprintf("u%d", i+1), CreatedAt: w.Now()})
		must(err)
		w.people = append(w.people, id)
		var transfers []ledger.Transfer
		if p.sats > 0 {
			transfers = append(transfers, ledger.Transfer{From: ledger.Lightning, To: ledger.UserSats(id), Msat: p.sats, Reason: "deposit"})
		}
		transfers = append(transfers,
			ledger.Transfer{From: ledger.Lightning, To: ledger.BackingSats, Msat: p.credits + 1_000_000, Reason: "deposit"},
			ledger.Transfer{From: ledger.IssuedCredits, To: ledger.UserCredits(id), Msat: p.credits + 1_000_000, Reason: "deposit"})
		must(ledger.Post(w.ctx, q, nil, w.Now(), transfers))
		for range p.wallets {
			w.wallets.add(id)
		}
	}
	for range 2 {
		w.outside = append(w.outside, w.wallets.add(0))
	}
	must(w.found(q))
	for i, it := range w.plan.items {
		must(w.post(i, it))
	}
	must(w.model.begin())
}

// found makes the territories, and the people who are invited.
func (w *world) found(q *db.Queries) error {
	for _, t := range w.plan.territories {
		if t.billing == "" {
			if err := q.InsertTerritory(w.ctx, db.InsertTerritoryParams{Name: t.name, FounderID: w.people[1], BaseCostMsat: 1000, ReplyCostMsat: 2000, CreatedAt: w.Now()}); err != nil {
				return err
			}
			continue
		}
		until := w.Now().Add(t.due)
		row := simdb.FoundTerritoryParams{Name: t.name, FounderID: w.people[1], CreatedAt: w.Now(), State: "ACTIVE", AutoRenew: t.renews,
			PeriodStart: until.AddDate(0, -1, 0), PeriodDay: int16(until.Day()), PaidUntil: until, PaidMsat: prices[t.billing], BillAt: &until}
		if t.due < 0 {
			row.State, row.BillAt = "STOPPED", nil
		}
		if err := w.database.queries().FoundTerritory(w.ctx, row); err != nil {
			return err
		}
	}
	for i := range giftLimit + 1 {
		id, err := q.InsertUser(w.ctx, db.InsertUserParams{Name: fmt.Sprintf("newcomer%d", i), CreatedAt: w.Now()})
		if err != nil {
			return err
		}
		w.model.newcomers = append(w.model.newcomers, id)
	}
	err := community.SetPreferences(w.ctx, q, w.people[1], community.Preferences{DropInvoicesAfterDays: new(1)}, w.Now().Add(aDay+10*time.Minute))
	if err != nil {
		return err
	}
	var random [32]byte
	binary.BigEndian.PutUint64(random[:], w.chance.hash("invite", 0))
	w.model.invite, err = community.CreateInvite(w.ctx, q, w.people[1], giftSats, giftLimit, w.Now(), rand.NewChaCha8(random))
	return err
}

// post makes an item that exists from the beginning.
func (w *world) post(n int, it item) error {
	args := community.ItemCreateArgs{Title: fmt.Sprintf("at the beginning %d", n)}
	if it.territory {
		args.Territory = landName
	}
	switch it.kind {
	case "POLL":
		args.PollArgs = &community.PollArgs{Options: []string{"yes", "no"}, Price: voteSats}
	case "BOUNTY":
		args.Bounty = new(int64(bountySats))
	case "COMMENT":
		args.Title, args.Territory, args.Body, args.Parent = "", "", "first", w.model.items[n-1].id
	}
	for to, pct := range it.forwards {
		args.Forwards = append(args.Forwards, community.Forward{User: w.people[to], Pct: pct})
	}
	r := paidaction.Request{Kind: community.KindItemCreate, Args: args, Terms: paidaction.Terms{Method: paidaction.FeeCredit}, Caller: paidaction.Caller{Client: "192.0.2.9"}}
	if it.author != 0 {
		r.Caller.User = &w.people[it.author]
	} else {
		r.Method = ""
	}
	pa, err := w.processes[0].engine.Pay(w.ctx, r)
	if err == nil && it.author == 0 {
		if err = payAt(w.nodes, pa); err == nil {
			for err == nil && !pa.State.Terminal() {
				if _, err = w.processes[0].engine.Advance(w.ctx, pa.ID); err == nil {
					pa, err = w.processes[0].engine.Get(w.ctx, paidaction.Caller{Secret: pa.Secret}, pa.ID)
				}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	return w.model.post(pa, it, args)
}

// blocksCome mines now and then.
func (w *world) blocksCome(n int) {
	w.mine(1)
	w.queue.add(w.tick+w.chance.between(2*time.Minute, 15*time.Minute, "block", n), func() { w.blocksCome(n + 1) })
}

// heal ends every fault: from here on nothing goes wrong, and everything has to come to its end.
func (w *world) heal() {
	w.tell(nil, "from here on nothing goes wrong any more")
	w.calm = true
	for i, n := range w.nodes {
		if w.away[n.Name()] {
			w.comeBack(i)
		}
		n.SetSynced(true)
		n.SetAhead(0)
	}
	clear(w.wrong[:])
	w.look()
	w.wallets.resolveAll()
	w.seeWhetherItIsOver(0)
}

// enough is how long after its horizon a seed may take: the longest stall followed by the longest invoice of a
// receiver.
const enough = 6 * time.Hour

// enoughWithout is the same where a node has lost its data, and much stays open: until the invoices of receivers have
// expired, and what follows from that.
const enoughWithout = 100 * time.Minute

// seeWhetherItIsOver checks from time to time whether anything is open.
func (w *world) seeWhetherItIsOver(n int) {
	open, err := w.database.queries().Unfinished(w.ctx)
	if err != nil {
		panic(err)
	}
	switch {
	case open == 0 && len(w.fibers) == 0 && len(w.late) == 0 && w.tick > w.plan.horizon+13*time.Minute && len(w.dueJobs()) == 0:
		w.ended = true
	case w.tick > w.plan.horizon+enough, w.loss != nil && w.tick > w.plan.horizon+enoughWithout:
		w.stuck()
		w.ended = true
	default:
		if n%4 == 0 {
			w.wallets.resolveAll()
		}
		w.queue.add(w.tick+time.Duration(30+min(n, 20)*15)*time.Second, func() { w.seeWhetherItIsOver(n + 1) })
	}
}

// dueJobs are the jobs that are not merely for a distant deadline.
func (w *world) dueJobs() (due []*job) {
	for _, j := range w.jobs {
		if !j.at.After(w.Now()) {
			due = append(due, j)
		}
	}
	return due
}

// stuck tells what never came to an end.
func (w *world) stuck() {
	open, err := w.database.queries().Stuck(w.ctx)
	if err != nil {
		panic(err)
	}
	if w.forgot() || w.loss != nil {
		return // what may be open is known to checkForgotten and checkLost
	}
	for _, what := range open {
		w.violate("stuck", "%s", what)
	}
	for _, f := range w.fibers {
		w.violate("stuck", "%s is still at work", f.name)
	}
	for _, j := range w.dueJobs() {
		w.violate("stuck", "job %s has run %d times and is not done", j.key(), j.runs)
	}
}
