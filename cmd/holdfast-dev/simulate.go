package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate"
)

type simulateCommand struct {
	Seeds     int    `default:"200" help:"How many seeds to try."`
	SeedStart uint64 `default:"1" help:"The first seed. A seed always gives exactly the same run."`
	Parallel  int    `default:"4" help:"How many to try in parallel."`
	Stop      bool   `help:"Stop at the first one that fails."`
	Break     string `help:"Try a copy of the service with this seeded bug in it, until a seed fails. \"all\": one after the other."`
	Show      bool   `help:"Print the story of every seed, not only of those that fail."`
}

const allBugs = "all"

// Validate refuses to try nothing, in which nothing would be found.
func (c *simulateCommand) Validate() error {
	if c.Seeds < 1 {
		return errors.New("--seeds must be 1 or more")
	}
	if bugs := simulate.Bugs(); c.Break != "" && c.Break != allBugs && !slices.Contains(bugs, c.Break) {
		return fmt.Errorf("there is no seeded bug %q; there are %s, and %s", c.Break, strings.Join(bugs, ", "), allBugs)
	}
	return nil
}

// breakIt shows that a seeded bug is found, and fails if it is not.
func (c *simulateCommand) breakIt(ctx context.Context, name string) error {
	top, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("find the source of the module: %w", err)
	}
	dir, err := os.MkdirTemp("", "holdfast-broken-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "broken")
	if err := simulate.Build(ctx, strings.TrimSpace(string(top)), name, "./internal/simulate/broken", program); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, program, strconv.Itoa(c.Seeds), strconv.FormatUint(c.SeedStart, 10), strconv.Itoa(c.Parallel)).Output()
	if err != nil {
		return fmt.Errorf("try bug %s: %w", name, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var found simulate.Summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &found); err != nil {
		return fmt.Errorf("read what became of bug %s: %w", name, err)
	}
	if len(found.FailingSeeds) == 0 {
		return fmt.Errorf("bug %s is not found in %d seeds", name, found.Seeds)
	}
	fmt.Printf("%-32s found after %4d seeds: %s\n", name, found.Seeds, found.First[0])
	return nil
}

// Run tries seeds, and exits with 1 if they do not pass.
func (c *simulateCommand) Run(ctx context.Context) error {
	if err := pgserver.EnsureInstalled(ctx, os.Stderr); err != nil {
		return err
	}
	switch c.Break {
	case "":
	case allBugs:
		var missed []error
		for _, name := range simulate.Bugs() {
			missed = append(missed, c.breakIt(ctx, name))
		}
		return errors.Join(missed...)
	default:
		return c.breakIt(ctx, c.Break)
	}
	summary, err := simulate.Run(ctx, simulate.Options{Seeds: c.Seeds, Start: c.SeedStart, Parallel: c.Parallel, Stop: c.Stop, Show: c.Show, Out: os.Stdout})
	if err != nil {
		return err
	}
	return conclude(os.Stdout, summary)
}
