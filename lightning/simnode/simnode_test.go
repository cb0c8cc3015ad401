package simnode_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that a test moves.
type clock struct{ now time.Time }

func newNode() (*simnode.Node, *clock) {
	c := &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	return simnode.New("alice", func() time.Time { return c.now }), c
}

func request(seed byte, hold bool) paidaction.InvoiceRequest {
	p := paidaction.Preimage{seed}
	return paidaction.InvoiceRequest{
		Hold: hold, Preimage: p, Hash: p.Hash(), Amount: 100_000, Expiry: time.Hour, CLTVDelta: 80,
	}
}

func open(t *testing.T, n *simnode.Node, r paidaction.InvoiceRequest) string {
	t.Helper()
	bolt11, err := n.OpenInvoice(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return bolt11
}

func lookup(t *testing.T, n *simnode.Node, h paidaction.Hash) paidaction.NodeInvoice {
	t.Helper()
	v, err := n.LookupInvoice(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantState(t *testing.T, n *simnode.Node, h paidaction.Hash, want paidaction.InvoiceState) {
	t.Helper()
	if v := lookup(t, n, h); v.State != want {
		t.Fatalf("state is %s, want %s", v.State, want)
	}
}

func TestPartsWithTheirOwnExpiry(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	r := request(1, true)
	open(t, n, r)
	// The first part expires soonest but is given back; after that it must not count.
	lost, err := n.AddPart(r.Hash, 60_000, 0, 185)
	if err != nil {
		t.Fatal(err)
	}
	if v := lookup(t, n, r.Hash); v.State != paidaction.InvoiceOpen || v.Received != 60_000 || v.ExpiryHeight != 185 {
		t.Fatalf("with one part: %+v", v)
	}
	if err := n.CancelPart(r.Hash, lost); err != nil {
		t.Fatal(err)
	}
	if err := n.PayHash(r.Hash, simnode.Payment{Msat: 100_001, ExpiryHeights: []uint32{300, 250, 400}}); err != nil {
		t.Fatal(err)
	}
	if v := lookup(t, n, r.Hash); v.State != paidaction.InvoiceAccepted || v.Received != 100_001 || v.ExpiryHeight != 250 {
		t.Fatalf("with the set complete: %+v", v)
	}
	n.Mine(250 - simnode.HoldExpiryDelta - 1 - n.Height())
	wantState(t, n, r.Hash, paidaction.InvoiceAccepted)
	n.Mine(1)
	wantState(t, n, r.Hash, paidaction.InvoiceCanceled)
	if err := n.SettleInvoice(t.Context(), r.Preimage); !errors.Is(err, simnode.ErrAlreadyCanceled) {
		t.Fatalf("settling what the node gave back: %v", err)
	}
}

func TestExpiryByTheClock(t *testing.T) {
	t.Parallel()
	n, c := newNode()
	plain, hold, held := request(1, false), request(2, true), request(3, true)
	for _, r := range []paidaction.InvoiceRequest{plain, hold, held} {
		open(t, n, r)
	}
	if err := n.PayHash(held.Hash, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Hour)
	n.Tick()
	wantState(t, n, plain.Hash, paidaction.InvoiceOpen) // the last second still counts
	c.now = c.now.Add(time.Second)
	if err := n.PayHash(plain.Hash, simnode.Payment{}); !errors.Is(err, simnode.ErrRefused) {
		t.Fatalf("paying an expired invoice: %v", err)
	}
	n.Tick()
	wantState(t, n, plain.Hash, paidaction.InvoiceCanceled)
	wantState(t, n, hold.Hash, paidaction.InvoiceCanceled)
	wantState(t, n, held.Hash, paidaction.InvoiceAccepted)
}

func TestPaymentsTheNodeRefuses(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	r := request(1, false)
	open(t, n, r)
	for name, p := range map[string]simnode.Payment{
		"too little":   {Msat: 99_999},
		"too soon":     {ExpiryHeight: 179},
		"one too soon": {ExpiryHeights: []uint32{300, 179}},
	} {
		if err := n.PayHash(r.Hash, p); !errors.Is(err, simnode.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v := lookup(t, n, r.Hash); v.State != paidaction.InvoiceOpen || v.Received != 0 {
		t.Fatalf("after the refusals: %+v", v)
	}
	if err := n.PayHash(r.Hash, simnode.Payment{Msat: 250_000}); err != nil {
		t.Fatalf("overpaying: %v", err)
	}
	if v := lookup(t, n, r.Hash); v.State != paidaction.InvoiceSettled || v.Received != 250_000 || v.ExpiryHeight != 0 {
		t.Fatalf("overpaid: %+v", v)
	}
	if err := n.PayHash(r.Hash, simnode.Payment{}); !errors.Is(err, simnode.ErrRefused) {
		t.Fatalf("paying twice: %v", err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	r := request(1, true)
	n.FailBefore(simnode.MethodOpen, 1)
	if _, err := n.OpenInvoice(t.Context(), r); !errors.Is(err, simnode.ErrUnavailable) {
		t.Fatal(err)
	}
	if _, ok := n.Inspect(r.Hash); ok {
		t.Fatal("a call that failed before left an invoice")
	}
	n.FailAfter(simnode.MethodOpen, 1)
	if _, err := n.OpenInvoice(t.Context(), r); !errors.Is(err, simnode.ErrAnswerLost) {
		t.Fatal(err)
	}
	if bolt11 := open(t, n, r); bolt11 != lookup(t, n, r.Hash).Bolt11 {
		t.Fatal("the second call made another invoice")
	}
	if n.Count(simnode.MethodOpen, r.Hash) != 2 || n.Calls()[0].Reached {
		t.Fatalf("calls: %+v", n.Calls())
	}
	// A payment arrives while the cancel is on its way.
	n.Before(simnode.MethodCancel, func(h paidaction.Hash) {
		if err := n.PayHash(h, simnode.Payment{}); err != nil {
			t.Error(err)
		}
	})
	n.SetAway(true)
	if err := n.PayHash(r.Hash, simnode.Payment{}); !errors.Is(err, simnode.ErrRefused) {
		t.Fatalf("paying a node that is away: %v", err)
	}
	n.SetAway(false)
	if err := n.CancelInvoice(t.Context(), r.Hash); err != nil {
		t.Fatal(err)
	}
	if inv, _ := n.Inspect(r.Hash); len(inv.Parts) != 1 || inv.Parts[0].State != simnode.PartCanceled {
		t.Fatalf("parts: %+v", inv.Parts)
	}
	n.Wipe()
	if _, err := n.LookupInvoice(t.Context(), r.Hash); !errors.Is(err, paidaction.ErrInvoiceNotFound) {
		t.Fatalf("after the wipe: %v", err)
	}
}

// watch collects events until count have arrived or the stream ends.
func watch(n *simnode.Node, addIndex, settleIndex uint64, count int) func() ([]paidaction.InvoiceEvent, error) {
	var events []paidaction.InvoiceEvent
	enough := errors.New("enough")
	done := make(chan error, 1)
	go func() {
		done <- n.WatchInvoices(context.Background(), addIndex, settleIndex, func(e paidaction.InvoiceEvent) error {
			events = append(events, e)
			if len(events) == count {
				return enough
			}
			return nil
		})
	}()
	return func() ([]paidaction.InvoiceEvent, error) {
		err := <-done
		if errors.Is(err, enough) {
			err = nil
		}
		return events, err
	}
}

func TestEventsHeldRepeatedReorderedDropped(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	n.HoldEvents()
	n.RepeatEvents(1)
	shuffled := watch(n, 0, 0, 4)
	if err := n.AwaitStreams(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	open(t, n, request(1, false))
	open(t, n, request(2, false))
	n.ReleaseEvents(simnode.Reverse)
	events, err := shuffled()
	if err != nil || events[0].AddIndex != 2 || events[1].AddIndex != 2 || events[3].AddIndex != 1 {
		t.Fatalf("%v %+v", err, events)
	}
	dropped := watch(n, 0, 0, 1)
	if err := n.AwaitStreams(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	n.DropStreams()
	if _, err := dropped(); !errors.Is(err, simnode.ErrStreamLost) {
		t.Fatal(err)
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	for seed := byte(1); seed <= 4; seed++ {
		open(t, n, request(seed, false))
	}
	if err := n.PayBolt11(lookup(t, n, request(2, false).Hash).Bolt11, simnode.Payment{}); err != nil {
		t.Fatal(err)
	}
	if err := n.CancelInvoice(t.Context(), request(3, false).Hash); err != nil {
		t.Fatal(err)
	}
	events, err := watch(n, 1, 0, 2)()
	if err != nil || events[0].State != paidaction.InvoiceSettled || events[0].SettleIndex != 1 || events[1].AddIndex != 4 {
		t.Fatalf("%v %+v", err, events)
	}
}

// A node that goes away, or comes back without its data, ends its streams: nobody waits for what they no longer tell.
func TestStreamsEndWithTheNode(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*simnode.Node){
		"away":     func(n *simnode.Node) { n.SetAway(true) },
		"wiped":    (*simnode.Node).Wipe,
		"restored": func(n *simnode.Node) { n.Restore(n.Backup()) },
	} {
		n, _ := newNode()
		ended := watch(n, 0, 0, 1)
		if err := n.AwaitStreams(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		end(n)
		if events, err := ended(); !errors.Is(err, simnode.ErrStreamLost) || len(events) > 0 {
			t.Errorf("%s: %v, %+v", name, err, events)
		}
	}
}

// LND compares the indices of a stream with every event, also with those that come later.
func TestIndicesThatTheNodeHasNotReachedSilenceTheStream(t *testing.T) {
	t.Parallel()
	n, _ := newNode()
	n.HoldEvents() // so that the stream is read only when all has happened
	next := watch(n, 2, 2, 2)
	if err := n.AwaitStreams(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for seed := byte(1); seed <= 3; seed++ {
		if err := n.PayBolt11(open(t, n, request(seed, false)), simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
	}
	n.ReleaseEvents(nil)
	events, err := next()
	if err != nil || events[0].State != paidaction.InvoiceOpen || events[0].AddIndex != 3 || events[1].SettleIndex != 3 {
		t.Fatalf("%v %+v", err, events)
	}
}

func TestIssuer(t *testing.T) {
	t.Parallel()
	first, _ := newNode()
	second := simnode.New("bob", time.Now)
	nodes := simnode.Nodes{first, second}
	first.SetSynced(false)
	if name, err := nodes.Issuer(t.Context()); err != nil || name != "bob" {
		t.Fatal(name, err)
	}
	second.SetAway(true)
	if _, err := nodes.Issuer(t.Context()); !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		t.Fatal(err)
	}
	if _, err := nodes.Node("carol"); !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		t.Fatal(err)
	}
	if n, err := nodes.Node("alice"); err != nil || n != paidaction.Node(first) {
		t.Fatal(n, err)
	}
}
