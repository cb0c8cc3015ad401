package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/internal/demo"
	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
)

type demoCommand struct {
	Bin  string `help:"Directory of the programs (default: the directory of this one)."`
	Only string `help:"Only the flows with this in their name; latency is then not measured."`
}

// Validate refuses a word that no flow has in its name: nothing would be driven, and that would pass.
func (c *demoCommand) Validate() error {
	if len(demo.Names(c.Only)) == 0 {
		return fmt.Errorf("no flow has %q in its name; the flows are:\n  %s", c.Only, strings.Join(demo.Names(""), "\n  "))
	}
	return nil
}

// Run starts a separate stack, drives the flows, and leaves nothing running and nothing behind, except the log of a
// service that failed.
func (c *demoCommand) Run(ctx context.Context) error {
	running, err := startFresh(ctx, "demo", c.Bin, stack.Options{Environment: demo.Environment()})
	if err != nil {
		return err
	}
	summary, err := demo.Run(ctx, running.Stack, c.Only, os.Stdout)
	running.Stop()
	if err != nil {
		return fmt.Errorf("%w (the service's log is %s)", err, running.ServiceLog())
	}
	if !summary.Passed() {
		say("The service's log is %s", running.ServiceLog())
	} else if err := running.remove(); err != nil {
		return err
	}
	return conclude(os.Stdout, summary)
}
