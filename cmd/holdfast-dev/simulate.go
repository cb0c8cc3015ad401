package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate"
)

type simulateCommand struct {
	Seeds     int    `default:"200" help:"How many seeds are tried."`
	SeedStart uint64 `default:"1" help:"The first one. A seed repeats itself exactly."`
	Parallel  int    `default:"4" help:"How many are tried side by side."`
	Stop      bool   `help:"Stop at the first one that fails."`
	Show      bool   `help:"Tell the story of every seed, not only of those that fail."`
}

// Run tries seeds, and exits with 1 if one of them fails.
func (c *simulateCommand) Run(ctx context.Context) error {
	if err := pgserver.EnsureInstalled(ctx, os.Stderr); err != nil {
		return err
	}
	summary, err := simulate.Run(ctx, simulate.Options{Seeds: c.Seeds, Start: c.SeedStart, Parallel: c.Parallel, Stop: c.Stop, Show: c.Show, Out: os.Stdout})
	if err != nil {
		return err
	}
	line, err := json.Marshal(summary)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	if summary.Violations > 0 {
		return exitCode(1)
	}
	return nil
}
