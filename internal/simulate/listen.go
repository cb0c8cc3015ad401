package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/worker"
)

// listener is a process that follows a node. Package worker decides what it does with events; this file decides which
// events come, and when.
type listener struct {
	*worker.Listener
	process *process
	node    *simnode.Node
	inbox   []paidaction.InvoiceEvent
	busy    bool
	watched map[paidaction.Hash]bool // hold invoices with a stream of their own
	turns   int
}

// noStreams stands in for the node's streams, because the world delivers events itself.
type noStreams struct{}

func (noStreams) WatchInvoices(context.Context, uint64, uint64, func(paidaction.InvoiceEvent) error) error {
	return nil
}
func (noStreams) WatchInvoice(context.Context, paidaction.Hash, func(paidaction.InvoiceEvent) error) error {
	return nil
}
func (noStreams) WatchBlocks(context.Context, func(uint32) error) error { return nil }

// listen makes a process follow the nodes that are its own.
func (w *world) listen(p *process) error {
	for i, node := range w.nodes {
		also := w.plan.trouble > 0 && w.chance.happens(0.2, fmt.Sprintf("%s also follows", p), i)
		if i%len(w.processes) != p.number && !also {
			continue
		}
		real, err := worker.NewListener(p.worker.Config, node.Name(), noStreams{})
		if err != nil {
			return err
		}
		l := &listener{Listener: real, process: p, node: node, watched: map[paidaction.Hash]bool{}}
		l.Direct = func(action int64, do func(context.Context)) bool { return w.beside(l, action, do) }
		p.listeners = append(p.listeners, l)
		w.queue.add(w.tick+time.Millisecond, func() { w.connect(l, true) })
	}
	return nil
}

// beside drives an action that a listener has heard of, in a fiber of its own. Now and then there is no place for it.
func (w *world) beside(l *listener, action int64, do func(ctx context.Context)) bool {
	l.turns++
	label := w.labels[action]
	name := fmt.Sprintf("%s drives %s %d", l.process, label, l.turns)
	if !w.chance.happens(0.7, name, 0) {
		return false
	}
	w.queue.add(w.tick, func() {
		if !l.process.dead {
			w.spawn(l.process, name, label, action, jobLimit, do)
		}
	})
	return true
}

// connect opens the streams of a node. Missed events are replayed as far as the node does so, and looked up.
func (w *world) connect(l *listener, resume bool) {
	if l.process.dead || l.process.stopping || w.away[l.node.Name()] {
		return
	}
	w.turn(l, "connects to", func(ctx context.Context) error {
		if resume {
			if err := l.Resume(ctx); err != nil {
				return err
			}
		}
		cursor, err := db.New(w.database.pool).GetCursor(ctx, l.node.Name())
		if err == nil {
			l.inbox = append(l.inbox, replay(l.node, uint64(cursor.AddIndex), uint64(cursor.SettleIndex))...)
		}
		err = l.CatchUp(ctx)
		if err == nil {
			w.watchHolds(l)
		}
		return err
	}, func() { w.connect(l, resume) })
}

// replay returns the events that a node sends again after these indices, with LND's habits (see
// simnode.Node.WatchInvoices).
func replay(n *simnode.Node, addIndex, settleIndex uint64) (events []paidaction.InvoiceEvent) {
	for _, inv := range n.Invoices() {
		e := paidaction.InvoiceEvent{Hash: inv.Request.Hash, State: inv.State, AddIndex: inv.AddIndex, SettleIndex: inv.SettleIndex}
		added := addIndex > 0 && inv.AddIndex > addIndex && (inv.State == paidaction.InvoiceOpen || inv.State == paidaction.InvoiceSettled)
		settled := settleIndex > 0 && inv.SettleIndex > settleIndex
		if added || settled {
			events = append(events, e)
		}
	}
	return events
}

// watchHolds follows every open hold invoice.
func (w *world) watchHolds(l *listener) {
	for _, inv := range l.node.Invoices() {
		if inv.Request.Hold {
			l.watched[inv.Request.Hash] = true
		}
	}
}

// turn has a listener do one thing; it does one at a time. What failed is done again.
func (w *world) turn(l *listener, what string, do func(ctx context.Context) error, again func()) {
	l.turns++
	l.busy = true
	name := fmt.Sprintf("%s %s %s %d", l.process, what, l.node.Name(), l.turns)
	w.spawn(l.process, name, "", 0, 0, func(ctx context.Context) {
		err := do(ctx)
		l.busy = false
		if l.process.dead {
			return
		}
		if err != nil {
			w.queue.add(w.tick+w.chance.between(50*time.Millisecond, time.Second, name+" again", 0), again)
			return
		}
		if len(l.inbox) > 0 {
			w.queue.add(w.tick, func() { w.deliver(l) })
		}
	})
}

