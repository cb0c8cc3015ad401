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

// freshStack is a stack in a new directory.
type freshStack struct {
	*stack.Stack
	dir string
}

// startFresh starts a stack in a new directory. It sets the options' Dir, Bin and Log; an empty bin is the directory of
// this program.
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
	// PostgreSQL's user has to pass through.
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

// remove deletes everything of a stopped stack.
func (f freshStack) remove() error { return errors.Join(f.Postgres.Remove(), os.RemoveAll(f.dir)) }
