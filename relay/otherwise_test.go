package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// otherwise are nodes that read invoices, report payments, or hold them otherwise than the simulated ones.
type otherwise struct {
	simnode.Nodes
	read   func(*paidaction.Bolt11)
	report func(*paidaction.PaymentUpdate)
	hold   func(*paidaction.NodeInvoice)
}

func (o otherwise) Node(name string) (paidaction.Node, error) {
	n, err := o.Nodes.Node(name)
	return otherwiseIssuer{n, o}, err
}

type otherwiseIssuer struct {
	paidaction.Node
	otherwise
}

func (n otherwiseIssuer) LookupInvoice(ctx context.Context, h paidaction.Hash) (paidaction.NodeInvoice, error) {
	inv, err := n.Node.LookupInvoice(ctx, h)
	n.hold(&inv)
	return inv, err
}

func (o otherwise) Sender(name string) (paidaction.SendingNode, error) {
	n, err := o.Nodes.Sender(name)
	return otherwiseNode{n, o}, err
}

type otherwiseNode struct {
	paidaction.SendingNode
	otherwise
}

func (n otherwiseNode) DecodeInvoice(ctx context.Context, bolt11 string) (paidaction.Bolt11, error) {
	inv, err := n.SendingNode.DecodeInvoice(ctx, bolt11)
	if n.read != nil {
		n.read(&inv)
	}
	return inv, err
}

func (n otherwiseNode) reported(on func(paidaction.PaymentUpdate) error) func(paidaction.PaymentUpdate) error {
	return func(u paidaction.PaymentUpdate) error {
		if n.report != nil {
			n.report(&u)
		}
		return on(u)
	}
}

func (n otherwiseNode) Pay(ctx context.Context, r paidaction.PaymentRequest, on func(paidaction.PaymentUpdate) error) error {
	return n.SendingNode.Pay(ctx, r, n.reported(on))
}

func (n otherwiseNode) TrackPayment(ctx context.Context, h paidaction.Hash, on func(paidaction.PaymentUpdate) error) error {
	return n.SendingNode.TrackPayment(ctx, h, n.reported(on))
}

// Spec 05.9: the node that is to send reads another hash, or amount, than was agreed to. It sends nothing.
func TestANodeThatReadsSomethingElseSendsNothing(t *testing.T) {
	for name, read := range map[string]func(*paidaction.Bolt11){
		"hash":   func(inv *paidaction.Bolt11) { inv.Hash[0]++ },
		"amount": func(inv *paidaction.Bolt11) { inv.Amount++ },
	} {
		t.Run("a forward, "+name, func(t *testing.T) {
			b := setup(t)
			pa := b.zap()
			b.pay(pa)
			b.Run(b.NewRelay(func(c *relay.Config) { c.Nodes = otherwise{Nodes: b.Nodes, read: read} }))
			b.Await(pa.ID, paidaction.Failed)
			b.wantSent(pa.Invoice.Hash, 0)
			b.wantSound()
		})
		t.Run("a withdrawal, "+name, func(t *testing.T) {
			b := setup(t).rich(100)
			inv := b.issue(simnode.Ask{Amount: 50_000})
			pa := b.withdraw(inv.Bolt11)
			b.Run(b.NewRelay(func(c *relay.Config) { c.Nodes = otherwise{Nodes: b.Nodes, read: read} }))
			b.Await(pa.ID, paidaction.Failed)
			b.wantSent(inv.Hash, 0)
			b.wantSats(100_000)
			b.wantSound()
		})
	}
}

