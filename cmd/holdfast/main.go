// Command holdfast is the service and the operator's tools. Each command is a field of cli; newService (serve.go) puts
// the service together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"go.opentelemetry.io/otel/trace"

	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/timeline"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Exit codes. None is 2, which is how a panicking Go program ends. A supervisor that does not restart the service after
// refused settings should restart it after a panic.
const (
	exitOK     = 0
	exitFailed = 1  // tried, and failed
	exitFound  = 3  // done, and found what it looks for: something stuck or broken, or left some as they are
	exitUsage  = 64 // not tried: wrong arguments or settings (EX_USAGE of sysexits.h)
)

type cli struct {
	config.Config `embed:""`

	File string `name:"config" help:"JSON file of settings; its keys are the names of the flags." placeholder:"FILE"`
	JSON bool   `name:"json" help:"Print JSON, even on a terminal."`

	Serve    serveCommand    `cmd:"" help:"Run the service."`
	Migrate  migrateCommand  `cmd:"" help:"Move the database between versions of its schema."`
	Actions  actionsCommand  `cmd:"" help:"Inspect paid actions, and nudge them."`
	Locks    locksCommand    `cmd:"" help:"List who holds a lock in the database, who waits for it, and for how long."`
	Nodes    nodesCommand    `cmd:"" help:"Inspect the Lightning nodes, and choose which of them get payments."`
	Users    usersCommand    `cmd:"" help:"Make users, and revoke their API keys."`
	Items    itemsCommand    `cmd:"" help:"Take back what somebody has done to an item with a key of its author's."`
	Relay    relayCommand    `cmd:"" help:"Inspect outgoing payments, and requeue failed ones."`
	Timeline timelineCommand `cmd:"" help:"List the histories from which the database went on after a restore or a fail-over, and accept the latest."`
	Webhooks webhooksCommand `cmd:"" help:"Manage the operator's webhooks, which are told of everybody's actions."`
	Settings configCommand   `cmd:"" name:"config" help:"Inspect the settings."`

	Archive     archiveCommand     `cmd:"" changes:"" help:"Move the history and postings of old actions out of the tables, in whole ranges. The service keeps running."`
	Reconcile   reconcileCommand   `cmd:"" help:"Check every invariant against the database and the nodes. Exit code 0 only if none is broken."`
	Commands    commandsCommand    `cmd:"" help:"List the commands that changed something: who ran them, when, and how they ended."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask the service on this machine whether it is alive. Exit code 0 if it is."`
}

// environment is what commands work with.
type environment struct {
	config *config.Config
	out    io.Writer
	log    *slog.Logger
	json   bool // print JSON
	asked  asked

	tracesTo string               // an address; empty: no traces
	traces   trace.TracerProvider // nil: no traces

	failures failures       // of the database, as its pool hears of them
	timeline timeline.Watch // of the database

	readyFor, timelineEvery time.Duration // tests wait less
}

func main() {
	if slices.Contains(os.Args[1:], "serve") {
		slacken()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns the exit code. change is for tests.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer, change ...func(*environment)) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c, append(decimal(), kong.Name("holdfast"),
		kong.Description("Paid actions over Lightning. Every setting is a flag, a variable in the environment (--database-url is HOLDFAST_DATABASE_URL) or a key of a file (\"database-url\"). Options of a single command are flags."),
		kong.Writers(stdout, stderr), kong.Resolvers(config.Resolver(env)), kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Help(help),
		kong.Exit(func(code int) { exited = max(exited, code) }))...)
	if err != nil {
		fmt.Fprintln(stderr, "holdfast:", err)
		return exitFailed
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if file := (*config.FileError)(nil); errors.As(err, &file) {
		err = file
	}
	if err != nil {
		fmt.Fprintf(stderr, "holdfast: %v\nTry holdfast --help.\n", err)
		return exitUsage
	}
	e := &environment{config: &c.Config, out: stdout, log: newLogger(&c.Config, stderr), json: c.JSON || !isTerminal(stdout), asked: askedFor(command, env),
		tracesTo: tracesEndpoint(env), readyFor: readyFor, timelineEvery: timelineEvery}
	for _, f := range change {
		f(e)
	}
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(e)
	var code exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errSettings), errors.Is(err, errArguments):
		fmt.Fprintln(stderr, "holdfast:", plain(err))
		return exitUsage
	default:
		fmt.Fprintln(stderr, "holdfast:", plain(err))
		return exitFailed
	}
}

// plain is what an error says to people. A refusal's code is for the API: here the exit code is what programs go by.
func plain(err error) string {
	text := err.Error()
	if refusal, ok := paidaction.AsRefusal(err); ok {
		return strings.Replace(text, string(refusal.Code)+": ", "", 1)
	}
	return text
}

// exitCode is an end without a message on stderr. What it says is noted of commands that change something.
type exitCode int

func (exitCode) Error() string { return "something is left that its output tells of" }

// errSettings and errArguments mark refused input.
var (
	errSettings  = errors.New("refused settings")
	errArguments = errors.New("refused arguments")
)

// refusedArguments marks an error that refuses the arguments as typed, which can never work. Other refusals, such as of
// a name that is taken, are failures.
func refusedArguments(err error) error {
	if errors.Is(err, paidaction.Refused(paidaction.CodeInvalidInput)) {
		return fmt.Errorf("%w: %w", errArguments, err)
	}
	return err
}

// help shows only a command's own flags, because the settings fill several pages and are the same for all. serve shows
// them.
func help(options kong.HelpOptions, c *kong.Context) error {
	if selected := c.Selected(); selected != nil && selected.Name == "serve" {
		if err := kong.DefaultHelpPrinter(options, c); err != nil {
			return err
		}
		_, err := fmt.Fprintln(c.Stdout, "\nThese are all settings. --max-pending is HOLDFAST_MAX_PENDING in the environment, and\n\"max-pending\" in the file.")
		return err
	}
	for _, flag := range c.Model.Flags {
		flag.Hidden = !slices.Contains([]string{"help", "json", config.FileFlag, "database-url"}, flag.Name)
	}
	if err := kong.DefaultHelpPrinter(options, c); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.Stdout, "\nRun \"holdfast serve --help\" for all settings.")
	return err
}
