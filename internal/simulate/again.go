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

// drawAgain has people withdraw one invoice again and again, in every third seed.
func (p *plan) drawAgain() {
	if p.again = p.seed%3 == 2; !p.again {
		return
	}
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

// offerAgain is the last invoice of a wallet, and the receiver thinks anew about its payments. Once it is paid, or if there
// is none, it is mostly another one.
func (ws *wallets) offerAgain(p *purse, amount paidaction.Msat, key string) *issued {
	w, inv := ws.world, p.last
	if inv == nil || p.receiver.Receipt(inv.Hash).Payments > 0 && !w.chance.happens(0.2, key+" though it is paid", inv.offers) {
		inv = ws.issue(p, amount, key)
	}
	inv.offers++
	if now := p.receiver.Receipt(inv.Hash); now.Payments == 0 && now.Held == 0 && !w.calm {
		inv.act = actsAgain[w.chance.below(len(actsAgain), key+" again", inv.offers)]
		p.receiver.Change(inv.Hash, inv.act)
		ws.mayHang(p, inv, key, inv.offers)
	}
	return inv
}

// claimed has others look after a payment just while its worker is about to send it.
func (w *world) claimed(f *fiber) {
	if !w.plan.again || w.calm {
		return
	}
	for i, node := range slices.Repeat(w.nodes.Names(), 2) {
		key := fmt.Sprintf("%s claims at %d, and others look %d", f.name, f.seen, i)
		w.queue.add(w.tick+w.chance.between(0, 60*time.Millisecond, key, 0), func() {
			if p := w.alive(key, 1); p != nil {
				w.spawn(p, key, "", 0, 0, func(ctx context.Context) {
					fiberOf(ctx).lingers = true
					_ = p.relay.Audit(ctx, node, p.engine.Drive)
				})
			}
		})
	}
}