// Spec 03 §3.2: right before the send, the payer's node calls the payment held, but part of it has gone back: what is left is less than the
// payer owes, though more than the receiver is to get. Nothing is sent.
func TestWhatIsNoLongerHeldInFullIsNotForwarded(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	b.Run(b.NewRelay(func(c *relay.Config) {
		c.Issuers = otherwise{Nodes: b.Nodes, hold: func(inv *paidaction.NodeInvoice) { inv.Received-- }}
	}))
	b.Await(pa.ID, paidaction.Failed)
	b.wantSent(pa.Invoice.Hash, 0)
	b.wantOuter(pa, paidaction.InvoiceCanceled)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// Spec 03 §3.2: a node that issued the receiver's invoice has become one of ours since it was wrapped. We do not pay ourselves.
func TestAReceiverWhoHasBecomeANodeOfOursIsNotPaid(t *testing.T) {
	for name, values := range map[string]string{"known": "public_key) VALUES ('one', now(), $1)", "under another's name": "public_key, other_key, disabled_reason) VALUES ('one', now(), 'key', $1, 'another one')"} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			pa := b.zap()
			b.pay(pa)
			inner, err := b.Node.DecodeInvoice(b.Ctx, b.wallet.Last().Bolt11)
			if err == nil {
				_, err = b.Pool.Exec(b.Ctx, `INSERT INTO lightning_node (name, changed_at, `+values, inner.Destination)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.Run(b.Relay)
			b.Await(pa.ID, paidaction.Failed)
			if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'NOT_SENT' AND reason = 'OURS'`); n != 1 {
				t.Errorf("%d claims ended because the receiver is ours", n)
			}
			b.wantSent(pa.Invoice.Hash, 0)
			b.wantOuter(pa, paidaction.InvoiceCanceled)
			b.wantReceived(pa, 0)
			b.wantSound()
		})
	}
}

// Spec 05.36: nobody can say whether an invoice is ours, or was paid before. That is no "no": it is neither wrapped nor withdrawn.
func TestWhatNobodyCanSayIsNoNo(t *testing.T) {
	for name, c := range map[string]struct {
		method simnode.Method
		nodes  []int
	}{
		"the key of one of our nodes":    {simnode.MethodPublicKey, []int{1}},
		"whether any node has a payment": {simnode.MethodTrack, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two").rich(100)
			inv := b.issue(simnode.Ask{Amount: 50_000})
			for _, i := range c.nodes {
				b.Nodes[i].FailBefore(c.method, 1<<30)
			}
			if f, err := b.Relay.Wrap(b.Ctx, b.wrapping()); !errors.Is(err, paidaction.ErrNoReceiver) || b.probes() != 0 {
				t.Errorf("%+v, %v, after %d probes", f, err, b.probes())
			}
			_, err := b.tryWithdraw(inv.Bolt11)
			b.WantRefusal(err, paidaction.CodeLightningUnavailable)
			for _, i := range c.nodes {
				b.Nodes[i].FailBefore(c.method, 0)
			}
			if _, err := b.NewRelay().Wrap(b.Ctx, b.wrapping()); err != nil {
				t.Errorf("once they say so: %v", err)
			}
			b.withdraw(inv.Bolt11)
		})
	}
}

// A node says that it has paid, and does not show the preimage: the receiver has the money, so nobody else gets it back.
func TestASuccessWithoutItsPreimageIsNoFailure(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	r := b.NewRelay(func(c *relay.Config) {
		c.Nodes = otherwise{Nodes: b.Nodes, report: func(u *paidaction.PaymentUpdate) { u.Preimage = nil }}
	})
	engine := *b.Engine
	engine.Relay = r
	if sent, err := r.Step(b.Ctx, "one", engine.Advance); !sent || err != nil {
		t.Fatal(sent, err)
	}
	b.Clock.Advance(2 * time.Hour)
	if _, err := engine.Advance(b.Ctx, pa.ID); err == nil {
		t.Error("nobody was told")
	}
	b.WantState(pa.ID, paidaction.Forwarding)
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// Spec 05.10: a payment that cost more than its budget, as one whose channel was closed by force. It is a loss, and the books hold.
func TestAFeeAboveTheBudgetIsALoss(t *testing.T) {
	b := setup(t)
	nodes := otherwise{Nodes: b.Nodes, report: func(u *paidaction.PaymentUpdate) { u.Fee += 10_000 }}
	r := b.NewRelay(func(c *relay.Config) { c.Nodes = nodes })
	engine := *b.Engine
	engine.Relay = r
	b.World.Engine = &engine
	pa := b.zap()
	b.pay(pa)
	b.Run(r)
	b.Await(pa.ID, paidaction.Paid)
	b.AwaitStage(pa.ID, "completed")
	b.WantBalance(ledger.LossSats, -8_000) // 11,000 were spent of 3,000
	b.WantBalance(ledger.RoutingSats, 0)
	b.WantConserved()
}

// A node shows the preimage and says FAILED, and whoever hears it cannot store it: the receiver gave the preimage, so the payment is made.
func TestAFailureWithAPreimageIsNoFailure(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	r := b.NewRelay(func(c *relay.Config) {
		c.Nodes = otherwise{Nodes: b.Nodes, report: func(u *paidaction.PaymentUpdate) {
			if u.Preimage != nil {
				u.State = paidaction.PaymentFailed
			}
		}}
	})
	lost := func(context.Context, int64) (paidaction.Progress, error) {
		return paidaction.Waiting, errors.New("the database is away")
	}
	if sent, err := r.Step(b.Ctx, "one", lost); !sent || err != nil {
		t.Fatal(sent, err)
	}
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}
