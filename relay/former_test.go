package relay_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// sending is a relay of a process in which only these nodes send.
func (b *bundle) sending(names ...string) *relay.Relay {
	b.Helper()
	return b.NewRelay(func(c *relay.Config) {
		c.Nodes = replaced{Nodes: c.Nodes, names: names}
		if len(names) == 0 {
			c.Leases = nil
		}
	})
}

// A part hangs at a node that sends no more once its payer has paid: what it costs is booked when it is over.
func TestWhatANodeWasGivenIsFollowedThoughItSendsNoMore(t *testing.T) {
	for name, senders := range map[string][]string{"another one sends": {"two"}, "none sends": nil} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			b.wallet.Ask.Act = simnode.Splits
			stop := b.Run(b.sending("one"))
			pa := b.zap()
			b.pay(pa)
			b.Await(pa.ID, paidaction.Paid)
			b.AwaitStage(pa.ID, "pending_confirmation")
			stop()
			now := b.sending(senders...)
			b.Engine.Relay = now
			b.Run(now)
			if err := b.wallet.Receiver.Settle(pa.Invoice.Hash); err != nil {
				t.Fatal(err)
			}
			b.AwaitStage(pa.ID, "completed")
			b.wantReceived(pa, 70_000)
			b.wantSound()
		})
	}
}

// docs/relay.md: a withdrawal that no node could send for an hour comes back, also where no node sends any more.
func TestAWithdrawalComesBackWhereNoNodeSendsAnyMore(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour})
	pa := b.withdraw(inv.Bolt11)
	b.Engine.Relay = b.sending()
	b.Clock.Advance(59 * time.Minute)
	b.Advance(pa.ID)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.Clock.Advance(time.Minute)
	for b.Advance(pa.ID) == paidaction.Moved {
	}
	b.WantState(pa.ID, paidaction.Failed)
	b.wantSent(inv.Hash, 0)
	b.wantSats(100_000)
	b.wantSound()
}

// A node that sends may have it, and is away: that one which sends nothing does not have it is no answer.
func TestWhatOnlyAFormerSenderSpeaksOfIsNotGivenUp(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000, Expiry: 7 * 24 * time.Hour}).Bolt11)
	b.Engine.Relay = b.sending("one")
	b.Nodes[0].FailBefore(simnode.MethodTrack, 1<<30)
	b.Clock.Advance(2 * time.Hour)
	if _, err := b.Engine.Advance(b.Ctx, pa.ID); !errors.Is(err, paidaction.Refused(paidaction.CodeLightningUnavailable)) {
		t.Errorf("error %v", err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
}

// The database was restored to before a payment that a node made, which sends no more since: nothing is sent again.
func TestANodeThatSendsNoMoreIsAskedBeforeAnythingIsSent(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.paidByTheSecond(inv.Bolt11)
	now := b.sending("one")
	b.Engine.Relay = now
	b.Run(now)
	b.Await(pa.ID, paidaction.Paid)
	if row := b.AwaitStage(pa.ID, "completed"); *row.Node != "two" {
		t.Errorf("it went on at node %s", *row.Node)
	}
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// forInvoices is a node whose macaroon allows nothing about payments.
type forInvoices struct{ paidaction.SendingNode }

func (forInvoices) TrackPayment(context.Context, paidaction.Hash, func(paidaction.PaymentUpdate) error) error {
	return paidaction.ErrNotPermitted
}

// While the database may lack claims, nothing is sent without the word of every node that may be asked: a node that only
// issues invoices, and whose macaroon is for no more, is none; one that sends, and whose macaroon was revoked, is.
func TestANodeThatMayNotBeAskedHoldsUpNothingUnlessItSends(t *testing.T) {
	for name, c := range map[string]struct {
		senders []string
		want    string
	}{"it sends nothing": {[]string{"one"}, "completed"}, "it sends": {[]string{"one", "two"}, "incoming"}} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two").rich(100)
			pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
			r := b.NewRelay(func(config *relay.Config) {
				config.Nodes = replaced{config.Nodes, c.senders, "two", func(n paidaction.SendingNode) paidaction.SendingNode { return forInvoices{n} }}
				config.Doubted = func() (time.Time, bool) { return time.Time{}, true }
			})
			b.Engine.Relay = r
			if claimed, err := r.Step(b.Ctx, "one", b.Engine.Advance); !claimed || err != nil {
				t.Fatalf("claimed: %t, error %v", claimed, err)
			}
			b.AwaitStage(pa.ID, c.want)
		})
	}
}
