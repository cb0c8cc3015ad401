package relay_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// replaced are nodes of which one is another. Their names are always the same slice, which is not to be changed.
type replaced struct {
	relay.Nodes
	names []string
	name  string
	by    func(paidaction.SendingNode) paidaction.SendingNode
}

func (n replaced) Names() []string { return n.names }

func (n replaced) Sender(name string) (paidaction.SendingNode, error) {
	node, err := n.Nodes.Sender(name)
	if err == nil && name == n.name {
		node = n.by(node)
	}
	return node, err
}

// hangs is a node that answers nothing, or only reads invoices. It may be waited for once, except for whether it has paid.
type hangs struct {
	paidaction.SendingNode
	t      *testing.T
	reads  bool // it still reads invoices
	asked  chan struct{}
	hashes *atomic.Int32 // how often it is asked whether it has paid
}

func (h hangs) DecodeInvoice(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	if h.reads {
		return h.SendingNode.DecodeInvoice(ctx, bolt11)
	}
	return paidaction.Bolt11{}, h.wait(ctx)
}

func (h hangs) TrackPayment(ctx context.Context, _ paidaction.Hash, _ func(paidaction.PaymentUpdate) error) error {
	h.hashes.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

func (h hangs) EstimateRoute(ctx context.Context, _ paidaction.RouteRequest) (paidaction.Route, error) {
	return paidaction.Route{}, h.wait(ctx)
}

func (h hangs) Sendable(ctx context.Context) (paidaction.Msat, error) { return 0, h.wait(ctx) }

func (h hangs) wait(ctx context.Context) error {
	select {
	case h.asked <- struct{}{}:
	default:
		h.t.Error("the node is asked again")
	}
	<-ctx.Done()
	return ctx.Err()
}

// Whoever pays through another node waits once for one that hangs to say what it can send, or to read an invoice, and for no route. For
// a while nobody else does; then one who withdraws finds out whether it answers. But each time it is asked whether it has paid the hash:
// nobody else can say.
func TestANodeThatHangsIsWaitedForOnce(t *testing.T) {
	for name, it := range map[string]struct {
		reads bool
		least paidaction.Msat // that a node must be able to send
	}{
		"it reads no invoice":              {},
		"it does not say what it can send": {least: 1},
		"it says of no payment":            {reads: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			asked, hashes := make(chan struct{}, 1), new(atomic.Int32)
			clock, pass := byItself()
			r := b.NewRelay(clock, func(c *relay.Config) {
				c.Nodes = replaced{c.Nodes, []string{"one", "two"}, "one", func(n paidaction.SendingNode) paidaction.SendingNode { return hangs{n, t, it.reads, asked, hashes} }}
				c.Settings.MinOutbound = it.least
				// The other one answers in time, however busy the machine is.
				c.Settings.LookTimeout, c.Settings.AskTimeout, c.Settings.ProbeTimeout = time.Second, time.Second, time.Hour
			})
			request := b.wrapping()
			request.Node = "two"
			want := func(asks int, questions int32) {
				t.Helper()
				if len(asked) != asks || hashes.Load() != questions {
					t.Errorf("it is waited for %d times, and asked %d times whether it has paid, want %d and %d", len(asked), hashes.Load(), asks, questions)
				}
			}
			once := map[bool]int{false: 1}[it.reads]
			if _, err := r.Wrap(b.Ctx, request); err != nil || b.probes() != 1 {
				t.Errorf("error %v; %d probes by the other", err, b.probes())
			}
			want(once, 1)
			withdraw := func() {
				t.Helper()
				inv := b.wallet.Receiver.Issue(simnode.Ask{Amount: 50_000})
				if _, err := r.Resolve(b.Ctx, paidaction.Payee{To: inv.Bolt11, FeeLimit: 5_000}); err != nil {
					t.Error(err)
				}
			}
			withdraw() // right after: nobody else waits for it to read anything
			want(once, 2)
			for range once {
				<-asked
			}
			pass(11 * time.Second)
			withdraw()
			want(once, 3)
		})
	}
}

// The node that is to issue the invoice is not waited for for long either.
func TestAnIssuerThatHangsIsNotWaitedFor(t *testing.T) {
	b := setup(t)
	b.Node.SetHung(true)
	defer b.Node.SetHung(false)
	r := b.NewRelay(func(c *relay.Config) { c.Settings.LookTimeout = 20 * time.Millisecond })
	_, err := r.Wrap(b.Ctx, b.wrapping())
	b.WantRefusal(err, paidaction.CodeLightningUnavailable)
}

