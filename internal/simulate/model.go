package simulate

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// model is what must be true. It derives this from what people did and were told, and from what the nodes say in the
// end. It asks the database only which actions there are and what became of them, and calls nothing of the code under
// test.
type model struct {
	world     *world
	requests  []*request
	items     []posted
	newcomers []int64 // users whom the invite is for
	invite    db.Invite
	hashes    map[int64]paidaction.Hash
	invoices  []string
	replyCost int64
	attempts  []*attempt
	last      int64           // the newest action before the first act
	balances  map[int64]int64 // by account, in msat

	// What must exist in the end, besides the money.
	tallies     map[int64]*tally // by item
	votes       map[ballot]int64 // how much each person zapped each way, in msat
	voted       []*attempt       // zaps, up and down, of known people
	pollVotes   []*attempt
	boosts      map[int64]boosted // by action
	edits       map[int64][]*attempt
	written     []*attempt
	gifts       []*attempt
	territories map[string][]*attempt

	pool   map[int64]int64   // the rewards at the start, by account
	pooled map[pooling]int64 // what was added to them, in msat
	sure   bool              // nobody was in the middle of a transaction when the rewards were paid

	done map[string]time.Time // when each chore last did everything that was due
}

// posted is an item that exists from the beginning.
type posted struct {
	id, author, founder int64
	kind                string
	above               []int64 // from the root down
	options             []int64 // a poll's
	forwards            []forwardee
	secret              string // an anonymous author's
}

type forwardee struct {
	user int64
	pct  int
}

func newModel(w *world) *model {
	return &model{world: w, hashes: map[int64]paidaction.Hash{}, balances: map[int64]int64{}, replyCost: 2000, tallies: map[int64]*tally{},
		votes: map[ballot]int64{}, boosts: map[int64]boosted{}, edits: map[int64][]*attempt{}, territories: map[string][]*attempt{},
		pool: map[int64]int64{}, pooled: map[pooling]int64{}, done: map[string]time.Time{}}
}

// post notes an item that exists from the beginning.
func (m *model) post(pa *paidaction.PaidAction, it item, args community.ItemCreateArgs) error {
	var made struct{ Item int64 }
	if err := json.Unmarshal(pa.Result, &made); err != nil {
		return err
	}
	p := posted{id: made.Item, author: m.world.people[it.author], kind: it.kind, secret: pa.Secret}
	if it.territory {
		p.founder = m.world.people[1]
	}
	if args.Parent != 0 {
		parent := m.item(args.Parent)
		p.founder, p.above = parent.founder, append(parent.above, parent.id)
		m.comment(p.above)
	}
	for _, f := range args.Forwards {
		p.forwards = append(p.forwards, forwardee{f.User, f.Pct})
	}
	if it.kind == "POLL" {
		options, err := db.New(m.world.database.pool).PollOptions(m.world.ctx, db.PollOptionsParams{Polls: []int64{p.id}})
		if err != nil {
			return err
		}
		for _, o := range options {
			p.options = append(p.options, o.ID)
		}
	}
	m.items = append(m.items, p)
	return nil
}

func (m *model) item(id int64) posted {
	for _, it := range m.items {
		if it.id == id {
			return it
		}
	}
	return posted{}
}

func (m *model) poll() posted {
	for _, it := range m.items {
		if it.kind == "POLL" {
			return it
		}
	}
	return posted{}
}

// openInvoices are those that people were given.
func (m *model) openInvoices() []string { return m.invoices }

// begin notes the state before the first act.
func (m *model) begin() error {
	var err error
	if m.balances, err = m.world.balances(); err != nil {
		return err
	}
	for _, account := range []int64{rewardCreditsAccount, rewardSatsAccount} {
		m.pool[account] = m.balances[account]
	}
	m.last, err = m.world.database.queries().LastAction(m.world.ctx)
	return err
}

func (w *world) balances() (map[int64]int64, error) {
	rows, err := w.database.queries().AllBalances(w.ctx)
	found := map[int64]int64{}
	for _, r := range rows {
		found[r.ID] = r.Msat
	}
	return found, err
}

// check compares the end with what must be true.
func (m *model) check() {
	w := m.world
	if err := m.load(); err != nil {
		w.violate("model", "%v", err)
		return
	}
	for _, a := range m.attempts {
		m.assign(a)
	}
	for _, r := range m.requests {
		m.checkRequest(r)
	}
	for _, a := range m.attempts {
		m.checkAttempt(a)
	}
	m.checkNodes()
	for _, check := range []func() error{m.spam, m.expireBoosts, m.checkItems, m.checkVotes, m.checkPolls, m.checkFiles, m.checkGifts, m.checkTerritories, m.checkRewards, m.checkDropped} {
		if err := check(); err != nil {
			w.violate("model", "%v", err)
			return
		}
	}
	found, err := w.balances()
	if err != nil {
		w.violate("model", "%v", err)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if found[id] != m.balances[id] {
			w.violate("balance", "account %d holds %d msat, and should hold %d", id, found[id], m.balances[id])
		}
	}
}
