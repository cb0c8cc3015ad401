package reconcile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// watcher is the watch of one process.
type watcher struct {
	*enginetest.World
	watch    *reconcile.Watch
	registry *prometheus.Registry
	log      bytes.Buffer
}

const every = 10 * time.Minute

func watching(w *enginetest.World) *watcher {
	v := &watcher{World: w, registry: prometheus.NewRegistry()}
	v.watch = reconcile.NewWatch(compared(w), every, slog.New(slog.NewTextHandler(&v.log, nil)), v.registry)
	return v
}

func (v *watcher) turn() {
	v.Helper()
	v.log.Reset()
	if err := v.watch.Turn(v.Ctx); err != nil {
		v.Fatal(err)
	}
}

// metric returns the value of a metric, or -1 if it is not shown: of an invariant ("9"), which is that of all its kinds
// together, or of one of them ("9 on-chain").
func (v *watcher) metric(name, of string) float64 {
	v.Helper()
	families, err := v.registry.Gather()
	if err != nil {
		v.Fatal(err)
	}
	value, shown := 0.0, false
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels strings.Builder
			for _, label := range m.GetLabel() {
				labels.WriteString(label.GetValue() + " ")
			}
			if f.GetName() == "holdfast_reconcile_"+name && (of == "" || strings.HasPrefix(labels.String(), of+" ")) {
				value, shown = value+m.GetGauge().GetValue(), true
			}
		}
	}
	if !shown {
		return -1
	}
	return value
}

func (v *watcher) want(what, name, of string, want float64) {
	v.Helper()
	if got := v.metric(name, of); got != want {
		v.Errorf("%s: holdfast_reconcile_%s of %q is %v, want %v", what, name, of, got, want)
	}
}

// One process reconciles; all show what it found.
func TestTheWatchRunsInOneProcess(t *testing.T) {
	t.Parallel()
	w := lived(t)
	first, second := watching(w), watching(w)
	second.want("before there was a run", "broken", "1", -1)
	first.turn()
	began := float64(w.Clock.Now().UnixMilli()) / 1000
	exec(w, `UPDATE account SET balance = balance + 1 WHERE id = 17`)
	w.Clock.Advance(every / 2)
	for _, v := range []*watcher{first, second} {
		v.turn()
		v.want("shown from the first", "broken", "1", 0)
		v.want("shown from the first", "last_run_timestamp_seconds", "", began)
		v.want("shown from the first", "unknown", "", 0)
	}
	if second.metric("duration_seconds", "") < 0 {
		t.Error("how long it took is not shown")
	}
	w.Clock.Advance(every / 2)
	second.turn()
	for _, v := range []*watcher{first, second} {
		v.turn()
		v.want("a break", "broken", "1", 1)
		v.want("nothing else", "broken", "2", 0)
	}
}

// An alarm lasts until it is mended, not just until the next run: what is broken does not move, and so is not among the
// changes. Each run says what is broken and what to do.
func TestWhatIsBrokenStaysSo(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `UPDATE zap SET state = 'PAID' WHERE state = 'FAILED'`)
	pay(w, w.Node, w.Network.AddReceiver("stranger").Issue(simnode.Ask{Amount: 5 * sat}).Bolt11)
	v := watching(w)
	for range 3 {
		v.turn()
		v.want("broken", "broken", "3", 1)
		v.want("broken", "broken", "9", 1)
		log := v.log.String()
		if strings.Count(log, "level=ERROR") != 2 || !strings.Contains(log, "the zap of action") || !strings.Contains(log, "holdfast actions show") {
			t.Errorf("%s", log)
		}
		w.Clock.Advance(72 * time.Hour)
	}
	exec(w, `UPDATE zap SET state = 'FAILED' FROM paid_action WHERE paid_action.id = zap.action_id AND paid_action.state IN ('FAILED', 'RETRYING')`)
	v.turn()
	v.want("mended", "broken", "3", 0)
	v.want("not mended", "broken", "9", 1)
}

