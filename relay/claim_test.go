package relay_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// gate lets nobody have a place before it is opened, and counts who asks for one.
type gate struct {
	asked chan struct{}
	open  chan struct{}
	given atomic.Int64
}

func (g *gate) Lease(context.Context, string) (relay.Lease, error) {
	g.asked <- struct{}{}
	<-g.open
	return passed{g.given.Add(1)}, nil
}

type passed struct{ fence int64 }

func (p passed) Fence() int64                       { return p.fence }
func (passed) Release(context.Context, relay.Blame) {}

// Who claims for a node at the same time asks for as many places as there are payments: a lease that is taken for a payment which somebody of the same process
// claims is for nothing. And what one of them has passed over is not forgotten.
func TestClaimersTakeDifferentPayments(t *testing.T) {
	t.Parallel()
	b := newBundle(t, paidaction.Settings{}, "one")
	g := &gate{asked: make(chan struct{}, 10), open: make(chan struct{})}
	r := b.NewRelay(func(c *relay.Config) { c.Leases = g })
	taken := make(chan bool, 10)
	step := func() {
		more, err := r.Step(b.Ctx, "one", b.Engine.Advance)
		if err != nil {
			t.Error(err)
		}
		taken <- more
	}
	first, second := b.zap(), b.zap()
	b.pay(first)
	go step()
	<-g.asked
	go step()
	if <-taken {
		t.Error("a second one took what the first was claiming")
	}
	b.pay(second)
	go step()
	<-g.asked
	go step()
	if <-taken {
		t.Error("a third one took what others were claiming")
	}
	if n := len(g.asked); n != 0 {
		t.Errorf("%d further places were asked for", n)
	}
	close(g.open)
	for range 2 {
		if !<-taken {
			t.Error("a payment was claimed, and not taken")
		}
	}
	for _, pa := range []*paidaction.PaidAction{first, second} {
		b.WantState(pa.ID, paidaction.Paid)
	}
	if n := b.Count(`SELECT count(DISTINCT fence) FROM relay_attempt WHERE outcome = 'PAID'`); n != 2 {
		t.Errorf("%d claims were paid, want 2", n)
	}
	if more, err := r.Step(b.Ctx, "one", b.Engine.Advance); more || err != nil {
		t.Errorf("something is left: %v, %v", more, err)
	}
	b.WantConserved()
}

// looks counts who has looked for a payment, and has the first one stand still with what it saw.
type looks struct {
	number atomic.Int64
	goOn   chan struct{}
}

func (*looks) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (*looks) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*looks) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l *looks) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	if strings.HasPrefix(q.SQL, "-- name: NextClaimable ") && l.number.Add(1) == 1 {
		<-l.goOn
	}
}

func (*looks) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A worker stands still that has seen nothing to claim. Others leave to it the only payment, which came since, and sleep. Once it goes on and claims nothing,
// somebody looks again, though nobody is told of the payment and the next look by the clock is far away.
func TestWhatWasPassedOverForNothingIsLookedForAgain(t *testing.T) {
	b := setup(t)
	l := &looks{goOn: make(chan struct{})}
	goOn := sync.OnceFunc(func() { close(l.goOn) })
	r := b.NewRelay(func(c *relay.Config) { c.Pool, c.Settings.Poll = b.traced(l), time.Hour })
	t.Cleanup(goOn)
	claimed := make(chan bool, 1)
	go func() {
		more, err := r.Step(b.Ctx, "one", b.Engine.Advance)
		if err != nil {
			t.Error(err)
		}
		claimed <- more
	}()
	b.await("one sees nothing", func() bool { return l.number.Load() == 1 })
	pa := b.zap()
	b.pay(pa)
	b.Run(r)
	b.await("four others leave it the payment", func() bool { return l.number.Load() == 1+4 })
	b.AwaitStage(pa.ID, "incoming")
	goOn()
	if <-claimed {
		t.Error("it has claimed what it did not see")
	}
	b.Await(pa.ID, paidaction.Paid)
	b.wantSound()
}

// What expires first is sent first, whenever it was asked for.
func TestWhatExpiresFirstIsSentFirst(t *testing.T) {
	b := setup(t).rich(200)
	late, soon := b.issue(simnode.Ask{Amount: 50_000, Expiry: 2 * time.Hour}), b.issue(simnode.Ask{Amount: 50_000, Expiry: time.Hour})
	b.withdraw(late.Bolt11)
	b.withdraw(soon.Bolt11)
	if sent, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !sent || err != nil {
		t.Fatal(sent, err)
	}
	b.wantPaidOut(soon.Hash, 50_000)
	b.wantPaidOut(late.Hash, 0)
}

