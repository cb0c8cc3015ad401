package simulate

import (
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// A node loses its data: it is restored from a backup or from its seed alone, or another node answers under its name.
// What it was given goes on without it, and only an operator can bring on what hangs on that: it may stay open. But
// nothing is sent again, or given back to its payer, that the database knows to have been at the node.

// loss is what a node knew when it lost its data.
type loss struct {
	node     *simnode.Node
	invoices map[paidaction.Hash]simnode.Invoice
	// payments are those that it was given: true for one that had not failed, and of which the database
	// knows that the node had it, or that another node answers now. One of which it has lost only that an HTLC was sent is
	// false: such a node may call it failed, and nobody knows better.
	payments map[paidaction.Hash]bool
	// whole are those that it still knows with all their HTLCs: it says truly what becomes of them.
	whole map[paidaction.Hash]simnode.Sent
}

// drawLostNode has every tenth seed lose a node's data. The backup, if there is one, is up to a minute old.
func (p *plan) drawLostNode() {
	if p.trouble == 0 || p.seed%10 != 4 {
		return
	}
	r := rand.New(rand.NewPCG(p.seed, 14))
	p.strokes = append(p.strokes, stroke{id: 201, fault: nodeForgets, node: r.IntN(theNodes), size: uint32(r.IntN(3)),
		at:    p.acts[r.IntN(len(p.acts))].at + time.Duration(r.Int64N(int64(8*time.Second))),
		takes: time.Duration(r.Int64N(int64(4 * time.Minute)))})
}

// lose has a node lose its data. One that is away comes back with it.
func (w *world) lose(s stroke, backup simnode.Backup) {
	if w.calm {
		return
	}
	n := w.nodes[s.node]
	l := &loss{node: n, invoices: map[paidaction.Hash]simnode.Invoice{}, payments: map[paidaction.Hash]bool{},
		whole: map[paidaction.Hash]simnode.Sent{}}
	for _, inv := range n.Invoices() {
		l.invoices[inv.Request.Hash] = inv
	}
	replaced, given := s.size == 2, n.Payments()
	for _, sent := range given {
		l.payments[sent.Present.Hash] = sent.Present.State != paidaction.PaymentFailed && (replaced || w.isNoted(sent, n.Name()))
	}
	w.loss = l
	w.touchAll(nodeForgets)
	switch {
	case replaced:
		w.tell(nil, "another node answers under the name of %s", n.Name())
		n.Replace()
	case s.size == 1:
		w.tell(nil, "%s has lost its data", n.Name())
		n.Wipe()
	default:
		w.tell(nil, "%s is restored from a backup", n.Name())
		n.Restore(backup)
		for _, sent := range given {
			switch kept, _ := n.Sent(sent.Present.Hash); {
			case kept.Present.Created != sent.Present.Created: // it knows none, or an earlier one of this hash
			case len(kept.Parts) == len(sent.Parts):
				l.whole[sent.Present.Hash] = kept
			default:
				l.payments[sent.Present.Hash] = false
			}
		}
	}
	w.comeBack(s.node)
	w.look()
}

// isNoted reports whether the database knows that a node has a payment. Otherwise the node's word that it does not have
// it is taken for true.
func (w *world) isNoted(sent simnode.Sent, node string) bool {
	action, err := w.database.queries().ActionSending(w.ctx, sent.Request.Bolt11)
	if err != nil {
		panic(err)
	}
	row, claims := w.claimsOn(action)
	return row.Preimage != nil || slices.ContainsFunc(claims, func(c db.RelayAttempt) bool { return c.Node == node && c.Seen && c.Outcome == nil })
}

// claimsOn are the claims on an action's payment.
func (w *world) claimsOn(action int64) (db.RelayPayment, []db.RelayAttempt) {
	q := db.New(w.database.pool)
	row, err := q.GetRelay(w.ctx, action)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, nil
	}
	claims, err2 := q.Attempts(w.ctx, row.ID)
	if err = errors.Join(err, err2); err != nil {
		panic(err)
	}
	return row, claims
}

