package relay_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// event is something that happens: what, to whom, and how much of it.
type event struct {
	What string
	Who  int
	Much int
}

var (
	happenings = []string{"zap", "zap", "withdraw", "withdraw inside", "pay", "pay", "pay", "mine", "settle", "cancel part", "cancel", "away", "back", "behind",
		"lose answer", "lose call", "start", "kill", "later", "later", "sweep", "drop streams"}
	acts    = []simnode.Act{simnode.Pays, simnode.Pays, simnode.Holds, simnode.Splits, simnode.TakesPart, simnode.Refuses, simnode.Unreachable, simnode.Unsteady}
	methods = []simnode.Method{simnode.MethodPay, simnode.MethodTrack, simnode.MethodSettle, simnode.MethodCancel, simnode.MethodLookup, simnode.MethodDecode,
		simnode.MethodChain, simnode.MethodTime, simnode.MethodPublicKey}
)

// story is a bundle to which things happen.
type story struct {
	*bundle
	sender    int64
	all       []*paidaction.PaidAction
	receivers map[paidaction.Hash]*simnode.Receiver
	processes []func()
	came      *came
}

// came is how far payments came, over all stories: where all of them are refused at once, nobody is paid unfairly either.
type came struct{ paid, failed int }

// breathe lets the processes work for a moment. How far they come meanwhile is a matter of chance, as the events are: there is no signal to wait for.
func (s *story) breathe() {
	s.Helper()
	timer := time.NewTimer(15 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.Ctx.Done():
	}
}

func (s *story) keep(pa *paidaction.PaidAction, err error, h paidaction.Hash) {
	if err == nil {
		s.all = append(s.all, pa)
		s.receivers[h] = s.wallet.Receiver
	}
}

func (s *story) happens(e event) {
	s.Helper()
	node := s.Nodes[e.Who%len(s.Nodes)]
	var pa *paidaction.PaidAction
	if len(s.all) > 0 {
		pa = s.all[e.Who%len(s.all)]
	}
	switch e.What {
	case "zap":
		s.wallet.Ask.Act = acts[e.Much%len(acts)]
		pa, err := s.Try(s.payer, community.KindZap, community.ZapArgs{Item: s.item, Sats: int64(100 + e.Who)}, paidaction.P2P, "")
		if err == nil {
			s.keep(pa, nil, pa.Invoice.Hash)
		}
	case "withdraw":
		inv := s.issue(simnode.Ask{Amount: 10_000 + paidaction.Msat(e.Who), Act: acts[e.Much%len(acts)]})
		pa, err := s.Try(s.sender, community.KindWithdraw, community.WithdrawArgs{To: inv.Bolt11, MaxFeeSats: 2}, "", "")
		s.keep(pa, err, inv.Hash)
	case "withdraw inside":
		post, err := s.Try(s.payer, community.KindItemCreate, community.ItemCreateArgs{Title: fmt.Sprint("post ", e.Who, e.Much)}, paidaction.Optimistic, "")
		if err != nil || post.Invoice.Bolt11 == "" {
			return
		}
		s.all = append(s.all, post)
		if pa, err := s.Try(s.sender, community.KindWithdraw, community.WithdrawArgs{To: post.Invoice.Bolt11}, "", ""); err == nil {
			s.all = append(s.all, pa)
		}
	case "mine":
		s.Node.Mine(uint32(e.Much % 100))
	case "away":
		node.SetAway(true)
	case "back":
		node.SetAway(false)
		node.SetSynced(true)
	case "behind":
		node.SetSynced(false)
	case "lose answer":
		node.FailAfter(methods[e.Much%len(methods)], 1)
	case "lose call":
		node.FailBefore(methods[e.Much%len(methods)], 1)
	case "drop streams":
		node.DropStreams()
	case "start":
		if len(s.processes) < 3 {
			s.processes = append(s.processes, s.Run(s.NewRelay()))
		}
	case "kill":
		if n := len(s.processes); n > 0 {
			s.processes[n-1]()
			s.processes = s.processes[:n-1]
		}
	case "later":
		s.Clock.Advance(time.Duration(e.Much%100) * 3 * time.Second)
		s.Node.Tick()
	case "sweep":
		_, _ = s.Engine.Sweep(s.Ctx)
	}
	if pa != nil {
		s.happensTo(pa, e)
	}
	s.breathe()
}

// happensTo is what happens to one action. Much of it is too late, or too early: nobody minds.
func (s *story) happensTo(pa *paidaction.PaidAction, e event) {
	s.Helper()
	switch {
	case e.What == "pay" && pa.Invoice != nil:
		for _, n := range s.Nodes {
			_ = n.PayHash(pa.Invoice.Hash, simnode.Payment{})
		}
		_, _ = s.Engine.Advance(s.Ctx, pa.ID)
	case e.What == "settle":
		for h, r := range s.receivers {
			_ = r.Settle(h)
		}
	case e.What == "cancel part":
		for h, r := range s.receivers {
			_ = r.Cancel(h)
		}
	case e.What == "cancel":
		_, _ = s.Engine.Cancel(s.Ctx, enginetest.Caller(*s.Look(pa.ID).Payer), pa.ID)
	}
}

