package simulate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// wallets are the receivers' own, outside the service.
type wallets struct {
	world    *world
	all      []*purse
	failures map[[2]int64]int // by wallet and genesis
}

// purse is the wallet of a receiver, or of somebody outside.
type purse struct {
	id       int64
	owner    int64 // 0: no user's
	receiver *simnode.Receiver
	issued   map[paidaction.Hash]*issued
	last     *issued // the newest
}

// issued is a receiver's invoice.
type issued struct {
	simnode.Issued
	amount  paidaction.Msat
	act     simnode.Act
	expires time.Time
	offers  int // how often it was offered again
}

func (ws *wallets) add(owner int64) *purse {
	id := int64(len(ws.all) + 1)
	p := &purse{id: id, owner: owner, receiver: ws.world.network.AddReceiver(fmt.Sprintf("receiver %d", id)),
		issued: map[paidaction.Hash]*issued{}}
	ws.all = append(ws.all, p)
	return p
}

// acts are what receivers do; the more frequent are repeated.
var acts = []simnode.Act{simnode.Pays, simnode.Pays, simnode.Pays, simnode.Pays, simnode.Pays, simnode.Pays, simnode.Holds, simnode.Splits, simnode.TakesPart,
	simnode.Refuses, simnode.Unreachable, simnode.Unsteady}

// issue makes an invoice, and decides what becomes of its payments.
func (ws *wallets) issue(p *purse, amount paidaction.Msat, key string) *issued {
	w := ws.world
	n := len(p.issued)
	key = fmt.Sprintf("%s wallet %d", key, p.id)
	act := simnode.Pays
	if !w.calm {
		act = acts[w.chance.below(len(acts), key+" act", n)]
		if aim := w.plan.aim; aim != nil && (aim.step.When == paidaction.OutgoingRefused || aim.step.From == paidaction.FailedForward) && w.chance.happens(0.6, key+" aim", n) {
			act = simnode.Refuses
		}
	}
	ask := simnode.Ask{Amount: amount, Act: act, Truncate: w.chance.happens(0.2, key+" truncates", n)}
	ask.Expiry = time.Hour
	if w.chance.happens(0.2, key+" expiry", n) {
		ask.Expiry = 10 * time.Minute
	}
	if w.outlasts(p) && w.chance.happens(0.4, key+" expires soon", n) {
		ask.Expiry = w.chance.between(40*time.Second, 4*time.Minute, key+" expires", n).Truncate(time.Second)
	}
	inv := &issued{Issued: p.receiver.Issue(ask), amount: amount, act: act, expires: w.Now().Add(ask.Expiry)}
	if ask.Truncate {
		inv.amount -= inv.amount % 1000
	}
	p.issued[inv.Hash], p.last = inv, inv
	ws.mayHang(p, inv, key, n)
	return inv
}

// mayHang has a payment that a receiver lets hang end some time later.
func (ws *wallets) mayHang(p *purse, inv *issued, key string, n int) {
	w := ws.world
	if inv.act == simnode.Holds || inv.act == simnode.Splits || inv.act == simnode.Unsteady {
		later := w.chance.between(time.Second, 5*time.Minute, key+" resolves", n)
		if w.outlasts(p) && w.chance.happens(0.5, key+" for long", n) {
			later = w.chance.between(5*time.Minute, 20*time.Minute, key+" resolves", n)
		}
		gives := w.chance.happens(0.6, key+" gives", n) || inv.act == simnode.Splits
		w.queue.add(w.tick+later, func() { ws.resolve(p, inv, gives) })
	}
}

// resolve ends a payment that a receiver has let hang.
func (ws *wallets) resolve(p *purse, inv *issued, takes bool) {
	var err error
	switch {
	case inv.act == simnode.Unsteady || !takes:
		to := simnode.Pays
		if !takes {
			to = simnode.Refuses
		}
		p.receiver.Change(inv.Hash, to)
		err = p.receiver.Cancel(inv.Hash)
	default:
		p.receiver.Change(inv.Hash, simnode.Pays)
		err = p.receiver.Settle(inv.Hash)
	}
	if err == nil {
		ws.world.tell(nil, "receiver %d ends what hung: takes it %t", p.id, takes)
	}
	ws.world.network.Tick()
	ws.world.look()
}

