package relay_test

import (
	"context"
	"sync"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// A receiver takes the last part long after the first. What that has cost is booked by whoever asks the node; the worker
// that has sent it, and stood still meanwhile, hears of the end, too, and books nothing more.
func TestTheCostOfAForwardIsBookedOnce(t *testing.T) {
	b := setup(t)
	b.wallet.Ask.Act = simnode.Splits
	pa := b.zap()
	b.pay(pa)
	sender := b.NewRelay()
	config := b.Engine.Config
	config.Relay = sender
	engine, err := paidaction.New(config)
	if err != nil {
		t.Fatal(err)
	}
	paid, goOn := make(chan struct{}), make(chan struct{})
	stand := sync.OnceFunc(func() { close(paid); <-goOn })
	var worker sync.WaitGroup
	worker.Go(func() {
		claimed, err := sender.Step(b.Ctx, "one", func(ctx context.Context, id int64) (paidaction.Progress, error) {
			if b.Count(`SELECT count(*) FROM paid_action WHERE id = $1 AND state = 'PAID'`, id) == 1 {
				stand()
			}
			return engine.Advance(ctx, id)
		})
		if !claimed || err != nil {
			t.Error(claimed, err)
		}
	})
	<-paid
	b.AwaitStage(pa.ID, "pending_confirmation")
	b.settle(pa)
	b.Advance(pa.ID)
	b.AwaitStage(pa.ID, "completed")
	rewards := b.Balance(ledger.RewardSats)
	close(goOn)
	worker.Wait()
	b.wantReceived(pa, 70_000)
	b.WantBalance(ledger.RoutingSats, 0)
	b.WantBalance(ledger.RewardSats, rewards)
	if n := b.Count(`SELECT count(*) FROM posting WHERE action_id = $1 AND reason = 'paid out'`, pa.ID); n != 1 {
		t.Errorf("its cost is booked %d times", n)
	}
	b.wantSound()
}
