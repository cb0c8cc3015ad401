package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// Spec 05.16e: the node that held the payer's payment loses its data for good after the receiver has refused theirs:
// nobody will ever say that the payer has it back. An operator ends that.
func TestAForwardThatFailedIsGivenUpWhereItsIssuerIsWiped(t *testing.T) {
	b := setup(t, "one", "two")
	b.wallet.Ask.Act = simnode.Refuses
	b.Node.SetSendable(0)
	pa := b.zap()
	b.pay(pa)
	b.giveUpUnheard(pa)
	b.Advance(pa.ID)
	b.WantState(pa.ID, paidaction.FailedForward)
	b.Node.Wipe()
	b.Clock.Advance(2 * time.Hour)
	b.rounds(2)
	b.WantState(pa.ID, paidaction.FailedForward)
	if err := b.Engine.GiveUp(b.Ctx, pa.ID, "Our node has lost its data."); err != nil {
		t.Fatal(err)
	}
	b.WantState(pa.ID, paidaction.Failed)
	b.wantReceived(pa, 0)
	b.wantSound()
}

// While a payment to the receiver may be out nothing is given up, also if the database has forgotten that it is.
func TestWhatMayReachItsReceiverIsNotGivenUp(t *testing.T) {
	b, pa := sentAndForgotten(t, 0)
	b.Node.Wipe()
	b.Clock.Advance(2 * time.Hour)
	for why, away := range map[string]bool{"its node is away": true, "a node pays": false} {
		b.Nodes[1].SetAway(away)
		if err := b.Engine.GiveUp(b.Ctx, pa.ID, "Our node has lost its data."); !errors.Is(err, paidaction.ErrNotGivenUp) {
			t.Errorf("%s: got %v", why, err)
		}
		b.WantState(pa.ID, paidaction.PendingHeld)
	}
}

// Nor once it is on its way: what becomes of the payer's payment follows from what became of the receiver's.
func TestAForwardThatIsOnItsWayIsNotGivenUp(t *testing.T) {
	b := setup(t)
	pa := b.zap()
	b.pay(pa)
	b.Node.Wipe()
	b.Clock.Advance(2 * time.Hour)
	if err := b.Engine.GiveUp(b.Ctx, pa.ID, "Our node has lost its data."); !errors.Is(err, paidaction.ErrNotGivenUp) {
		t.Errorf("got %v", err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
}

const theDiskIsGone = "Our node has lost its data. If it did not arrive, you have it back."

func (b *bundle) wantNotGivenUp(id int64, why string) {
	b.Helper()
	before := b.Look(id).State
	if err := b.Engine.GiveUp(b.Ctx, id, theDiskIsGone); !errors.Is(err, paidaction.ErrNotGivenUp) {
		b.Errorf("%s: got %v", why, err)
	}
	b.WantState(id, before)
}

func (b *bundle) wantGivenUp(id int64) {
	b.Helper()
	if err := b.Engine.GiveUp(b.Ctx, id, theDiskIsGone); err != nil {
		b.Fatal(err)
	}
	if pa := b.WantState(id, paidaction.Failed); pa.Failure.Code != paidaction.CodeInternal || pa.Failure.Message != theDiskIsGone {
		b.Errorf("its payer is told %+v", pa.Failure)
	}
	b.wantSound()
	b.wantNotGivenUp(id, "it has failed")
}

// held is a withdrawal that its receiver holds. Nobody works on it any more.
func (b *bundle) held() *paidaction.PaidAction {
	b.Helper()
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	stop := b.Run(b.Relay)
	b.await("the receiver holds it", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held > 0 })
	b.AwaitShown(pa.ID)
	stop()
	b.Clock.Advance(over)
	return pa
}

// Spec 05.16e: a node has lost what became of a withdrawal. Once no part of it can be under way, and no other node has
// it, an operator may end it: until then its payer has neither the sats nor an answer, and one withdrawal less at a
// time.
func TestAWithdrawalThatNobodyCanTellOfIsGivenUp(t *testing.T) {
	weeks := func(b *bundle) { b.Clock.Advance(22 * 24 * time.Hour) }
	for name, lost := range map[string]func(*bundle) *paidaction.PaidAction{
		"claimed": func(b *bundle) *paidaction.PaidAction {
			pa := b.held()
			b.wantNotGivenUp(pa.ID, "its node knows it")
			b.Node.Wipe()
			return pa
		},
		"waiting for the node that may have it": (*bundle).forgotten,
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two").rich(100)
			b.Nodes[1].SetSendable(0)
			pa := lost(b)
			b.wantNotGivenUp(pa.ID, "its invoice is valid")
			b.Clock.Advance(20 * 24 * time.Hour)
			b.wantNotGivenUp(pa.ID, "an HTLC of it may be open")
			weeks(b)
			b.Nodes[1].SetAway(true)
			b.wantNotGivenUp(pa.ID, "another node may have it")
			b.Nodes[1].SetAway(false)
			doubted := b.NewRelay(func(c *relay.Config) { c.Doubted = func() (time.Time, bool) { return time.Time{}, true } })
			if err := doubted.GiveUp(b.Ctx, pa.ID, theDiskIsGone); err == nil {
				t.Error("it was given up while the database is in doubt")
			}
			gone := b.NewRelay(func(c *relay.Config) { c.Nodes = b.Nodes[1:] })
			if err := gone.GiveUp(b.Ctx, pa.ID, theDiskIsGone); err == nil {
				t.Error("it was given up though its node was not asked")
			}
			wrong := b.NewRelay(func(c *relay.Config) {
				c.ConfirmClock = func(context.Context) error { return errors.New("the clock is ahead") }
			})
			if err := wrong.GiveUp(b.Ctx, pa.ID, theDiskIsGone); err == nil {
				t.Error("it was given up by a clock that is not confirmed")
			}
			b.rounds(2)
			b.WantState(pa.ID, paidaction.Forwarding)
			b.wantGivenUp(pa.ID)
			b.wantSats(100_000)
			b.AwaitStage(pa.ID, "failed")
		})
	}
}

