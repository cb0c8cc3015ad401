package simulate

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// model is what must be true, found out from what people did and were told and from what the nodes say in the end. It asks the database
// which actions there are and what they came to, and calls nothing of the code under test.
type model struct {
	world     *world
	requests  []*request
	items     []posted
	hashes    map[int64]paidaction.Hash
	invoices  []string
	replyCost int64
	attempts  []*attempt
	last      int64           // the newest action that was there before the first act
	balances  map[int64]int64 // of accounts, in msat
	counters  map[int64]int64 // what items were zapped with since, in msat
}

// posted is an item.
type posted struct {
	id, author, founder int64
	forwards            []forwardee
}

type forwardee struct {
	user int64
	pct  int
}

func newModel(w *world) *model {
	return &model{world: w, hashes: map[int64]paidaction.Hash{}, balances: map[int64]int64{}, counters: map[int64]int64{}, replyCost: 2000}
}

func (m *model) post(pa *paidaction.PaidAction, it item, args community.ItemCreateArgs) {
	var made struct{ Item int64 }
	if err := json.Unmarshal(pa.Result, &made); err != nil {
		panic(err)
	}
	p := posted{id: made.Item, author: m.world.people[it.author]}
	if it.territory {
		p.founder = m.world.people[1]
	}
	for _, f := range args.Forwards {
		p.forwards = append(p.forwards, forwardee{f.User, f.Pct})
	}
	m.items = append(m.items, p)
}

func (m *model) item(id int64) posted {
	for _, it := range m.items {
		if it.id == id {
			return it
		}
	}
	return posted{}
}

// openInvoices are those that people were given.
func (m *model) openInvoices() []string { return m.invoices }

