package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What failed may be tried again under the same hash, which is then paid at most once.

// drawAgain has people withdraw one invoice again and again, in every third seed. In every fourth of these, payments and
// those who look after them outlast claims and invoices.
func (p *plan) drawAgain() {
	if p.again = p.seed%3 == 2; !p.again {
		return
	}
	p.outlasts = p.seed%4 == 2
	r := rand.New(rand.NewPCG(p.seed, 13))
	for i := range p.people[1:] {
		p.people[i+1].sats = max(p.people[i+1].sats, 5_000_000)
	}
	does := kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.name == community.KindWithdraw })]
	at := time.Duration(r.Int64N(int64(p.horizon / 4)))
	for range 8 + r.IntN(6) {
		p.acts = append(p.acts, &act{id: len(p.acts) + 1, kind: does, draw: r.Uint64(), at: at, who: 1 + r.IntN(len(p.people)-1),
			method: paidaction.Outgoing, keyed: r.IntN(2) == 0, twice: r.IntN(6) == 0, again: true})
		if r.IntN(4) > 0 { // otherwise two want it at once
			at += time.Duration(r.Int64N(int64(p.horizon / 12)))
		}
	}
}

// actsAgain are what receivers do with an invoice that is offered again and again; the more frequent are repeated.
var actsAgain = []simnode.Act{simnode.Refuses, simnode.Refuses, simnode.Unreachable, simnode.Holds, simnode.Holds, simnode.Pays}

// outlasts reports whether payments to a wallet may hang for longer than its invoices are valid.
func (w *world) outlasts(p *purse) bool { return w.plan.outlasts && p.owner == 0 }

// offerAgain is the last invoice of a wallet, and the receiver thinks anew about its payments. Once it is paid or has
// expired, or if there is none, it is mostly another one.
func (ws *wallets) offerAgain(p *purse, amount paidaction.Msat, key string) *issued {
	w, inv := ws.world, p.last
	if inv == nil || (p.receiver.Receipt(inv.Hash).Payments > 0 || w.outlasts(p) && w.Now().After(inv.expires)) && !w.chance.happens(0.2, key+" though it is paid", inv.offers) {
		inv = ws.issue(p, amount, key)
	}
	inv.offers++
	ws.thinkAgain(p, inv, key, inv.offers)
	return inv
}

// thinkAgain has a receiver decide anew what becomes of the payments of an invoice, unless there is one already.
func (ws *wallets) thinkAgain(p *purse, inv *issued, key string, n int) {
	if now := p.receiver.Receipt(inv.Hash); now.Payments == 0 && now.Held == 0 && !ws.world.calm {
		inv.act = actsAgain[ws.world.chance.below(len(actsAgain), key+" again", n)]
		p.receiver.Change(inv.Hash, inv.act)
		ws.mayHang(p, inv, key, n)
	}
}

// claimed has others look after a payment just while its worker is about to send it.
func (w *world) claimed(f *fiber) {
	f.claimed = true
	if !w.plan.again || w.calm {
		return
	}
	for i, node := range slices.Repeat(w.nodes.Names(), 2) {
		key := fmt.Sprintf("%s claims at %d, and others look %d", f.name, f.seen, i)
		w.queue.add(w.tick+w.chance.between(0, 60*time.Millisecond, key, 0), func() { w.audit(node, key, true) })
	}
}

// audit has a process look after the payments of a node.
func (w *world) audit(node, name string, lingers bool) {
	if p := w.alive(name, 1); p != nil {
		w.spawn(p, name, "", 0, 0, func(ctx context.Context) {
			fiberOf(ctx).lingers = lingers
			_ = p.relay.Audit(ctx, node, p.engine.Drive)
		})
	}
}

// leftBehind is what others do while a worker stands still between its claim and the send: once the claim is over they look
// after it, and send the payment again. Just before the worker goes on, the receivers think again.
func (w *world) leftBehind(f *fiber, stall time.Duration) {
	for i, node := range w.nodes.Names() {
		key := fmt.Sprintf("%s at the clock %d, and others look %d", f.name, f.looks, i)
		over := w.tick + sendWindow + claimGrace + w.chance.between(time.Second, 20*time.Second, key, 0)
		w.queue.add(over, func() { w.audit(node, key, false) })
		w.queue.add(over+w.chance.between(time.Second, 10*time.Second, key, 2), func() { w.work(node, key+" and send", f.label, w.alive(key, 3)) })
	}
	w.queue.add(w.tick+max(0, stall-time.Second), func() {
		for _, p := range w.outside {
			if p.last != nil {
				w.wallets.thinkAgain(p, p.last, fmt.Sprintf("%s at the clock %d", f.name, f.looks), 0)
			}
		}
	})
}
