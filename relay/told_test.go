package relay_test

import (
	"context"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/relay"
)

// A process that is told to end with a claim in its hands under which nothing was sent gives it back. Else nobody could
// send the payment before the claim's time is over, and then only through the same node.
func TestAProcessToldToEndGivesItsClaimBack(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context, b *bundle, end func(), hash paidaction.Hash){
		"while it claims": func(ctx context.Context, b *bundle, end func(), _ paidaction.Hash) {
			other, err := b.Pool.Begin(b.Ctx)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = other.Rollback(context.Background()) }()
			if _, err := other.Exec(b.Ctx, `LOCK TABLE relay_attempt IN SHARE MODE`); err != nil {
				b.Fatal(err)
			}
			over := make(chan error, 1)
			go func() { _, err := b.Relay.Step(ctx, "one", b.Engine.Advance); over <- err }()
			b.AwaitBlocked(1)
			end()
			if err := other.Rollback(b.Ctx); err != nil {
				b.Fatal(err)
			}
			if err := <-over; err != nil {
				b.Error(err)
			}
		},
		"right before it sends": func(ctx context.Context, b *bundle, end func(), hash paidaction.Hash) {
			b.Node.ForgetCalls()
			r := b.NewRelay(func(c *relay.Config) {
				c.Beside = func(do func()) (wait func()) {
					if do(); b.Node.Count(simnode.MethodTrack, hash) > 0 { // the node has said that it does not know the payment
						end()
					}
					return func() {}
				}
			})
			if _, err := r.Step(ctx, "one", b.Engine.Advance); err != nil {
				b.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			pa := b.zap()
			b.pay(pa)
			ctx, end := context.WithCancel(b.Ctx)
			defer end()
			run(ctx, b, end, pa.Invoice.Hash)
			if ctx.Err() == nil {
				t.Fatal("the process was not told to end")
			}
			if row := b.AwaitStage(pa.ID, "incoming"); row.Node != nil {
				t.Errorf("only node %s may send it", *row.Node)
			}
			if n := b.Count(`SELECT count(*) FROM relay_attempt WHERE outcome = 'NOT_SENT'`); n != 1 {
				t.Errorf("%d claims were given back, want 1", n)
			}
			b.Run(b.NewRelay())
			b.awaitPastPauses(pa, paidaction.Paid)
			b.wantReceived(pa, 70_000)
			b.wantSound()
		})
	}
}