// isForAnother reports whether an action's payment was claimed for a node in whose place another one answers: nobody
// can say any more whether it was sent.
func (w *world) isForAnother(action int64) bool {
	key, err := w.loss.node.PublicKey(w.ctx)
	if err != nil {
		panic(err)
	}
	_, claims := w.claimsOn(action)
	return slices.ContainsFunc(claims, func(c db.RelayAttempt) bool { return c.Node == w.loss.node.Name() && c.NodeKey != key })
}

// lostInvoice is the invoice of a hash as a node knew it before it lost its data.
func (w *world) lostInvoice(h paidaction.Hash, node string) (inv simnode.Invoice, lost bool) {
	if w.loss == nil || w.loss.node.Name() != node {
		return inv, false
	}
	inv, lost = w.loss.invoices[h]
	return inv, lost
}

// mustStay checks that nothing is sent again that a node has lost.
func (w *world) mustStay(h paidaction.Hash, at string) {
	if w.loss == nil || !w.loss.payments[h] {
		return
	}
	now, _ := w.loss.node.Sent(h)
	kept, whole := w.loss.whole[h]
	// Where it was given the payment anew itself, the one of before had failed there.
	if failed := now.Present.State == paidaction.PaymentFailed || now.Present.Created != kept.Present.Created; !whole || !failed {
		w.violate("sent again", "%s sent a payment that %s was given before it lost its data", at, w.loss.node.Name())
	}
}

// mayGoTwice reports whether a payment may be sent again, or given back although its receiver has it: its node had lost
// it before anybody could note that it was there.
func (w *world) mayGoTwice(h paidaction.Hash) bool {
	if w.loss == nil {
		return false
	}
	noted, given := w.loss.payments[h]
	return given && !noted
}

// checkLost is check where a node has lost its data. What was not at this node ends as always. What was may stay open,
// but what has ended agrees with what people outside know, and the books are right.
func (w *world) checkLost() {
	m, l := w.model, w.loss
	if err := m.load(); err != nil {
		w.violate("model", "%v", err)
		return
	}
	touched, excused := map[string]bool{}, map[int64]bool{}
	for _, h := range slices.Concat(slices.Collect(maps.Keys(l.invoices)), slices.Collect(maps.Keys(l.payments))) {
		touched[hex.EncodeToString(h[:])] = true
	}
	openFor := map[paidaction.Hash]bool{}
	for _, a := range m.attempts {
		if excused[a.id] = touched[a.hash.String()] || w.isForAnother(a.id); excused[a.id] && !paidaction.State(a.state).Terminal() {
			openFor[a.hash] = true
		}
	}
	for _, a := range m.attempts {
		_, paid := m.received(a)
		if inv, lost := w.lostInvoice(a.hash, a.node); lost && inv.State == paidaction.InvoiceSettled {
			paid = true
		}
		sent, _ := m.paidOut(a)
		inside := m.insideOf(a) != nil || a.leaving != nil && a.leaving.inside != nil && m.wasPaidBy(a)
		_, lost := w.lostInvoice(a.hash, a.node)
		switch ended := paidaction.State(a.state).Terminal(); {
		case !ended && excused[a.id]:
		case !ended:
			w.violate("stuck", "action %d is %s, and was not at the node that lost its data", a.id, a.state)
		case a.state == "PAID" && !paid && sent == 0 && !inside && a.flow != "BALANCE":
			w.violate("model", "action %d (%s %s) is PAID, and nobody paid for it", a.id, a.flow, a.kind.name)
		case a.state != "PAID" && sent > 0 && !openFor[a.hash] && !w.mayGoTwice(a.hash):
			w.violate("model", "action %d (%s %s) is %s, and its receiver got %d msat", a.id, a.flow, a.kind.name, a.state, sent)
		case a.state != "PAID" && paid && !lost:
			w.violate("model", "action %d (%s %s) is %s, and its payer's payment was taken", a.id, a.flow, a.kind.name, a.state)
		}
	}
	w.reconcileExcept(func(b reconcile.Break) bool {
		return touched[b.Hash] || len(b.Actions) == 1 && excused[b.Actions[0]]
	})
}