// Who stands still while claiming a payment holds up none of those behind it.
func TestAPaymentThatIsBeingClaimedHoldsUpNoOther(t *testing.T) {
	b := setup(t).rich(200)
	first, second := b.issue(simnode.Ask{Amount: 50_000, Expiry: time.Hour}), b.issue(simnode.Ask{Amount: 50_000, Expiry: 2 * time.Hour})
	claiming := b.withdraw(first.Bolt11)
	b.withdraw(second.Bolt11)
	tx, err := b.Pool.Begin(b.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.Ctx) }()
	if _, err := tx.Exec(b.Ctx, `SELECT FROM relay_payment WHERE action_id = $1 FOR NO KEY UPDATE`, claiming.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Ctx, 20*time.Second) // who waits for it waits for ever
	defer cancel()
	if sent, err := b.Relay.Step(ctx, "one", b.Engine.Advance); !sent || err != nil {
		t.Fatal(sent, err)
	}
	b.wantPaidOut(second.Hash, 50_000)
	if err := tx.Rollback(b.Ctx); err != nil {
		t.Fatal(err)
	}
	if sent, err := b.Relay.Step(b.Ctx, "one", b.Engine.Advance); !sent || err != nil {
		t.Fatal(sent, err)
	}
	b.wantPaidOut(first.Hash, 50_000)
	b.wantSound()
}

// A payment that failed is made again, and lost on its way to the node: what that shows then is the first, which is no word of the second.
func TestAFailureFromBeforeTheSendIsNoWordOfWhatWasLost(t *testing.T) {
	b, inv, again := withdrawnAgain(t, simnode.Pays)
	b.Node.FailBefore(simnode.MethodPay, 1)
	if sent, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); err != nil || !sent {
		t.Fatal(sent, err)
	}
	b.Clock.Advance(over)
	b.Run(b.Relay)
	b.Await(again.ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
	b.wantSound()
}

// It is given up by the word of that node once its invoice has expired, which has an earlier failure to show and no payment.
func TestWhatWasLostAfterAFailureIsGivenUp(t *testing.T) {
	b := setup(t).rich(200)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Refuses})
	stop := b.Run(b.Relay)
	b.Await(b.withdraw(inv.Bolt11).ID, paidaction.Failed)
	stop()
	again := b.withdraw(inv.Bolt11)
	b.Node.FailBefore(simnode.MethodPay, 1)
	if sent, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); err != nil || !sent {
		t.Fatal(sent, err)
	}
	b.Clock.Advance(over)
	b.Advance(again.ID)
	b.AwaitStage(again.ID, "incoming")
	b.Clock.Advance(2 * time.Hour)
	for b.Advance(again.ID) == paidaction.Moved {
	}
	b.WantState(again.ID, paidaction.Failed)
	b.wantPaidOut(inv.Hash, 0)
	b.wantSats(200_000)
	b.wantSound()
}

// The node that is left a payment because it has it is wiped before anybody looks again: that it does not know it then is no word of it.
func TestANodeThatForgotWhatWasLeftToItSaysNothing(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.paidByTheSecond(inv.Bolt11)
	if claimed, err := b.Relay.Step(b.Ctx, "one", func(context.Context, int64) (paidaction.Progress, error) { return paidaction.Waiting, nil }); !claimed || err != nil {
		t.Fatalf("claimed by the first node: %t, error %v", claimed, err)
	}
	b.Nodes[1].Wipe()
	b.Clock.Advance(over)
	b.rounds(3)
	b.WantState(pa.ID, paidaction.Forwarding)
	b.AwaitStage(pa.ID, "in_work")
}

// What a node could not make is for the others: it is not given to that one again, which would only find no route once more.
func TestANodeIsNotGivenAgainWhatItCouldNotMake(t *testing.T) {
	b := setup(t, "one", "two").rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Unreachable})
	b.withdraw(inv.Bolt11)
	for _, c := range []struct {
		node  string
		given bool
	}{{"one", true}, {"one", false}, {"two", true}} {
		b.Clock.Advance(time.Minute)
		if given, err := b.Relay.Step(b.Ctx, c.node, b.Engine.Advance); err != nil || given != c.given {
			t.Fatalf("node %s is given it: %t, error %v", c.node, given, err)
		}
	}
}

// slow gives a place once somebody else has claimed, and notes what becomes of it.
type slow struct {
	meanwhile func()
	blames    []relay.Blame
}

func (s *slow) Lease(context.Context, string) (relay.Lease, error) {
	s.meanwhile()
	return s, nil
}

func (*slow) Fence() int64                               { return 1 }
func (s *slow) Release(_ context.Context, b relay.Blame) { s.blames = append(s.blames, b) }