// deliver hands a listener its next event.
func (w *world) deliver(l *listener) {
	if l.busy || l.process.dead || l.process.stopping || len(l.inbox) == 0 {
		return
	}
	batch := l.inbox
	l.inbox = nil
	w.turn(l, "hears of", func(ctx context.Context) error {
		err := l.OnInvoices(ctx, batch)
		for _, e := range batch {
			if inv, ok := l.node.Inspect(e.Hash); ok && err == nil && inv.Request.Hold {
				l.watched[e.Hash] = true
			}
		}
		if err != nil {
			l.inbox = append(batch, l.inbox...)
		} else if w.chance.happens(0.3, l.process.String()+" stores its cursor", l.turns) {
			err = l.StoreCursor(ctx)
		}
		return err
	}, func() { w.deliver(l) })
}

// look finds out what has changed at the nodes, and sends it to the listeners.
func (w *world) look() {
	for _, n := range w.nodes {
		for _, inv := range n.Invoices() {
			h := inv.Request.Hash
			if w.known[h] == inv.State {
				continue
			}
			if w.known[h] == paidaction.InvoiceAccepted {
				w.left[h] = w.tick
			}
			w.known[h] = inv.State
			e := paidaction.InvoiceEvent{Hash: h, State: inv.State}
			if inv.State == paidaction.InvoiceOpen {
				e.AddIndex = inv.AddIndex
			}
			if inv.State == paidaction.InvoiceSettled {
				e.AddIndex, e.SettleIndex = inv.AddIndex, inv.SettleIndex
			}
			w.tell(nil, "%s: invoice %d is %s", n.Name(), inv.AddIndex, inv.State)
			if !w.away[n.Name()] {
				w.send(n, inv, e)
			}
			if inv.State == paidaction.InvoiceAccepted {
				w.hurry(fmt.Sprintf("%s invoice %d", n.Name(), inv.AddIndex), h)
			}
		}
	}
}

// send sends an event to everybody who follows the node. It may be lost, come twice, or come late and so out of order.
func (w *world) send(n *simnode.Node, inv simnode.Invoice, e paidaction.InvoiceEvent) {
	key := fmt.Sprintf("%s invoice %d %s", n.Name(), inv.AddIndex, inv.State)
	action, err := w.database.queries().ActionInvoicing(w.ctx, e.Hash[:])
	if err != nil {
		panic(err)
	}
	fault := func(p float64, fault Fault) bool {
		name := key + " " + string(fault)
		if w.calm || w.plan.trouble == 0 || !w.chance.happens(w.more(p, action, fault), name, 0) || w.without[name] {
			return false
		}
		w.met = append(w.met, name)
		w.faults++
		w.tell(nil, "%s", name)
		w.touch(action, fault)
		return true
	}
	if fault(0.05, eventDropped) {
		return
	}
	times, delay := 1, w.chance.between(time.Millisecond, 40*time.Millisecond, key, 0)
	if fault(0.05, eventRepeated) {
		times = 3
	}
	if fault(0.05, eventDelayed) {
		delay = w.chance.between(time.Second, 2*time.Minute, key, 1)
	}
	for i := range times {
		w.queue.add(w.tick+delay*time.Duration(i+1), func() {
			for _, p := range w.processes {
				for _, l := range p.listeners {
					all := e.State == paidaction.InvoiceOpen || e.State == paidaction.InvoiceSettled
					if l.node == n && !p.dead && (all || l.watched[e.Hash]) {
						l.inbox = append(l.inbox, e)
						w.deliver(l)
					}
				}
			}
		})
	}
}

// actionOf is the action whose payment, the payer's or our own, has this hash; 0: none. Of several attempts it is the
// last.
func (w *world) actionOf(h paidaction.Hash) int64 {
	action, err := w.database.queries().ActionOf(w.ctx, h[:])
	if err != nil {
		panic(err)
	}
	return action
}

// mine adds blocks, and tells the listeners.
func (w *world) mine(blocks uint32) {
	w.network.Mine(blocks)
	w.tell(nil, "%d blocks, height %d", blocks, w.network.Height())
	w.look()
	for _, p := range w.processes {
		for _, l := range p.listeners {
			if !p.dead && !w.away[l.node.Name()] {
				w.height(l)
			}
		}
	}
}

func (w *world) height(l *listener) {
	if l.process.dead || l.process.stopping {
		return
	}
	height := l.node.Height()
	l.turns++
	name := fmt.Sprintf("%s sees block %d of %s %d", l.process, height, l.node.Name(), l.turns)
	w.spawn(l.process, name, "", 0, 0, func(ctx context.Context) {
		if err := l.OnHeight(ctx, height); err != nil && !l.process.dead {
			w.queue.add(w.tick+time.Second, func() { w.height(l) })
		}
	})
}
