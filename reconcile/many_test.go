package reconcile_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// strangers are nodes that have also paid and taken much for somebody else, and break off after telling of it if err is
// set.
type strangers struct {
	paidaction.Nodes
	each int
	err  error
}

func (s strangers) Node(name string) (paidaction.Node, error) {
	node, err := s.Nodes.Node(name)
	if err != nil || name != "sim" {
		return node, err
	}
	return shared{node.(paidaction.SendingNode), s}, nil
}

type shared struct {
	paidaction.SendingNode
	with strangers
}

// hashes are of nobody here, and different for each kind.
func (s shared) hashes(kind byte, on func(paidaction.Hash) error) error {
	for i := range s.with.each {
		h := paidaction.Hash{kind}
		binary.BigEndian.PutUint64(h[1:], uint64(i))
		if err := on(h); err != nil {
			return err
		}
	}
	return s.with.err
}

func (s shared) EachPayment(ctx context.Context, since time.Time, on func(paidaction.PaymentUpdate, time.Time) error) error {
	if err := s.SendingNode.EachPayment(ctx, since, on); err != nil {
		return err
	}
	return s.hashes(1, func(h paidaction.Hash) error {
		return on(paidaction.PaymentUpdate{Hash: h, State: paidaction.PaymentSucceeded, Amount: sat}, since)
	})
}

func (s shared) EachSettled(ctx context.Context, since time.Time, on func(paidaction.NodeInvoice) error) error {
	if err := s.SendingNode.EachSettled(ctx, since, on); err != nil {
		return err
	}
	return s.hashes(2, func(h paidaction.Hash) error {
		return on(paidaction.NodeInvoice{Hash: h, State: paidaction.InvoiceSettled, Received: sat})
	})
}

// Whatever a node has paid and taken is compared, each thing once, however much it is: breaks beyond those that can be
// listed are counted. What a node tells of before it breaks off is compared too, and that it broke off is told.
func TestHoweverMuchANodeHasDoneIsCompared(t *testing.T) {
	t.Parallel()
	const each = 1100 // more than is compared, and more than is listed, at once
	once := lived(t)
	for name, c := range map[string]struct {
		err  error
		want int64
	}{"told in full": {nil, 2 * each}, "broken off": {errors.New("broken off"), each}} { // who breaks off is asked nothing more
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copied(t, once)
			config := compared(w)
			config.Nodes = strangers{config.Nodes, each, c.err}
			report, err := reconcile.Run(w.Ctx, config)
			if err != nil {
				t.Fatal(err)
			}
			if i := report.Invariants[8]; i.Broken != c.want || len(i.Breaks) == 0 || int64(len(i.Breaks)) >= i.Broken {
				t.Errorf("%d are broken and %d of them listed, want %d", i.Broken, len(i.Breaks), c.want)
			}
			if told := slices.ContainsFunc(report.Unknown, func(u string) bool { return strings.Contains(u, "broken off") }); told != (c.err != nil) || report.OK {
				t.Errorf("unknown: %q", report.Unknown)
			}
		})
	}
}

// A run that looks at nothing else of the balances sees who is below zero all the same, and counts those that it does
// not list.
func TestEveryRunSeesWhoIsBelowZero(t *testing.T) {
	t.Parallel()
	w := lived(t)
	exec(w, `ALTER TABLE account DROP CONSTRAINT user_balance_not_negative; INSERT INTO account SELECT id * 16, -1 FROM generate_series(1000, 1029) id`)
	config := compared(w)
	config.Changed = w.Clock.Now().Add(-time.Hour)
	report, err := reconcile.Run(w.Ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	found := report.Invariants[0]
	below := slices.DeleteFunc(slices.Clone(found.Breaks), func(b reconcile.Break) bool { return b.Kind != "below-zero" })
	others := int64(len(found.Breaks) - len(below)) // the totals, which differ by what is below zero
	if n := found.Broken - others; n != 30 || len(below) == 0 || len(below) >= 30 || below[0].What != "user 1000 sats: -1 msat" {
		t.Errorf("%d are below zero, listed are %v", n, below)
	}
}