// Another process has claimed the payment that a place was taken for: the place is given back, and the node is not to blame.
func TestAPlaceThatWasTakenForNothingIsGivenBack(t *testing.T) {
	b := setup(t).rich(100)
	pa := b.withdraw(b.issue(simnode.Ask{Amount: 50_000}).Bolt11)
	step := func(r *relay.Relay, want bool) {
		if claimed, err := r.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); err != nil || claimed != want {
			t.Errorf("claimed: %t, error %v", claimed, err)
		}
	}
	s := &slow{meanwhile: func() { step(b.Relay, true) }}
	step(b.NewRelay(func(c *relay.Config) { c.Leases = s }), false)
	if !slices.Equal(s.blames, []relay.Blame{relay.Unused}) {
		t.Errorf("the place was given back with %v", s.blames)
	}
	b.WantState(pa.ID, paidaction.Paid)
}

// A node that cannot say whether it has a payment is not given it: it may have made it before, and what it shows of that would be taken for this time.
func TestWhatANodeCannotSayItHasIsNotSent(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000})
	pa := b.withdraw(inv.Bolt11)
	b.Node.FailBefore(simnode.MethodTrack, 1)
	for sent := range 2 {
		b.Clock.Advance(time.Minute)
		if claimed, err := b.Relay.Step(b.Ctx, b.Node.Name(), b.Engine.Advance); err != nil || !claimed {
			t.Fatalf("claimed: %t, error %v", claimed, err)
		}
		b.wantSent(inv.Hash, sent)
	}
	b.WantState(pa.ID, paidaction.Paid)
}

// Whoever looks at a payment notes that its node has it, where the worker that sent it no longer could: what the node forgets later says nothing then.
func TestWhoLooksNotesThatTheNodeHasIt(t *testing.T) {
	b := setup(t).rich(100)
	inv := b.issue(simnode.Ask{Amount: 50_000, Act: simnode.Holds})
	pa := b.withdraw(inv.Bolt11)
	stop := b.Run(b.Relay)
	b.await("the receiver holds the payment", func() bool { return b.wallet.Receiver.Receipt(inv.Hash).Held == 50_000 })
	stop()
	if _, err := b.Pool.Exec(b.Ctx, `UPDATE relay_attempt SET seen = false`); err != nil {
		t.Fatal(err)
	}
	b.rounds(1)
	b.Node.Wipe()
	b.Clock.Advance(2 * time.Hour)
	if p, err := b.Engine.Advance(b.Ctx, pa.ID); !errors.Is(err, paidaction.ErrPaymentNotFound) {
		t.Errorf("progress %d, error %v", p, err)
	}
	b.WantState(pa.ID, paidaction.Forwarding)
}

// Whoever audits a node looks once at all that is in work there, however much hangs in front of it.
func TestAnAuditReachesAllThatIsInWork(t *testing.T) {
	b := setup(t)
	first := b.zap()
	b.pay(first)
	const others = 450
	b.copies(first, others, time.Hour)
	if n := b.Count(`WITH claimed AS (UPDATE relay_payment SET stage = 'in_work', node = 'one' RETURNING 1) SELECT count(*) FROM claimed`); n != 1+others {
		t.Fatalf("%d payments are in work", n)
	}
	looks := map[int64]int{}
	ctx, end := context.WithCancel(b.Ctx)
	defer end()
	err := b.Relay.Audit(ctx, "one", func(_ context.Context, action int64) (paidaction.Progress, error) {
		if looks[action]++; looks[action] > 1 {
			t.Errorf("action %d is looked at again", action)
			end()
		}
		return paidaction.Waiting, nil
	})
	if err != nil || len(looks) != 1+others {
		t.Errorf("%d of %d payments were looked at, error %v", len(looks), 1+others, err)
	}
}

// That one audit fails is no reason to stop the work.
func TestAnAuditThatFailsStopsNothing(t *testing.T) {
	b := setup(t).rich(100)
	b.Run(b.NewRelay(func(c *relay.Config) { c.Pool = b.without("-- name: RelayOfNode ") }))
	inv := b.issue(simnode.Ask{Amount: 50_000})
	b.Await(b.withdraw(inv.Bolt11).ID, paidaction.Paid)
	b.wantPaidOut(inv.Hash, 50_000)
}

// heard are lines of a log; those that nobody waits for are dropped.
type heard chan string

func (h heard) Write(line []byte) (int, error) {
	select {
	case h <- string(line):
	default:
	}
	return len(line), nil
}

// While payments cannot be counted, the gauges show what was: the log says so.
func TestThatPaymentsCannotBeCountedIsTold(t *testing.T) {
	b := setup(t)
	log := make(heard, 1)
	b.Run(b.NewRelay(func(c *relay.Config) {
		c.Pool, c.Log = b.without("-- name: RelayStages "), slog.New(slog.NewTextHandler(log, nil))
	}))
	select {
	case line := <-log:
		if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "could not be counted") {
			t.Error(line)
		}
	case <-time.After(time.Minute):
		t.Error("nothing is told")
	}
}
