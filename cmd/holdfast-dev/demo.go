package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/demo"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
)

type demoCommand struct {
	Bin  string `help:"Directory of the programs (default: where this one is)."`
	Only string `help:"Only the flows with this in their name; no latency is measured then."`
}

// Run brings a stack of its own up in a fresh directory, drives the flows, and leaves nothing running and nothing behind. The
// log of a service that failed is kept.
func (c *demoCommand) Run(ctx context.Context) error {
	bin, err := binDir(c.Bin)
	if err != nil {
		return err
	}
	if err := pgserver.EnsureInstalled(ctx, os.Stderr); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return err
	}
	// PostgreSQL's own user has to pass through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	begun := time.Now()
	running, err := stack.Start(ctx, stack.Options{Dir: dir, Bin: bin, Log: say,
		Environment: demo.Environment()})
	if err != nil {
		return fmt.Errorf("%w (what was started is in %s)", err, dir)
	}
	say("The stack is up after %.1f s.\n", time.Since(begun).Seconds())
	summary, err := demo.Run(ctx, running, c.Only, os.Stdout)
	running.Stop()
	if err != nil {
		return fmt.Errorf("%w (the service's log is %s)", err, running.ServiceLog())
	}
	line, err := json.Marshal(summary)
	if err != nil {
		return err
	}
	if !summary.OK {
		say("The service's log is %s", running.ServiceLog())
	} else if err := running.Postgres.Remove(); err != nil {
		return err
	} else if err := os.RemoveAll(dir); err != nil {
		return err
	}
	fmt.Println(string(line))
	if !summary.OK {
		return exitCode(1)
	}
	return nil
}
