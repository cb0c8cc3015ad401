package fakenode

import (
	"context"
	"fmt"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const (
	// watchPatience is how long subscriptions may take to appear, or to disappear after a service has ended.
	watchPatience = 5 * time.Minute
	// watchPause is the pause between two looks.
	watchPause = 5 * time.Millisecond
)

// forgotten waits until no invoice has its own subscription any more.
func forgotten(ctx context.Context, node *simnode.Node) (done Done) {
	if _, err := await(ctx, node, func(watched int) bool { return watched == 0 }); err != nil {
		done.Failed = err.Error()
	}
	node.ForgetCalls()
	return done
}

// watched waits until this many invoices have a subscription each.
func watched(ctx context.Context, node *simnode.Node, want int) Done {
	at, err := await(ctx, node, func(watched int) bool { return watched >= want })
	if err != nil {
		return Done{Failed: err.Error()}
	}
	each := map[paidaction.Hash]bool{}
	for _, c := range node.Calls() {
		if c.Method == simnode.MethodWatchInvoice && c.Reached {
			each[c.Hash] = true
		}
	}
	if len(each) < want {
		return Done{Failed: fmt.Sprintf("%d subscriptions are of %d invoices", want, len(each))}
	}
	return Done{Watched: at}
}

func await(ctx context.Context, node *simnode.Node, reached func(watched int) bool) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	again := time.NewTicker(watchPause)
	defer again.Stop()
	for {
		at = time.Now()
		n := node.Watched()
		if reached(n) {
			return at, nil
		}
		select {
		case <-ctx.Done():
			return at, fmt.Errorf("%d invoices are subscribed to: %w", n, ctx.Err())
		case <-again.C:
		}
	}
}
