package main

import (
	"context"

	"github.com/a-seed-a7aed72f/holdfast/internal/bench/bare"
)

type bareCommand struct {
	Listen      string `env:"HOLDFAST_LISTEN" required:""`
	DatabaseURL string `env:"HOLDFAST_DATABASE_URL" required:""`
	Connections int32  `default:"16"`
}

// Run is the bare handler that bench compares the service with, a separate process.
func (c *bareCommand) Run(ctx context.Context) error {
	return bare.Serve(ctx, bare.Settings{Listen: c.Listen, DatabaseURL: c.DatabaseURL, Connections: c.Connections})
}