// Each kind of break has its own number, so that the alarm for what waits for the chain, which may take weeks, says so and
// is told from that for anything else.
func TestEachKindOfBreakIsToldApart(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	v := watching(w)
	want := func(what string, onChain, notRecorded float64) {
		t.Helper()
		v.turn()
		v.want(what, "broken", "9 on-chain", onChain)
		v.want(what, "broken", "9 not-recorded", notRecorded)
		v.want(what, "broken", "9", onChain+notRecorded)
		w.Clock.Advance(every)
	}
	want("nothing is broken", 0, 0)
	pa := w.Pay(w.User("payer", 0, 0), community.KindItemCreate, community.ItemCreateArgs{Title: "a post"}, paidaction.Optimistic)
	if _, err := w.Node.AddPartByForce(pa.Invoice.Hash, pa.Cost, 0); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	want("a payment is on the chain", 1, 0)
	pay(w, w.Node, w.Network.AddReceiver("stranger").Issue(simnode.Ask{Amount: 5 * sat}).Bolt11)
	want("another was made by hand", 1, 1)
	if err := w.Engine.NeverArrived(w.Ctx, pa.ID, "Your payment did not arrive."); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	want("the first never arrived", 0, 1)
}

// What is counted and not listed is of no kind, nor is what another version of the program has found: it sounds all the same.
func TestWhatIsOfNoKindIsToldToo(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `ALTER TABLE account DROP CONSTRAINT user_balance_not_negative; INSERT INTO account SELECT id * 16, -1 FROM generate_series(1000, 1029) id`)
	v := watching(w)
	v.turn()
	if listed, more := v.metric("broken", "1 below-zero"), v.metric("broken", "1 more"); listed <= 0 || more <= 0 || listed+more != 30 {
		t.Errorf("%v are listed as below zero, and %v are more", listed, more)
	}
	exec(w, `UPDATE reconcile_run SET report = jsonb_set(report, '{invariants,8}', '{"id": 9, "broken": 3, "breaks": [{"kind": "unheard-of"}, {"kind": "on-chain"}]}')`)
	v.turn()
	v.want("found by another", "broken", "9 on-chain", 1)
	v.want("found by another", "broken", "9 more", 2)
}

// What a node could not be asked is asked when it is back. What it was known to have stays until then.
func TestANodeThatWasAwayIsAskedLater(t *testing.T) {
	t.Parallel()
	w := lived(t)
	v := watching(w)
	w.Node.SetAway(true)
	v.turn()
	v.want("away", "unknown", "", 1)
	v.want("away", "broken", "9", 0)
	if !strings.Contains(v.log.String(), "level=WARN") {
		t.Errorf("%s", v.log.String())
	}
	exec(w, guardsOff+someAction.Replace(`UPDATE posting SET msat = msat + 1 WHERE action_id = {opt} AND from_account = 0`)+guardsOn)
	w.Node.SetAway(false)
	w.Clock.Advance(every)
	v.turn()
	v.want("back", "unknown", "", 0)
	v.want("back", "broken", "9", 1)
	w.Node.SetAway(true)
	w.Clock.Advance(every)
	v.turn()
	v.want("away again", "broken", "9", 1)
}

// What ended before the last run and was never broken is left to a full run.
func TestAPartialRunIsBounded(t *testing.T) {
	t.Parallel()
	w := lived(t)
	v := watching(w)
	v.turn()
	w.Clock.Advance(time.Hour)
	exec(w, `UPDATE zap SET state = 'PAID' WHERE state = 'FAILED'`)
	v.turn()
	v.want("long ago", "broken", "3", 0)
	if found := run(t, w).Invariants[2]; found.Broken != 3 { // the zap, and what its item counts of it, in two sums
		t.Errorf("a whole run: %+v", found)
	}
}

// A run by a clock that was ahead holds up no later run, and hides nothing from it.
func TestAClockThatWasAheadHidesNothing(t *testing.T) {
	t.Parallel()
	w := lived(t)
	v := watching(w)
	w.Clock.Advance(30 * 24 * time.Hour)
	v.turn()
	w.Clock.Advance(-30 * 24 * time.Hour)
	exec(w, `UPDATE zap SET state = 'PAID' WHERE state = 'FAILED'`)
	w.Clock.Advance(every)
	v.turn()
	v.want("after a run of next month's", "broken", "3", 1)
	v.want("after a run of next month's", "last_run_timestamp_seconds", "", float64(w.Clock.Now().UnixMilli())/1000)
}

