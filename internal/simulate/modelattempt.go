package simulate

import (
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// attempt is one action, as it ended.
type attempt struct {
	id, genesis         int64
	last                int64 // its last step, in the order of all steps
	key                 string
	changed             time.Time
	givenUp             time.Time // when it failed, even if it was retried since
	item                int64     // the item that it has made
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
	direct              *direct // of a wrapped action
	leaving             *leaving
}

// direct is what a wrapped action pays to its receiver.
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
			successor: r.SuccessorID, number: int(r.Attempt), last: r.LastStep, key: r.Key, changed: r.ChangedAt, givenUp: r.GivenUp}
		copy(a.hash[:], r.PaymentHash)
		if r.Node != nil {
			a.node = *r.Node
		}
		if r.ReceiverID != nil {
			a.direct = &direct{*r.ReceiverID, *r.InnerMsat, *r.BudgetMsat}
		}
		if r.Flow == "OUTGOING" {
			a.leaving = &leaving{*r.LeavingMsat, r.InsideID}
			copy(a.hash[:], r.LeavingHash)
		}
		if err := json.Unmarshal(r.Args, &a.args); err != nil {
			return err
		}
		var made struct{ Item int64 }
		if err := json.Unmarshal(r.Result, &made); err != nil {
			return err
		}
		a.item = made.Item
		for _, k := range kinds {
			if k.name == r.Kind {
				a.kind = k
			}
		}
		m.attempts = append(m.attempts, a)
	}
	return nil
}

// assign finds out which request an action belongs to. For most the arguments are enough. Where two requests have the
// same arguments, their keys and what people were told decide.
func (m *model) assign(a *attempt) {
	if a.genesis != a.id {
		for _, first := range m.attempts {
			if first.id == a.genesis {
				a.request = first.request
			}
		}
		return
	}
	if a.args[renewal] != nil {
		a.request = &request{act: &act{}, payer: a.payer} // the server itself
		return
	}
	var best *request
	for _, r := range m.requests {
		if r.kind != a.kind || r.key != a.key || !r.asksFor(a) || (r.payer == nil) != (a.payer == nil) || r.payer != nil && *r.payer != *a.payer ||
			r.method != "" && string(r.method) != a.method && a.cost > 0 {
			continue
		}
		if r.ids[a.id] {
			a.request = r
			return
		}
		if best == nil || r.missing(a) > best.missing(a) {
			best = r
		}
	}
	if a.request = best; best == nil {
		m.world.violate("model", "nobody asked for action %d", a.id)
		return
	}
	best.taken++
}

// missing says how likely it is that an action that nobody was told of is this request's: one of its answers never
// came, or said that the outcome is unknown. A request that insisted on one method comes first: its other actions
// cannot be of another method, while a request that left the method open may have begun any.
func (r *request) missing(a *attempt) int {
	inOneWay := r.method != ""
	switch {
	case r.unknown > r.taken && inOneWay:
		return 4
	case r.unknown+r.refused > r.taken && inOneWay && a.state != "PAID":
		return 3
	case r.unknown > r.taken:
		return 2
	case r.unknown+r.refused > r.taken:
		return 1
	}
	return 0
}

// asksFor reports whether an action's arguments are those of a request. The paid invoice may have been dropped.
func (r *request) asksFor(a *attempt) bool {
	if a.leaving != nil && a.args["to"] == "" && a.payer != nil && *a.payer == *r.payer {
		return r.raw["comment"] == a.args["comment"]
	}
	return reflect.DeepEqual(r.raw, a.args)
}

// checkDropped: what was dropped belongs to the first person, and had ended. A failed action may have been retried
// since.
func (m *model) checkDropped() error {
	rows, err := m.world.database.queries().Dropped(m.world.ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		for _, a := range m.attempts {
			if a.id == r.ActionID && a.state != "RETRYING" && (a.payer == nil || *a.payer != m.world.people[1] || a.changed.After(r.DroppedAt.Add(-aDay))) {
				m.world.violate("dropped", "the invoice of action %d was dropped at %s, which ended at %s", a.id, r.DroppedAt, a.changed)
			}
		}
	}
	return nil
}

// checkRequest compares the actions of a request with what the person was told.
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
	// A person who was refused was charged nothing.
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

// checkAttempt compares one action with what the nodes and the receivers say, and books what it should have moved.
func (m *model) checkAttempt(a *attempt) {
	w := m.world
	if a.request == nil {
		return
	}
	if a.payer == nil != (a.request.payer == nil) || a.payer != nil && *a.payer != *a.request.payer {
		w.violate("model", "action %d is somebody else's", a.id)
	}
	if (a.method == "ZERO_COST") != (a.cost == 0) {
		w.violate("model", "action %d costs %d msat, and is paid by %s", a.id, a.cost, a.method)
	}
	if least, most := a.kind.price(m, a); a.cost < least || a.cost > most {
		w.violate("price", "action %d costs %d msat, and should cost between %d and %d", a.id, a.cost, least, most)
	}
	if a.state == "RETRYING" != (a.successor != nil) {
		w.violate("model", "action %d is %s, successor %v", a.id, a.state, a.successor)
	}
	if received, sent, fee, inside, loss := m.mustAgree(a); a.state == "PAID" {
		m.book(a, received, sent, fee, inside, loss)
	}
}

