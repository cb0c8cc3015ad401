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

// metric returns the value of a metric, or -1 if it is not shown.
func (v *watcher) metric(name, invariant string) float64 {
	v.Helper()
	families, err := v.registry.Gather()
	if err != nil {
		v.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "holdfast_reconcile_"+name && (invariant == "" || m.GetLabel()[0].GetValue() == invariant) {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

func (v *watcher) want(what, name, invariant string, want float64) {
	v.Helper()
	if got := v.metric(name, invariant); got != want {
		v.Errorf("%s: holdfast_reconcile_%s of %q is %v, want %v", what, name, invariant, got, want)
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
