package main

import (
	"context"
	"os"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/fakenode"
)

type fakeNodeCommand struct{}

// Run is the Lightning node of bench, a separate process: orders to pay come in, the time of each payment goes out.
func (fakeNodeCommand) Run(ctx context.Context) error {
	return fakenode.Serve(ctx, os.Stdin, os.Stdout)
}
