package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/aptget"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/chromium"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/internal/redisserver"
)

type withPostgresCommand struct {
	Command []string `arg:"" passthrough:"" help:"The command and its arguments, after --."`
}

// Run passes the command's exit code on. HOLDFAST_TEST_POSTGRES in the command's environment names the server. If it is
// set already, Run uses that server and starts none.
func (w *withPostgresCommand) Run(ctx context.Context) (err error) {
	arguments := w.Command
	if arguments[0] == "--" {
		arguments = arguments[1:]
	}
	// Tests of the lock and of the client start these themselves.
	programs := []aptget.Program{redisserver.Program, pgbouncer.Program, chromium.Program}
	if os.Getenv("CC") == "" { // the race detector needs a C compiler: this one, unless CC names another
		programs = append(programs, aptget.Program{Name: "gcc", Package: "gcc libc6-dev"})
	}
	if err := aptget.Ensure(ctx, os.Stderr, programs...); err != nil {
		return err
	}
	environment := os.Environ()
	if os.Getenv(pgtest.Environment) == "" {
		if err := pgserver.EnsureInstalled(ctx, os.Stderr); err != nil {
			return err
		}
		postgres, failed := pgtest.StartThrowaway(ctx, say)
		if failed != nil {
			return failed
		}
		defer func() {
			if removal := postgres.Remove(); err == nil {
				err = removal
			}
		}()
		environment = append(environment, pgtest.Environment+"="+postgres.DSN("postgres"))
	}

	process, err := child.Start(child.Command{
		Name: arguments[0], Path: arguments[0], Args: arguments[1:], Env: environment,
		// "go test" leaves the reaction to Ctrl-C to the programs that it runs.
		Interrupt: syscall.SIGINT, WholeGroup: true,
	})
	if err != nil {
		return err
	}
	select {
	case <-process.Exited():
	case <-ctx.Done():
		process.Stop(15 * time.Second)
	}
	var exit *exec.ExitError
	if errors.As(process.Err(), &exit) {
		return exitCode(codeOf(exit))
	}
	return process.Err()
}

// codeOf is the exit code as a shell reports it: 128 plus the signal's number for a program that a signal ended.
func codeOf(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
