package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/chaos"
)

type chaosCommand struct {
	Bin      string        `help:"Directory of the programs (default: the directory of this one)."`
	Duration time.Duration `default:"10m" help:"Length of load and kills, without setting up and draining."`
	Every    time.Duration `default:"4.5s" help:"Average time between two kills."`
	Seed     uint64        `help:"Seed for what is killed when, and for what is asked for (default: the time)."`
}

// Validate refuses a run without load and kills: nothing would be lost in it.
func (c *chaosCommand) Validate() error {
	if c.Duration <= 0 {
		return errors.New("--duration must be above 0")
	}
	return nil
}

// Run starts a separate stack, torments and judges it, and leaves nothing running and nothing behind, except the logs
// of a run that found something.
func (c *chaosCommand) Run(ctx context.Context) error {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().Unix())
	}
	running, err := startFresh(ctx, "chaos", c.Bin, chaos.Stack())
	if err != nil {
		return err
	}
	say("Seed %d.", c.Seed)
	summary, err := chaos.Run(ctx, running.Stack, chaos.Options{Duration: c.Duration, Seed: c.Seed, Every: c.Every, Out: os.Stdout})
	running.Stop()
	if err != nil {
		return fmt.Errorf("%w (the logs are in %s)", err, running.dir)
	}
	if !summary.Passed() {
		say("The logs are in %s", running.dir)
	} else if err := running.remove(); err != nil {
		return err
	}
	return conclude(os.Stdout, summary)
}
