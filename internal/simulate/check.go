package simulate

import (
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// check runs when everything is over: it checks the model, and every invariant that an operator's reconcile knows.
func (w *world) check() {
	switch {
	case w.forgot():
		w.checkForgotten()
		return
	case w.loss != nil:
		w.checkLost()
		return
	}
	w.model.check()
	report, err := reconcile.Run(w.ctx, w.reconciling())
	if err != nil {
		w.violate("reconcile", "%v", err)
		return
	}
	for _, unknown := range report.Unknown {
		w.violate("reconcile", "%s", unknown)
	}
	for _, i := range report.Invariants {
		for _, b := range i.Breaks {
			w.violate("invariant", "%d (%s): %s", i.ID, i.Name, b)
		}
	}
}

// reconcileExcept has every invariant hold but for what is excused.
func (w *world) reconcileExcept(excused func(reconcile.Break) bool) {
	report, err := reconcile.Run(w.ctx, w.reconciling())
	if err != nil {
		w.violate("reconcile", "%v", err)
		return
	}
	for _, i := range report.Invariants {
		for _, b := range i.Breaks {
			if !excused(b) {
				w.violate("invariant", "%d (%s): %s", i.ID, i.Name, b)
			}
		}
	}
}

// payAt pays an action's invoice at the node that issued it.
func payAt(ns simnode.Nodes, pa *paidaction.PaidAction) error {
	node, err := ns.Sender(pa.Invoice.Node)
	if err != nil {
		return err
	}
	return node.(*simnode.Node).PayBolt11(pa.Invoice.Bolt11, simnode.Payment{})
}