// What a process with a slow clock writes hides nothing from a partial run: neither what others wrote before it nor
// what it wrote itself.
func TestAClockThatIsBehindHidesNothing(t *testing.T) {
	t.Parallel()
	w := lived(t)
	v := watching(w)
	payer := w.User("donor", 100*sat, 0)
	v.turn()
	for _, which := range []string{"min", "max"} {
		for range 3 {
			w.Clock.Advance(every)
			v.turn()
		}
		w.Clock.Advance(every)
		w.Pay(payer, community.KindDonate, community.DonateArgs{Sats: 1}, "")
		w.Clock.Advance(-time.Hour)
		w.Pay(payer, community.KindDonate, community.DonateArgs{Sats: 1}, "")
		w.Clock.Advance(time.Hour)
		spoil := `UPDATE donation SET msat = msat ` + "%s" + ` 1 WHERE action_id = (SELECT ` + which + `(action_id) FROM (SELECT action_id FROM donation ORDER BY action_id DESC LIMIT 2) AS last)`
		exec(w, fmt.Sprintf(spoil, "+"))
		v.turn()
		v.want("beside one that is behind, "+which, "broken", "3", 1)
		exec(w, fmt.Sprintf(spoil, "-"))
		v.turn()
	}
}

// slow are nodes that take their time for each answer.
type slow struct {
	paidaction.Nodes
	asked func(paidaction.Hash)
}

func (s slow) Node(name string) (paidaction.Node, error) {
	node, err := s.Nodes.Node(name)
	if err != nil {
		return nil, err
	}
	return slowNode{node.(paidaction.SendingNode), s.asked}, nil
}

type slowNode struct {
	paidaction.SendingNode
	asked func(paidaction.Hash)
}

func (s slowNode) LookupInvoice(ctx context.Context, h paidaction.Hash) (paidaction.NodeInvoice, error) {
	s.asked(h)
	if ctx.Err() != nil {
		return paidaction.NodeInvoice{}, ctx.Err()
	}
	return s.SendingNode.LookupInvoice(ctx, h)
}

// A run that has no time for everything that has changed looks at the earliest changes first, and the next one goes on
// there, whether or not a node is silent meanwhile. What that node could not be asked is made up for once it answers.
func TestARunThatIsBehindGetsAhead(t *testing.T) {
	t.Parallel()
	const changes, answer = 6, 2 * time.Minute
	w := lived(t)
	first := watching(w)
	first.turn()
	payer := w.User("late", 0, 0)
	hashes := map[paidaction.Hash]int{}
	for range changes {
		w.Clock.Advance(every)
		pa := w.Pay(payer, community.KindDonate, community.DonateArgs{Sats: 1}, paidaction.Pessimistic)
		if err := w.Node.PayBolt11(pa.Invoice.Bolt11, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
		w.Advance(pa.ID)
		w.Drain()
		w.WantState(pa.ID, paidaction.Paid)
		hashes[paidaction.Hash(pa.Invoice.Hash)] = 0
	}
	w.Clock.Advance(every)

	var began time.Time
	var stop context.CancelFunc
	c := compared(w).InPages(1)
	v := &watcher{World: w, registry: prometheus.NewRegistry()}
	c.Nodes = slow{w.Nodes, func(h paidaction.Hash) {
		w.Clock.Advance(answer)
		if w.Clock.Now().Sub(began) > v.watch.Limit() {
			stop() // as the worker does
		}
		if _, late := hashes[h]; late {
			hashes[h]++
		}
	}}
	v.watch = reconcile.NewWatch(c, every, slog.New(slog.NewTextHandler(&v.log, nil)), v.registry)
	turn := func() float64 {
		t.Helper()
		w.Clock.Advance(every)
		began = w.Clock.Now()
		var ctx context.Context
		ctx, stop = context.WithCancel(w.Ctx)
		defer stop()
		if err := v.watch.Turn(ctx); err != nil {
			t.Fatal(err)
		}
		return v.metric("checked_timestamp_seconds", "")
	}
	seconds := func(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
	least := func(times int) bool {
		for _, n := range hashes {
			if n < times {
				return false
			}
		}
		return true
	}

	w.Nodes[1].SetAway(true)
	before := first.metric("checked_timestamp_seconds", "")
	start := before
	for range 2 * changes {
		if least(1) {
			break
		}
		checked := turn()
		if checked <= before && !least(1) {
			t.Fatalf("a run got no further than %v: %v, log %s", before, checked, v.log.String())
		}
		before = checked
	}
	if !least(1) || !strings.Contains(v.log.String(), "reconciling is behind") {
		t.Fatalf("not all was looked at: %v, log %s", hashes, v.log.String())
	}
	w.Nodes[1].SetAway(false)
	back := false
	for range 6 * changes {
		checked := turn()
		back = back || checked == start
		if back && checked == seconds(began) {
			break
		}
	}
	if !back || !least(2) || v.metric("checked_timestamp_seconds", "") != seconds(began) {
		t.Errorf("what the silent node could not be asked was not gone back to: back %v, %v, %v", back, hashes, v.log.String())
	}
}