// A forward waits for no such time where its payer's payment has gone back: that outlasts the receiver's.
func TestAForwardThatNobodyCanTellOfIsGivenUp(t *testing.T) {
	for name, issuer := range map[string]func(*simnode.Node, uint32){
		"its payer has the money back":                  (*simnode.Node).Mine,
		"nobody can tell of its payer's payment either": func(n *simnode.Node, _ uint32) { n.Wipe() },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, "one", "two")
			b.Node.SetSendable(0)
			b.wallet.Ask.Act = simnode.Holds
			pa := b.zap()
			b.pay(pa)
			stop := b.Run(b.Relay)
			b.awaitHeld(pa)
			b.AwaitShown(pa.ID)
			stop()
			b.Nodes[1].Wipe()
			var expires time.Time
			if err := b.Pool.QueryRow(b.Ctx, `SELECT expires_at FROM relay_payment WHERE action_id = $1`, pa.ID).Scan(&expires); err != nil {
				t.Fatal(err)
			}
			b.Clock.Advance(expires.Sub(b.Clock.Now()) + time.Minute)
			b.wantNotGivenUp(pa.ID, "its payer's payment is held")
			issuer(b.Node, b.outer(pa).NodeInvoice().ExpiryHeight-18-b.Node.Height())
			if name != "its payer has the money back" {
				b.Clock.Advance(20 * 24 * time.Hour)
				b.wantNotGivenUp(pa.ID, "an HTLC of it may be open")
				b.Clock.Advance(2 * 24 * time.Hour)
				if err := b.Engine.GiveUp(b.Ctx, pa.ID, theDiskIsGone); err != nil {
					t.Fatal(err)
				}
				b.WantState(pa.ID, paidaction.FailedForward) // nor can anybody tell that the payer has it back
			} else {
				b.wantNotGivenUp(pa.ID, "by the node's clock its invoice may be valid")
				b.Clock.Advance(time.Minute)
			}
			b.wantGivenUp(pa.ID)
			b.wantReceived(pa, 0)
		})
	}
}

// before does something once, right before the first query that begins so, once it is armed.
type before struct {
	query string
	what  func()
}

func (s *before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if what := s.what; what != nil && strings.HasPrefix(q.SQL, s.query) {
		s.what = nil
		what()
	}
	return ctx
}

func (*before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// The node's data come back while a payment is being given up, and it goes on there: no claim is ended but the one that
// was there when the nodes were asked.
func TestWhatGoesOnMeanwhileIsNotGivenUp(t *testing.T) {
	b := setup(t).rich(100)
	pa := b.held()
	full, exec := b.Node.Backup(), func(sql string) {
		if _, err := b.Pool.Exec(b.Ctx, sql); err != nil {
			t.Error(err)
		}
	}
	exec(`UPDATE relay_attempt SET outcome = 'NOT_SENT', reason = 'x', ended_at = claimed_at, seen = false, node_key = 'another ' || node_key`)
	exec(`UPDATE relay_payment SET stage = 'incoming'`)
	b.Node.Wipe()
	b.Clock.Advance(30 * 24 * time.Hour)
	s := &before{query: "-- name: OpenAttempt"}
	pool := b.traced(s)
	r := b.NewRelay(func(c *relay.Config) { c.Pool = pool })
	s.what = func() {
		exec(`UPDATE relay_attempt SET node_key = substr(node_key, 9)`)
		b.Node.Restore(full)
		b.Advance(pa.ID)
	}
	if err := r.GiveUp(b.Ctx, pa.ID, theDiskIsGone); err == nil {
		t.Error("it was given up")
	}
	b.AwaitStage(pa.ID, "in_work")
	if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome IS NULL`); n != 1 {
		t.Errorf("the node that has it has %d claims", n)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
}

// Nor is one that was put back and claimed again meanwhile: its worker may be sending it, and the stage is the same.
func TestWhatIsClaimedAgainMeanwhileIsNotGivenUpByAnOperator(t *testing.T) {
	b := setup(t).rich(100)
	pa := b.held()
	b.Node.Wipe()
	b.Clock.Advance(30 * 24 * time.Hour)
	s := &before{query: "-- name: LatestDoubt"}
	pool := b.traced(s)
	r := b.NewRelay(func(c *relay.Config) { c.Pool = pool })
	s.what = func() {
		for _, sql := range []string{
			`UPDATE relay_attempt SET outcome = 'NOT_SENT', reason = 'x', ended_at = claimed_at`,
			`INSERT INTO relay_attempt (payment_id, node, node_key, fence, claimed_at, send_until) SELECT payment_id, node, node_key, fence, claimed_at, send_until FROM relay_attempt`,
		} {
			if _, err := b.Pool.Exec(b.Ctx, sql); err != nil {
				t.Error(err)
			}
		}
	}
	if err := r.GiveUp(b.Ctx, pa.ID, theDiskIsGone); err == nil {
		t.Error("it was given up")
	}
	if n := b.Count(`SELECT count(*) FROM relay_payment JOIN relay_attempt a ON a.payment_id = relay_payment.id WHERE stage = 'in_work' AND outcome IS NULL AND NOT seen`); n != 1 {
		t.Errorf("%d payments are in work under a claim that was made meanwhile, want 1", n)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
}
