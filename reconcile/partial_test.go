package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// The periodic run, which does not add up all postings, finds as a full one does who owes, what nobody has, what does
// not back the credits, and what is left where money only passes through.
func TestTheMoneyIsLookedAtInEveryRun(t *testing.T) {
	t.Parallel()
	once := lived(t)
	for what, c := range map[string]struct{ kind, sql string }{
		"a user owes sats":              {"below-zero", `ALTER TABLE account DROP CONSTRAINT user_balance_not_negative; {transfer} VALUES (NULL, 16, 4, 1000000000, 'x', '2026-01-01') {booked}`},
		"a user owes credits":           {"below-zero", `ALTER TABLE account DROP CONSTRAINT user_balance_not_negative; {transfer} VALUES (NULL, 17, 3, 1000000000, 'x', '2026-01-01') {booked}`},
		"nobody has received sats":      {"nobody", `{transfer} VALUES (NULL, 16, 160000, 5, 'x', '2026-01-01') {booked}`},
		"too few sats back credits":     {"backing", `{transfer} VALUES (NULL, 1, 17, 5, 'x', '2026-01-01') {booked}`},
		"too many sats back credits":    {"backing", `{transfer} VALUES (NULL, 0, 2, 5, 'x', '2026-01-01') {booked}`},
		"credits have not passed":       {"clearing", `{transfer} VALUES (NULL, 17, 5, 5, 'x', '2026-01-01') {booked}`},
		"sats have not passed":          {"clearing", `{transfer} VALUES (NULL, 16, 10, 5, 'x', '2026-01-01') {booked}`},
		"more sats have left than came": {"clearing", `{transfer} VALUES (NULL, 10, 16, 5, 'x', '2026-01-01') {booked}`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := copied(t, once)
			exec(w, guardsOff+someAction.Replace(c.sql)+guardsOn)
			for _, changed := range []time.Time{{}, w.Clock.Now().Add(-time.Hour)} {
				config := compared(w)
				config.Changed = changed
				report, err := reconcile.Run(w.Ctx, config)
				if err != nil {
					t.Fatal(err)
				}
				told := 0
				for _, b := range report.Invariants[0].Breaks {
					if b.Kind == c.kind {
						told++
					}
				}
				if told != 1 || report.OK {
					t.Errorf("changed since %s: %+v", changed, report.Invariants[0])
				}
			}
		})
	}
}

// What was booked by a slow clock is looked at, too, although its action took no step: the next posting, not the next
// time, is where a run goes on.
func TestAPostingByAClockThatIsBehindIsLookedAt(t *testing.T) {
	t.Parallel()
	w := lived(t)
	v := watching(w)
	donated := w.Pay(w.User("donor", 100*sat, 0), community.KindDonate, community.DonateArgs{Sats: 1}, "")
	for range 4 {
		w.Clock.Advance(every)
		v.turn()
	}
	w.Clock.Advance(every)
	exec(w, fmt.Sprintf(`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (%[1]d, 16, 4, 5, 'x', '%[2]s'), (%[1]d, 4, 16, 4, 'x', '%[2]s')`,
		donated.ID, w.Clock.Now().Add(-time.Hour).Format(time.RFC3339)))
	v.turn()
	v.want("booked an hour ago by the process's clock", "broken", "2", 1)
}

// silent are nodes that do not say which payments they have taken.
type silent struct{ paidaction.Nodes }

func (s silent) Node(name string) (paidaction.Node, error) {
	node, err := s.Nodes.Node(name)
	if err != nil {
		return nil, err
	}
	return silentNode{node.(paidaction.SendingNode)}, nil
}

type silentNode struct{ paidaction.SendingNode }

func (silentNode) EachSettled(context.Context, time.Time, func(paidaction.NodeInvoice) error) error {
	return errors.New("this node does not list its invoices")
}

// Nobody is told that all is well where a node does not say what it has taken.
func TestANodeThatDoesNotSayWhatItTookIsUnknown(t *testing.T) {
	t.Parallel()
	w := lived(t)
	config := compared(w)
	config.Nodes = silent{w.Nodes}
	report, err := reconcile.Run(w.Ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	if report.OK || len(report.Unknown) != len(config.Issuers) || !strings.Contains(report.Unknown[0], "does not list its invoices") {
		t.Errorf("%+v", report)
	}
}

// A payment that may still be made is asked for in every run, however long ago it moved, and although its action has
// ended.
func TestAPaymentThatMayBeMadeIsAskedForInEveryRun(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, someAction.Replace(`UPDATE relay_payment SET stage = 'pending_confirmation', fee_msat = NULL WHERE action_id = {wrapped}`))
	w.Clock.Advance(48 * time.Hour)
	config := compared(w)
	config.Changed = w.Clock.Now().Add(-time.Hour)
	config.Nodes = liars{Nodes: config.Nodes, payment: func(*paidaction.PaymentUpdate) error { return paidaction.ErrPaymentNotFound }}
	report, err := reconcile.Run(w.Ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	if found := report.Invariants[8]; found.Broken != 1 || found.Breaks[0].Kind != "payment-lost" {
		t.Errorf("%+v", found)
	}
}

// A run that is out of time has not looked at everything. So it never says that all is well, although nothing that it
// saw is broken.
func TestARunThatIsOutOfTimeIsNotAllRight(t *testing.T) {
	t.Parallel()
	w := lived(t)
	since := w.Clock.Now()
	donor := w.User("donor", 100*sat, 0)
	for range 3 {
		w.Clock.Advance(every)
		w.Pay(donor, community.KindDonate, community.DonateArgs{Sats: 1}, "")
	}
	for _, quarters := range []time.Duration{1, 2, 3} {
		config := compared(w).InPages(1)
		config.Changed, config.Within = since, 4*time.Second
		began := true
		config.Now = func() time.Time {
			if began {
				began = false
				return w.Clock.Now()
			}
			return w.Clock.Now().Add(quarters * config.Within / 4)
		}
		report, err := reconcile.Run(w.Ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range report.Invariants {
			if i.Broken != 0 {
				t.Errorf("after %d quarters of its time: %+v", quarters, i)
			}
		}
		if report.OK != (quarters < 2) {
			t.Errorf("after %d quarters of its time: all is well %t, unknown %v", quarters, report.OK, report.Unknown)
		}
	}
}