// begin notes how things stand before the first act.
func (m *model) begin() error {
	var err error
	if m.balances, err = m.world.balances(); err != nil {
		return err
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

// attempt is one action that there is, as it ended.
type attempt struct {
	id, genesis         int64
	request             *request
	kind                *kind
	args                map[string]any
	payer               *int64
	method, flow, state string
	cost                int64
	successor           *int64
	number              int
	hash                paidaction.Hash
	node                string
	direct              *direct // of a wrapped one
	leaves              *leaving
}

// direct is what a wrapped action pays its receiver.
type direct struct{ receiver, amount, budget int64 }

// leaving is what a withdrawal pays.
type leaving struct {
	amount int64
	inside *int64
}

// load reads which actions there are.
func (m *model) load() error {
	rows, err := m.world.database.queries().Attempts(m.world.ctx, m.last)
	if err != nil {
		return err
	}
	for _, r := range rows {
		a := &attempt{id: r.ID, genesis: r.Genesis, payer: r.PayerID, method: r.Method, flow: r.Flow, state: r.State, cost: r.CostMsat,
			successor: r.SuccessorID, number: int(r.Attempt)}
		copy(a.hash[:], r.PaymentHash)
		if r.Node != nil {
			a.node = *r.Node
		}
		if r.ReceiverID != nil {
			a.direct = &direct{*r.ReceiverID, *r.InnerMsat, *r.BudgetMsat}
		}
		if r.Flow == "OUTGOING" {
			a.leaves = &leaving{*r.LeavingMsat, r.InsideID}
			copy(a.hash[:], r.LeavingHash)
		}
		if err := json.Unmarshal(r.Args, &a.args); err != nil {
			return err
		}
		for _, k := range kinds {
			if k.name == r.Kind {
				a.kind = k
			}
		}
		m.attempts = append(m.attempts, a)
	}
	return nil
}

// check holds the end against what must be true.
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
	m.spam()
	found, err := w.balances()
	if err != nil {
		w.violate("model", "%v", err)
		return
	}
	for _, id := range sortedKeys(found) {
		if found[id] != m.balances[id] {
			w.violate("balance", "account %d holds %d msat, and should hold %d", id, found[id], m.balances[id])
		}
	}
	for _, it := range m.items {
		if msat, err := w.database.queries().ZappedWith(w.ctx, it.id); err != nil || msat != m.counters[it.id] {
			w.violate("counter", "item %d counts %d msat of zaps, and should count %d (%v)", it.id, msat, m.counters[it.id], err)
		}
	}
}

// assign finds out which request an action belongs to: the arguments of no two are the same.
func (m *model) assign(a *attempt) {
	for _, r := range m.requests {
		if r.kind == a.kind && reflect.DeepEqual(r.raw, a.args) {
			a.request = r
			return
		}
	}
	m.world.violate("model", "nobody asked for action %d", a.id)
}

// checkRequest holds what there is against what a person was told.
func (m *model) checkRequest(r *request) {
	w := m.world
	var begun []*attempt
	for _, a := range m.attempts {
		if a.request == r && a.number == 1 {
			begun = append(begun, a)
		}
	}
	for id := range r.ids {
		if !slices.ContainsFunc(begun, func(a *attempt) bool { return a.id == id }) {
			w.violate("model", "%s was told of action %d, which is not there", r.label, id)
		}
	}
	if r.key != "" && len(begun) > 1 {
		w.violate("model", "%s asked with one key, and there are %d actions", r.label, len(begun))
	}
	if r.key == "" && len(begun) > len(r.ids)+r.unknown+r.refused {
		w.violate("model", "%s: %d actions, and %d answers", r.label, len(begun), len(r.ids)+r.unknown+r.refused)
	}
	// Who was refused was charged nothing.
	charged := 0
	for _, a := range begun {
		if a.state == "PAID" {
			charged++
		}
	}
	most := len(r.ids) + r.unknown
	if r.key != "" {
		most = min(most, 1)
	}
	if charged > most {
		w.violate("refused and charged", "%s was refused %d times, and %d actions are paid of %d that may be", r.label, r.refused, charged, most)
	}
}

// checkAttempt holds one action against what the nodes and the receivers say, and books what it should have moved.
func (m *model) checkAttempt(a *attempt) {
	w := m.world
	if a.request == nil {
		return
	}
	if r := a.request; r.method != "" && a.number == 1 && a.method != string(r.method) {
		w.violate("model", "action %d was asked for by %s, and is paid by %s", a.id, r.method, a.method)
	}
	if a.payer == nil != (a.request.payer == nil) || a.payer != nil && *a.payer != *a.request.payer {
		w.violate("model", "action %d is somebody else's", a.id)
	}
	if least, most := a.kind.price(m, a); a.cost < least || a.cost > most {
		w.violate("price", "action %d costs %d msat, and should cost between %d and %d", a.id, a.cost, least, most)
	}
	if a.state == "RETRYING" != (a.successor != nil) {
		w.violate("model", "action %d is %s, successor %v", a.id, a.state, a.successor)
	}
	received, paid := m.received(a)
	sent, fee := m.paidOut(a)
	inside := m.insideOf(a)
	loss := a.flow == "WRAPPED" && sent > 0 && !paid
	want := paid || inside != nil || sent > 0 || a.flow == "BALANCE" || a.leaves != nil && a.leaves.inside != nil && m.wasPaidBy(a)
	if want != (a.state == "PAID") {
		w.violate("model", "action %d (%s %s) is %s: its payer's payment was taken %t, its receiver got %d msat", a.id, a.flow, a.kind.name, a.state, paid, sent)
	}
	if a.flow == "WRAPPED" && want && sent != a.direct.amount {
		w.violate("model", "the receiver of action %d got %d msat instead of %d", a.id, sent, a.direct.amount)
	}
	if want {
		m.book(a, received, sent, fee, inside, loss)
	}
}

// received is what the node that issued the invoice has taken.
func (m *model) received(a *attempt) (msat int64, paid bool) {
	if a.flow == "OUTGOING" {
		return 0, false
	}
	for _, n := range m.world.nodes {
		inv, ok := n.Inspect(a.hash)
		if !ok || n.Name() != a.node {
			continue
		}
		if inv.State == paidaction.InvoiceAccepted || inv.State == paidaction.InvoiceOpen {
			m.world.violate("model", "the invoice of action %d is still %s", a.id, inv.State)
		}
		if inv.State == paidaction.InvoiceSettled {
			return int64(inv.NodeInvoice().Received), true
		}
	}
	return 0, false
}

// paidOut is what the receiver of an outgoing payment has got, and what that has cost beyond it.
func (m *model) paidOut(a *attempt) (msat, fee int64) {
	if a.flow != "WRAPPED" && a.flow != "OUTGOING" || a.leaves != nil && a.leaves.inside != nil {
		return 0, 0
	}
	for _, p := range m.world.wallets.all {
		if p.issued[a.hash] == nil {
			continue
		}
		got := p.receiver.Receipt(a.hash)
		if got.Payments > 1 {
			m.world.violate("paid twice", "the receiver of action %d was paid %d times", a.id, got.Payments)
		}
		if got.Held > 0 {
			m.world.violate("model", "the receiver of action %d still holds %d msat", a.id, got.Held)
		}
		msat += int64(got.Received)
	}
	if msat == 0 {
		return 0, 0
	}
	// Several attempts can have tried one hash; the last one of them made it.
	for _, other := range m.attempts {
		if other.hash == a.hash && other.id != a.id && other.state == "PAID" && a.state != "PAID" {
			return 0, 0
		}
	}
	for _, n := range m.world.nodes {
		if sent, ok := n.Sent(a.hash); ok && sent.Present.Preimage != nil {
			fee += int64(sent.Present.Fee)
		}
	}
	return msat, fee
}

// insideOf is the withdrawal that has paid for an action whose invoice was cancelled.
func (m *model) insideOf(a *attempt) *attempt {
	for _, other := range m.attempts {
		if other.leaves != nil && other.leaves.inside != nil && *other.leaves.inside == a.id && other.state == "PAID" {
			return other
		}
	}
	return nil
}

// wasPaidBy says whether the action that a withdrawal pays inside counts though nobody outside has paid it.
func (m *model) wasPaidBy(a *attempt) bool {
	for _, other := range m.attempts {
		if other.id == *a.leaves.inside {
			_, outside := m.received(other)
			return other.state == "PAID" && !outside
		}
	}
	return false
}

// Accounts of the system (ledger/account.go), and those of users.
const (
	lightningAccount, issuedAccount, backingAccount      = 0, 1, 2
	rewardCreditsAccount, rewardSatsAccount, lossAccount = 3, 4, 8
)

// book moves what a paid action must have moved.
func (m *model) book(a *attempt, received, sent, fee int64, inside *attempt, loss bool) {
	move := func(account, msat int64) { m.balances[account] += msat }
	user := func(id int64, kind asset) int64 {
		if kind == credits {
			return id*16 + 1
		}
		return id * 16
	}
	if a.kind.name == community.KindZap {
		m.counters[number(a.args["item"])] += a.cost
	}
	if a.leaves != nil {
		if a.leaves.inside == nil {
			move(user(*a.payer, sats), -sent-fee)
			move(lightningAccount, sent+fee)
			return
		}
		move(user(*a.payer, sats), -a.cost)
		return
	}
	inCredits := a.method == "FEE_CREDIT"
	switch {
	case inCredits:
		move(user(*a.payer, credits), -a.cost)
	case a.method == "REWARD_SATS":
		move(user(*a.payer, sats), -a.cost)
	case inside != nil: // the withdrawal's balance paid
	case loss:
		move(lossAccount, -a.cost)
	default:
		move(lightningAccount, -received)
	}
	toCredits := func(id, msat int64) {
		move(user(id, credits), msat)
		if !inCredits {
			move(backingAccount, msat)
			move(issuedAccount, -msat)
		}
	}
	rest := a.cost
	if a.direct != nil {
		move(lightningAccount, sent+fee)
		rest -= sent + fee
	}
	for _, s := range a.kind.shares(m, a) {
		if a.direct != nil && s.user == a.direct.receiver && s.asset != same {
			continue
		}
		rest -= s.msat
		switch {
		case s.asset == credits:
			toCredits(s.user, s.msat)
		case s.asset == same && inCredits:
			move(user(s.user, credits), s.msat)
		default:
			move(user(s.user, sats), s.msat)
		}
	}
	if inCredits {
		move(rewardCreditsAccount, rest)
		return
	}
	move(rewardSatsAccount, rest)
	if excess := received - a.cost; excess > 0 && a.flow != "BALANCE" && inside == nil && !loss {
		if a.payer != nil {
			toCredits(*a.payer, excess)
		} else {
			move(rewardSatsAccount, excess)
		}
	}
}

// checkNodes: whatever a node has taken or paid belongs to an action.
func (m *model) checkNodes() {
	for _, n := range m.world.nodes {
		for _, sent := range n.Payments() {
			if sent.Present.Preimage == nil {
				continue
			}
			h := sent.Present.Hash
			if !slices.ContainsFunc(m.attempts, func(a *attempt) bool {
				return a.hash == h && a.state == "PAID" && (a.flow == "WRAPPED" || a.flow == "OUTGOING")
			}) {
				m.world.violate("model", "%s has paid %d msat that no action paid for", n.Name(), sent.Present.Amount)
			}
		}
		for _, inv := range n.Invoices() {
			if inv.State == paidaction.InvoiceSettled && inv.Created != epoch && !slices.ContainsFunc(m.attempts, func(a *attempt) bool { return a.hash == inv.Request.Hash && a.state == "PAID" }) {
				m.world.violate("model", "%s has taken %d msat, and nothing counts for it", n.Name(), inv.NodeInvoice().Received)
			}
		}
	}
}

// spam: of the posts of one author within ten minutes each is ten times as dear as the one before, also of those at the same moment.
func (m *model) spam() {
	posts, err := m.world.database.queries().PaidPosts(m.world.ctx)
	if err != nil {
		m.world.violate("model", "%v", err)
	}
	for i, last := range posts {
		least, dearest := int64(100), int64(0)
		for _, p := range posts[:i+1] {
			if *p.AuthorID == *last.AuthorID && last.CreatedAt.Sub(p.CreatedAt) < 10*time.Minute {
				least, dearest = least*10, max(dearest, p.CostMsat)
			}
		}
		if dearest < least {
			m.world.violate("price", "the posts of user %d until %s cost at most %d msat, and one of them should cost %d", *last.AuthorID, last.CreatedAt, dearest, least)
		}
	}
}