// mustAgree checks that an action is PAID exactly if the nodes and the receivers say so.
func (m *model) mustAgree(a *attempt) (received, sent, fee int64, inside *attempt, loss bool) {
	w := m.world
	received, paid := m.received(a)
	sent, fee = m.paidOut(a)
	inside = m.insideOf(a)
	loss = a.flow == "WRAPPED" && sent > 0 && !paid
	want := paid || inside != nil || sent > 0 || a.flow == "BALANCE" || a.leaving != nil && a.leaving.inside != nil && m.wasPaidBy(a)
	if want != (a.state == "PAID") {
		w.violate("model", "action %d (%s %s) is %s: its payer's payment was taken %t, its receiver got %d msat", a.id, a.flow, a.kind.name, a.state, paid, sent)
	}
	if a.flow == "WRAPPED" && want && sent != a.direct.amount && !m.cameBack(a, sent) {
		w.violate("model", "the receiver of action %d got %d msat instead of %d", a.id, sent, a.direct.amount)
	}
	return received, sent, fee, inside, loss
}

// received is what the node that issued the invoice has received.
func (m *model) received(a *attempt) (msat int64, paid bool) {
	if a.flow == "OUTGOING" {
		return 0, false
	}
	for _, n := range m.world.nodes {
		inv, ok := n.Inspect(a.hash)
		if !ok || n.Name() != a.node {
			continue
		}
		// If the node gets the call only after the action has failed, it issues an invoice that nobody is told of: it
		// expires.
		unheard := inv.State == paidaction.InvoiceOpen && (a.state == "FAILED" || a.state == "RETRYING") && inv.Created.After(a.givenUp)
		_, lost := m.world.lostInvoice(a.hash, a.node) // it may be as it was long ago
		// A forward that hangs on a node which has lost its data keeps its payer's payment until the blocks run out;
		// checkLost says which may hang.
		hangs := m.world.loss != nil && a.state == "FORWARDING" && inv.State == paidaction.InvoiceAccepted
		if !lost && !hangs && (inv.State == paidaction.InvoiceAccepted || inv.State == paidaction.InvoiceOpen && !unheard) {
			m.world.violate("model", "the invoice of action %d is still %s", a.id, inv.State)
		}
		if inv.State == paidaction.InvoiceSettled {
			return int64(inv.NodeInvoice().Received), true
		}
	}
	return 0, false
}

// paidOut is what the receiver of an outgoing payment has got, and the fee on top of it.
func (m *model) paidOut(a *attempt) (msat, fee int64) {
	if a.flow != "WRAPPED" && a.flow != "OUTGOING" || a.leaving != nil && a.leaving.inside != nil {
		return 0, 0
	}
	for _, p := range m.world.wallets.all {
		if p.issued[a.hash] == nil {
			continue
		}
		got := p.receiver.Receipt(a.hash)
		if got.Payments > 1 && !m.world.mayGoTwice(a.hash) {
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
	// Several attempts may have tried one hash; one of them paid it.
	for _, other := range m.attempts {
		if other.hash != a.hash || other.id == a.id || other.state != "PAID" {
			continue
		}
		if a.state != "PAID" {
			return 0, 0
		}
		m.world.violate("paid twice", "actions %d and %d are both PAID, and their receiver was paid once", a.id, other.id)
	}
	for _, n := range m.world.nodes {
		if sent, ok := n.Sent(a.hash); ok && sent.Present.Preimage != nil {
			fee += int64(sent.Present.Fee)
		}
	}
	return msat, fee
}

// cameBack reports whether the rest of a payment has come back to the node although its receiver took some of the
// parts.
func (m *model) cameBack(a *attempt, took int64) bool {
	for _, n := range m.world.nodes {
		if sent, ok := n.Sent(a.hash); ok && sent.Present.State == paidaction.PaymentSucceeded && int64(sent.Present.Paid) == took {
			return took < a.direct.amount
		}
	}
	return false
}

// insideOf is the withdrawal that has paid for an action whose invoice was cancelled.
func (m *model) insideOf(a *attempt) *attempt {
	for _, other := range m.attempts {
		if other.leaving != nil && other.leaving.inside != nil && *other.leaving.inside == a.id && other.state == "PAID" {
			return other
		}
	}
	return nil
}

// wasPaidBy reports whether the action that a withdrawal pays inside counts, although nobody outside has paid it.
func (m *model) wasPaidBy(a *attempt) bool {
	for _, other := range m.attempts {
		if other.id == *a.leaving.inside {
			_, outside := m.received(other)
			return other.state == "PAID" && !outside
		}
	}
	return false
}
