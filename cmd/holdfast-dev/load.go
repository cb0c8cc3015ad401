package main

import (
	"context"
	"os"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
)

type loadCommand struct{}

// Run is the load generator of bench, a separate process: a plan comes in, its result goes out.
func (loadCommand) Run(ctx context.Context) error { return load.Serve(ctx, os.Stdin, os.Stdout) }
