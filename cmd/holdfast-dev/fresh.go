package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
)

// freshStack is a stack in a new directory of its own.
type freshStack struct {
	*stack.Stack
	dir string
}

// startFresh brings a stack up in a fresh directory. The options' Dir, Bin and Log are set here; an empty bin is where this program is.
func startFresh(ctx context.Context, name, bin string, options stack.Options) (f freshStack, err error) {
	if options.Bin, err = binDir(bin); err != nil {
		return f, err
	}
	if err := pgserver.EnsureInstalled(ctx, os.Stderr); err != nil {
		return f, err
	}
	if f.dir, err = os.MkdirTemp("", "holdfast-"+name+"-"); err != nil {
		return f, err
	}
	// PostgreSQL's own user has to pass through.
	if err := os.Chmod(f.dir, 0o711); err != nil {
		return f, err
	}
	begun := time.Now()
	options.Dir, options.Log = f.dir, say
	if f.Stack, err = stack.Start(ctx, options); err != nil {
		return f, fmt.Errorf("%w (what was started is in %s)", err, f.dir)
	}
	say("The stack is up after %.1f s.\n", time.Since(begun).Seconds())
	return f, nil
}

// remove deletes everything of a stack that was stopped.
func (f freshStack) remove() error { return errors.Join(f.Postgres.Remove(), os.RemoveAll(f.dir)) }