// What no node would forward is not wrapped: its payer would wait for nothing, and the receiver has credits instead. A node that is drained sends no
// probes either.
func TestNothingIsWrappedForNodesThatSendNothing(t *testing.T) {
	for name, away := range map[string]string{"draining": "draining = true", "disabled": "disabled_reason = 'for repair'", "another one": "other_key = 'new', disabled_reason = 'another one'"} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			exec := func(sql string) {
				t.Helper()
				if _, err := b.Pool.Exec(b.Ctx, sql); err != nil {
					t.Fatal(err)
				}
			}
			exec(`INSERT INTO lightning_node (name, public_key, changed_at) VALUES ('one', 'key of one', now()), ('two', 'key of two', now())`)
			exec(`UPDATE lightning_node SET ` + away + ` WHERE name = 'one'`)
			if m := b.asks(); m != paidaction.P2P {
				t.Errorf("%s, though one node sends", m)
			}
			for _, c := range b.Nodes[0].Calls() {
				if c.Method == simnode.MethodEstimate {
					t.Error("a probe is sent by the node that gets no payments")
				}
			}
			issued := len(b.wallet.Issued)
			exec(`UPDATE lightning_node SET ` + away)
			if m := b.asks(); m == paidaction.P2P || len(b.wallet.Issued) != issued {
				t.Errorf("%s, or the wallet is asked for nothing", m)
			}
			exec(`UPDATE lightning_node SET draining = false, disabled_reason = NULL, other_key = NULL`)
			if m := b.asks(); m != paidaction.P2P {
				t.Errorf("%s, though both send again", m)
			}
		})
	}
}

// searched is a relay that finds no wallet, and notes until when it may look for one.
type searched struct {
	paidaction.Relay
	until time.Time
}

func (s *searched) Wrap(ctx context.Context, _ paidaction.WrapRequest) (paidaction.Forward, error) {
	s.until, _ = ctx.Deadline()
	return paidaction.Forward{}, paidaction.ErrNoReceiver
}

// The mutations of a request have its time together. Whatever an earlier one has taken, a search for a wallet leaves some of it, in which its
// payer can pay here. One that comes first has the time that a wallet may take for an answer, and a later one nearly all that is left.
func TestASearchLeavesTimeForWhatFollowsIt(t *testing.T) {
	b := setup(t)
	search := &searched{Relay: b.Relay}
	b.Engine.Relay = search
	zap := func(ctx context.Context) {
		t.Helper()
		pa, err := b.Engine.Pay(ctx, paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: b.item, Sats: 100}, Caller: enginetest.Caller(b.payer)})
		if err != nil || pa.Method != paidaction.Optimistic {
			t.Errorf("%+v, %v", pa, err)
		}
	}
	const call = 20 * time.Second // of a wallet
	begun := time.Now()
	whole, end := context.WithTimeout(b.Ctx, 30*time.Second)
	defer end()
	if zap(whole); search.until.Before(begun.Add(call)) {
		t.Errorf("the first search ends after %v", search.until.Sub(begun))
	}
	later, end := context.WithTimeout(b.Ctx, 20*time.Second)
	defer end()
	zap(later)
	if until, _ := later.Deadline(); until.Sub(search.until) != 2*time.Second {
		t.Errorf("a later search leaves %v", until.Sub(search.until))
	}
	if zap(b.Ctx); search.until.After(time.Now().Add(22 * time.Second)) {
		t.Error("a search without a request has no bound")
	}
}

// Who has chosen the receiver's wallet has no other way to pay. That there was no time to ask it says nothing of the wallet: the same request by itself
// may succeed.
func TestWhoChoseAWalletThatThereWasNoTimeToAskIsToTryAgain(t *testing.T) {
	b := setup(t)
	b.Engine.Relay = &searched{Relay: b.Relay}
	late, end := context.WithTimeout(b.Ctx, time.Second) // less than a search leaves of it
	defer end()
	_, err := b.Engine.Pay(late, paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: b.item, Sats: 100},
		Terms: paidaction.Terms{Method: paidaction.P2P}, Caller: enginetest.Caller(b.payer)})
	b.WantRefusal(err, paidaction.CodeTryAgain)
}

