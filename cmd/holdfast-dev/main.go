// Holdfast-dev is the developer's tool: it runs the service, and what the service needs, on one machine. The Makefile
// calls it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

type commands struct {
	FollowParent bool `hidden:"" help:"End when the process that started this one does, however it ends (Linux)."`

	Run          runCommand          `cmd:"" help:"Run PostgreSQL, a Lightning network and the service until Ctrl-C."`
	Demo         demoCommand         `cmd:"" help:"Drive every payment flow on a stack of its own, with real payments."`
	Bench        benchCommand        `cmd:"" help:"Measure a paid action next to what PostgreSQL itself needs."`
	Chaos        chaosCommand        `cmd:"" help:"Kill parts of a real stack under load, and check what is left."`
	Bare         bareCommand         `cmd:"" hidden:"" help:"The bare handler that bench compares the service with."`
	FakeNode     fakeNodeCommand     `cmd:"" hidden:"" help:"The Lightning node that bench uses."`
	Load         loadCommand         `cmd:"" hidden:"" help:"The load generator that bench uses."`
	Pay          payCommand          `cmd:"" help:"Pay an invoice from the payer's node of the running network."`
	Simulate     simulateCommand     `cmd:"" help:"Run the service through random schedules of faults."`
	WithPostgres withPostgresCommand `cmd:"" name:"with-postgres" help:"Run a command with a throwaway PostgreSQL."`
}

func init() {
	// --follow-parent applies to one thread, and is lost with it: keep main on the first thread, which lives longest.
	runtime.LockOSThread()
}

func main() {
	var cli commands
	command := parse(&cli, os.Args[1:])

	// A second Ctrl-C has the signal's default effect and ends this process at once; its children die with it.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	if cli.FollowParent {
		if err := child.FollowParent(syscall.SIGTERM); err != nil {
			command.FatalIfErrorf(err)
		}
	}

	command.BindTo(ctx, (*context.Context)(nil))
	if code := ended(command.Run()); code != 0 {
		os.Exit(code)
	}
}

// exitUsage is the exit code after wrong arguments, as holdfast has it.
const exitUsage = 64

// parse reads the arguments; if they are wrong it ends the program.
func parse(cli *commands, args []string, more ...kong.Option) *kong.Context {
	parser := kong.Must(cli, append(more, kong.Name("holdfast-dev"), kong.Description("The development companion of Holdfast."))...)
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(parser.Stderr, "holdfast-dev: %v\nTry holdfast-dev --help.\n", err)
		parser.Exit(exitUsage)
	}
	return command
}

// say prints progress for the person who waits.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
