package community_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// failing is one way in which an attempt can come to nothing.
type failing struct {
	name string
	run  func(d *drive, failed *paidaction.PaidAction, m paidaction.Method) *paidaction.PaidAction
}

var failings = map[paidaction.Flow][]failing{
	paidaction.FlowOptimistic:  {{"cancelled", (*drive).givenUp}, {"never issued", (*drive).neverIssued}},
	paidaction.FlowPessimistic: {{"cancelled", (*drive).givenUp}, {"gone once held", (*drive).goneOnceHeld}, {"never issued", (*drive).neverIssued}},
	paidaction.FlowWrapped:     {{"cancelled", (*drive).givenUp}, {"receiver not reached", (*drive).missed}},
}

// failure is an attempt by a method, and how it fails.
type failure struct {
	method paidaction.Method
	how    failing
}

func (f failure) String() string { return string(f.method) + " " + f.how.name }

// inTwoWays are the actions that fail by two methods before they succeed by a third: one that makes an item, and one that has every method.
var inTwoWays = []string{community.KindItemCreate, community.KindZap}

// TestEveryActionTriedAgainByOtherMethods: whatever the failed attempts have left behind, the last one counts, alone and once, and
// what an action that can be performed before it is paid has made once is not made anew (spec 01 §1.7).
// The ways of failing take turns from one case to the next.
func TestEveryActionTriedAgainByOtherMethods(t *testing.T) {
	t.Parallel()
	for _, def := range community.Actions(community.DefaultSettings()) {
		spec := def.Spec()
		failable := slices.DeleteFunc(slices.Clone(spec.Methods), func(m paidaction.Method) bool { return failings[m.Flow()] == nil })
		var before [][]paidaction.Method
		for _, one := range failable {
			before = append(before, []paidaction.Method{one})
			for _, two := range failable {
				if one != two && slices.Contains(inTwoWays, spec.Kind) {
					before = append(before, []paidaction.Method{one, two})
				}
			}
		}
		for i, methods := range before {
			lasts := spec.Methods
			if len(methods) > 1 { // of these one is enough
				lasts = slices.DeleteFunc(slices.Clone(lasts), func(m paidaction.Method) bool { return slices.Contains(methods, m) })
				lasts = lasts[i%len(lasts):][:1]
			}
			for turn, last := range lasts {
				if last == paidaction.ZeroCost { // what has failed had a price
					continue
				}
				for shift, payer := range payersOf(spec, append(slices.Clone(methods), last)...) {
					var failures []failure
					name := spec.Kind + "/"
					for k, m := range methods {
						ways := failings[m.Flow()]
						f := failure{m, ways[(turn+shift+k)%len(ways)]}
						failures = append(failures, f)
						name += f.String() + ", then "
					}
					name += string(last)
					if payer == "" {
						name += "/anonymous"
					}
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						if d := play(enginetest.New(t, paidaction.Settings{}), spec, last, payer); d != nil {
							d.triedAgainAfter(failures)
						}
					})
				}
			}
		}
	}
}

// triedAgainAfter has attempts fail one after the other, and the next one succeed by the scene's method.
func (d *drive) triedAgainAfter(failures []failure) {
	defer d.wantTakenOver()
	d.note()
	if d.wallet == nil && d.receiver != 0 {
		d.wallet = d.Wallets.Add(d.receiver)
	}
	var failed *paidaction.PaidAction
	var made []byte
	for _, f := range failures {
		failed = f.how.run(d, failed, f.method)
		d.wantUnseen("after " + f.String())
		if made == nil {
			made = d.Look(failed.ID).Result
		}
	}
	pa := d.ask(failed, d.method)
	d.WantState(failed.ID, paidaction.Retrying)
	if pa.Attempt != len(failures)+1 || pa.Method != d.method {
		d.Errorf("attempt %d by %s", pa.Attempt, pa.Method)
	}
	switch d.method.Flow() {
	case paidaction.FlowBalance:
		d.Drain()
		d.wantPaid(pa.ID)
	case paidaction.FlowWrapped:
		d.forward(pa)
	default:
		d.wantOpen(pa)
		d.finish(pa)
	}
	if is := d.Look(pa.ID).Result; d.keeps && made != nil && !bytes.Equal(is, made) {
		d.Errorf("it made %s, and a failed attempt %s", is, made)
	}
	d.wantNothingLeft()
	d.WantSound()
}

func (d *drive) givenUp(failed *paidaction.PaidAction, m paidaction.Method) *paidaction.PaidAction {
	d.Helper()
	pa := d.ask(failed, m)
	d.cancel(pa)
	return pa
}

// neverIssued: the node is not there when it is asked for the invoice, and nobody hears of one.
func (d *drive) neverIssued(failed *paidaction.PaidAction, m paidaction.Method) *paidaction.PaidAction {
	d.Helper()
	d.Node.FailBefore(simnode.MethodOpen, 1)
	_, err := d.tryAsk(failed, m)
	d.WantRefusal(err, paidaction.CodeLightningUnavailable)
	d.Clock.Advance(time.Minute)
	id := d.Count(`SELECT max(id) FROM paid_action`)
	d.Advance(id)
	return d.WantState(id, paidaction.Failed)
}

// goneOnceHeld: the action is performed, and the node gives the held payment back before it is settled.
func (d *drive) goneOnceHeld(failed *paidaction.PaidAction, m paidaction.Method) *paidaction.PaidAction {
	d.Helper()
	pa := d.ask(failed, m)
	d.send(pa)
	d.Advance(pa.ID)
	d.WantState(pa.ID, paidaction.Held)
	if err := d.Node.Cancel(d.Ctx, pa.Invoice.Hash); err != nil {
		d.Fatal(err)
	}
	d.Advance(pa.ID)
	d.WantState(pa.ID, paidaction.Failed)
	return pa
}

// missed: the receiver refuses the payment. From then on they take what comes.
func (d *drive) missed(failed *paidaction.PaidAction, m paidaction.Method) *paidaction.PaidAction {
	d.Helper()
	d.wallet.Ask.Act = simnode.Refuses
	pa := d.ask(failed, m)
	d.miss(pa)
	d.wallet.Ask.Act = simnode.Pays
	return pa
}