// open is how much is not at its end.
func (s *story) open() int64 {
	s.Helper()
	return s.Count(`SELECT (SELECT count(*) FROM paid_action WHERE state NOT IN ('PAID', 'FAILED', 'RETRYING'))
		+ (SELECT count(*) FROM relay_payment WHERE stage NOT IN ('completed', 'failed'))`)
}

// ends has everything work again, and everybody make up their mind.
func (s *story) ends() {
	s.Helper()
	for _, n := range s.Nodes {
		n.SetAway(false)
		n.SetSynced(true)
		for _, m := range methods {
			n.FailBefore(m, 0)
			n.FailAfter(m, 0)
		}
	}
	s.processes = append(s.processes, s.Run(s.NewRelay()))
	for range 300 {
		if s.open() == 0 {
			return
		}
		s.Clock.Advance(30 * time.Second)
		s.Node.Tick()
		for h, r := range s.receivers {
			_ = r.Settle(h)
		}
		_, _ = s.Engine.Sweep(s.Ctx)
		s.breathe()
	}
	s.Fatal("something never ends")
}

// wantFair fails the test unless everybody has what is theirs: a receiver was paid at most once, and exactly if the payer paid, or
// the loss is booked.
func (s *story) wantFair() {
	s.Helper()
	for _, began := range s.all {
		pa := s.Look(began.ID)
		if pa.State == paidaction.Retrying {
			continue
		}
		var hash paidaction.Hash
		copy(hash[:], s.hashOf(pa.ID))
		r, outgoing := s.receivers[hash]
		if !outgoing {
			continue
		}
		got := r.Receipt(hash)
		if got.Received > 0 {
			s.came.paid++
		}
		if pa.State == paidaction.Failed {
			s.came.failed++
		}
		if got.Payments > 1 {
			s.Errorf("action %d: the receiver was paid %d times", pa.ID, got.Payments)
		}
		if (got.Received > 0) != (pa.State == paidaction.Paid) {
			s.Errorf("action %d is %s, and the receiver got %d msat", pa.ID, pa.State, got.Received)
		}
		if pa.Flow != paidaction.FlowWrapped {
			continue
		}
		loss := s.Count(`SELECT count(*) FROM posting WHERE action_id = $1 AND from_account = 8`, pa.ID) > 0
		taken := s.outer(pa).State == paidaction.InvoiceSettled
		if (taken || loss) != (pa.State == paidaction.Paid) || (taken && loss) {
			s.Errorf("action %d is %s; the payer's payment was taken: %v, lost: %v", pa.ID, pa.State, taken, loss)
		}
	}
	s.wantSound()
}

func (s *story) hashOf(action int64) (h []byte) {
	s.Helper()
	err := s.Pool.QueryRow(s.Ctx, `SELECT coalesce((SELECT payment_hash FROM relay_payment WHERE action_id = $1), (SELECT payment_hash FROM invoice WHERE action_id = $1))`, action).Scan(&h)
	if err != nil {
		s.Fatal(err)
	}
	return h
}

// Whatever happens, in whatever order, short of nodes that lose their data: everything ends, nobody is paid twice, and the payer's
// money is taken exactly if the receiver was paid, or the loss is booked.
func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("20") // each has a database of its own, and lasts a second
	}
	var came came
	rapid.Check(t, func(rt *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
			return event{rapid.SampledFrom(happenings).Draw(t, "what"), rapid.IntRange(0, 5).Draw(t, "who"), rapid.IntRange(0, 99).Draw(t, "much")}
		}), 5, 25).Draw(rt, "events")
		if !t.Run("story", func(t *testing.T) {
			b := &bundle{World: enginetest.NewNodes(t, []string{"one", "two"}, paidaction.Settings{})}
			b.author, b.payer = b.User("author", 100_000, 0), b.User("payer", 0, 0)
			b.item, b.wallet = b.Post(b.author, "a post"), b.Wallets.Add(b.author)
			s := &story{bundle: b, sender: b.User("sender", 0, 1_000_000), receivers: map[paidaction.Hash]*simnode.Receiver{}, came: &came}
			s.processes = append(s.processes, s.Run(b.Relay))
			for _, e := range events {
				s.happens(e)
			}
			s.ends()
			s.wantFair()
		}) {
			rt.Fatalf("after %+v", events)
		}
	})
	if came.paid == 0 || came.failed == 0 {
		t.Errorf("no story came so far: %d receivers were paid, %d payments to a receiver failed", came.paid, came.failed)
	}
}
