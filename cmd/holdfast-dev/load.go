package main

import (
	"context"
	"os"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/load"
)

type loadCommand struct{}

// Run is the load generator of bench, a process of its own: a plan comes in, what came of it goes out.
func (loadCommand) Run(ctx context.Context) error { return load.Serve(ctx, os.Stdin, os.Stdout) }