// resolveAll ends all payments that hang.
func (ws *wallets) resolveAll() {
	for _, p := range ws.all {
		for _, hash := range slices.SortedFunc(maps.Keys(p.issued), func(a, b paidaction.Hash) int { return bytes.Compare(a[:], b[:]) }) {
			inv := p.issued[hash]
			ws.resolve(p, inv, inv.act == simnode.Splits || ws.world.chance.happens(0.5, fmt.Sprintf("purse %d at the end", p.id), int(hash[0])))
		}
	}
}

// preimage is that of a receiver's invoice.
func (ws *wallets) preimage(h paidaction.Hash) (paidaction.Preimage, bool) {
	for _, p := range ws.all {
		if inv := p.issued[h]; inv != nil {
			return inv.Preimage, true
		}
	}
	return paidaction.Preimage{}, false
}

func (ws *wallets) of(owner int64) (mine []*purse) {
	for _, p := range ws.all {
		if p.owner == owner && owner != 0 {
			mine = append(mine, p)
		}
	}
	return mine
}

// Has implements relay.Wallets.
func (ws *wallets) Has(_ context.Context, owner int64) (bool, error) {
	return len(ws.of(owner)) > 0, nil
}

// Asked implements relay.Wallets: nobody removes a wallet.
func (ws *wallets) Asked(context.Context, int64) (bool, error) { return true, nil }

// Each implements relay.Wallets.
func (ws *wallets) Each(ctx context.Context, owner, genesis int64, amount paidaction.Msat, _ string, try func(int64, string) error) error {
	failures := func(p *purse) int { return ws.failures[[2]int64{p.id, genesis}] }
	mine := ws.of(owner)
	slices.SortStableFunc(mine, func(x, y *purse) int { return cmp.Compare(failures(x), failures(y)) })
	for _, p := range mine {
		if failures(p) >= 2 {
			continue
		}
		bolt11, err := ws.ask(ctx, p, amount)
		if err == nil {
			err = try(p.id, bolt11)
			if _, refusal := paidaction.AsRefusal(err); !refusal {
				return err
			}
		}
		if f := fiberOf(ctx); f != nil && f.dead() {
			return errDead
		}
	}
	return paidaction.ErrNoReceiver
}

// ask calls a wallet's server.
func (ws *wallets) ask(ctx context.Context, p *purse, amount paidaction.Msat) (string, error) {
	f := fiberOf(ctx)
	switch f.yield(beforeCall, "a wallet") {
	case died:
		return "", errDead
	case callFails:
		return "", simnode.ErrUnavailable
	}
	give := ws.issue
	if w := ws.world; w.plan.again && w.chance.happens(0.2, f.name+" offers again", f.seen) {
		give = ws.offerAgain
	}
	inv := give(p, amount, f.name)
	switch f.yield(afterCall, "a wallet") {
	case died:
		return "", errDead
	case answerIsLost:
		return "", simnode.ErrAnswerLost
	}
	return inv.Bolt11, ctx.Err()
}

// Failed implements relay.Wallets. A transaction that is undone leaves its count here, which changes only which
// wallets the next attempt asks.
func (ws *wallets) Failed(ctx context.Context, _ *db.Queries, wallet, genesis int64, _ paidaction.FailureReason) error {
	if f := fiberOf(ctx); f != nil && f.dead() {
		return errDead
	}
	ws.failures[[2]int64{wallet, genesis}]++
	return nil
}

// Address implements relay.Wallets: the address of a wallet is its number. One that gives nothing refuses.
func (ws *wallets) Address(ctx context.Context, address string, amount paidaction.Msat, _ string) (string, error) {
	var id int64
	if _, err := fmt.Sscanf(address, "%d@", &id); err != nil || id < 1 || int(id) > len(ws.all) {
		return "", paidaction.Errorf(paidaction.CodeInvalidInput, "Nobody has the address %q.", address)
	}
	bolt11, err := ws.ask(ctx, ws.all[id-1], amount)
	if err != nil {
		err = paidaction.Errorf(paidaction.CodeInvalidInput, "The address gave no invoice.").Because(err)
	}
	return bolt11, err
}