// Whoever repeats a request under its key is told what was done. No receiver's wallet, and no address, is asked for it again: they may take long
// to answer, and where they fail it would count against them.
func TestARepeatedRequestAsksNoStranger(t *testing.T) {
	b := newBundle(t, paidaction.Settings{}, "one").rich(100)
	asked := 0
	b.wallet.Before = func() { asked++ }
	failed := b.zap()
	if _, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), failed.ID); err != nil {
		t.Fatal(err)
	}
	b.WantState(failed.ID, paidaction.Failed)
	for name, request := range map[string]func(key string) (*paidaction.PaidAction, error){
		"a zap": func(key string) (*paidaction.PaidAction, error) {
			return b.Try(b.payer, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, paidaction.P2P, key)
		},
		"a zap of somebody who has not signed in": func(key string) (*paidaction.PaidAction, error) {
			return b.Try(0, community.KindZap, community.ZapArgs{Item: b.item, Sats: 100}, "", key)
		},
		"a next attempt": func(key string) (*paidaction.PaidAction, error) {
			return b.Engine.Retry(b.Ctx, enginetest.Caller(b.payer), failed.ID, key, paidaction.Terms{Method: paidaction.P2P}, nil)
		},
		"a withdrawal to an address": func(key string) (*paidaction.PaidAction, error) {
			return b.Try(b.payer, community.KindWithdraw, community.WithdrawArgs{To: fmt.Sprintf("%d@holdfast.example", b.author), Sats: new(int64(10)), MaxFeeSats: 5}, "", key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			key := "twenty-two characters: " + name
			made, err := request(key)
			if err != nil || asked != 1 {
				t.Fatalf("%v; %d wallets were asked, want 1", err, asked)
			}
			again, err := request(key)
			if err != nil || again.ID != made.ID || asked != 1 {
				t.Errorf("%+v, %v; %d wallets were asked, want the first action and none more", again, err, asked)
			}
		})
	}
}

// leaving are turns that nobody waits for, and tell when they are left.
type leaving chan struct{}

func (l leaving) Queue(int64) paidaction.Turn {
	return &leavingTurn{leave: sync.OnceFunc(func() { l <- struct{}{} })}
}

type leavingTurn struct{ leave func() }

func (*leavingTurn) Wait(context.Context, bool) error { return nil }
func (t *leavingTurn) Leave()                         { t.leave() }

// A request that is repeated while it is under way waits for what comes of it. It gives up its turn: the one that it waits for may come later.
func TestOneOfTheSameRequestsAtOnceAsksAStranger(t *testing.T) {
	b := newBundle(t, paidaction.Settings{}, "one")
	const all = 8
	left := make(leaving, all)
	config := b.Engine.Config
	config.Turns = left
	engine, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	limit, end := context.WithTimeout(b.Ctx, 20*time.Second)
	defer end()
	var asked atomic.Int32
	b.wallet.Before = func() {
		if asked.Add(1) > 1 {
			return
		}
		for range all - 1 { // the others wait
			select {
			case <-left:
			case <-limit.Done():
				t.Error("the others did not give up their turns")
				return
			}
		}
	}
	made := make(chan int64, all)
	for range all {
		go func() {
			pa, err := engine.Pay(limit, paidaction.Request{Kind: community.KindZap, Args: community.ZapArgs{Item: b.item, Sats: 100},
				Terms: paidaction.Terms{Method: paidaction.P2P}, Key: "the same", Caller: enginetest.Caller(b.payer)})
			if err != nil {
				t.Error(err)
				pa = &paidaction.PaidAction{}
			}
			made <- pa.ID
		}()
	}
	first := <-made
	for range all - 1 {
		if next := <-made; next != first {
			t.Errorf("action %d, want %d", next, first)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the wallet was asked %d times, want 1", n)
	}
}

// Nor is one asked for a next attempt that will be refused: of what is under way, or failed too long ago.
func TestARetryThatIsRefusedAsksNoStranger(t *testing.T) {
	b := newBundle(t, paidaction.Settings{}, "one").rich(100)
	open, failed := b.zap(), b.zap()
	if _, err := b.Engine.Cancel(b.Ctx, enginetest.Caller(b.payer), failed.ID); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("%d@holdfast.example", b.author)
	leaving := b.Pay(b.payer, community.KindWithdraw, community.WithdrawArgs{To: address, Sats: new(int64(10)), MaxFeeSats: 5}, "")
	b.wallet.Before = func() { t.Error("the receiver is asked") }
	refused := func(pa *paidaction.PaidAction, key string, code paidaction.Code) {
		t.Helper()
		_, err := b.Engine.Retry(b.Ctx, enginetest.Caller(b.payer), pa.ID, key, paidaction.Terms{}, nil)
		b.WantRefusal(err, code)
	}
	refused(leaving, "", paidaction.CodeNotRetryable)
	refused(open, "", paidaction.CodeNotRetryable)
	refused(open, "a key of twenty-two characters", paidaction.CodeNotRetryable)
	b.Clock.Advance(time.Hour + time.Second)
	refused(failed, "", paidaction.CodeNotRetryable)
}
