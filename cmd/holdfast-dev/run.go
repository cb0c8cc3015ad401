package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/demo"
	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/internal/stack"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

type runCommand struct {
	Dir        string        `help:"Directory for all data." default:".holdfast"`
	Bin        string        `help:"Directory of the programs (default: the directory of this one)."`
	Port       int           `help:"The service's port (default: 8080 if it is free, else any free one)."`
	BlockEvery time.Duration `help:"Interval between mined blocks; 0 mines none." default:"3m"`
}

func (r *runCommand) Run(ctx context.Context) error {
	begun := time.Now()
	bin, err := binDir(r.Bin)
	if err != nil {
		return err
	}
	if err := pgserver.EnsureInstalled(ctx, os.Stderr); err != nil {
		return err
	}
	const usual = 8080
	if r.Port == 0 && freeport.IsFree(usual) {
		r.Port = usual
	}
	running, err := stack.Start(ctx, stack.Options{Dir: r.Dir, Bin: bin, Port: r.Port, BlockEvery: r.BlockEvery, Log: say})
	switch {
	case ctx.Err() != nil:
		return nil // Ctrl-C while starting
	case errors.Is(err, child.ErrClaimed):
		return fmt.Errorf("%w: it runs already; stop it, or give this one another --dir", err)
	case err != nil:
		return err
	}
	defer func() {
		say("Stopping…")
		running.Stop()
	}()
	key, err := exampleKey(ctx, running, filepath.Join(r.Dir, "api-key"))
	if err != nil {
		return err
	}
	greet(running, r.Dir, bin, key, time.Since(begun))
	return running.Died(ctx)
}

// binDir is the directory of the programs: the given one, or this program's own, because all are built into one.
func binDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	self, err := os.Executable()
	return filepath.Dir(self), err
}

// exampleKey is an API key to begin with. It is made at the first start and kept next to the database that knows it.
func exampleKey(ctx context.Context, running *stack.Stack, file string) (string, error) {
	if kept, err := os.ReadFile(file); err == nil {
		return strings.TrimSpace(string(kept)), nil
	}
	key, err := demo.SignUp(ctx, running.URL(), "example")
	if err != nil {
		return "", fmt.Errorf("make an API key: %w", err)
	}
	return key, os.WriteFile(file, []byte(key+"\n"), 0o600)
}

func greet(running *stack.Stack, dir, bin, key string, took time.Duration) {
	fmt.Printf(`
Holdfast is ready, after %.1f s.

  Open        %[2]s/ in a browser: write a post, and pay for it with the demo wallet
  Playground  %[2]s/playground/
  Operator    %[2]s/operator/ (name: any; password: %[5]s)
  GraphQL     %[2]s/graphql
  Database    psql '%[3]s'
  Log         %[4]s
`, took.Seconds(), running.URL(), running.DSN(), running.ServiceLog(), running.OperatorKey())
	fmt.Printf("  Commands    (cd %s && %s --config %s actions list)\n", dir, program(dir, bin), stack.SettingsFile)
	fmt.Print("  Nodes       with LND's own lncli, if you have it; it is not built here\n")
	for _, name := range []string{devnet.Holdfast, devnet.Holdfast2, devnet.Payer, devnet.Receiver} {
		node := running.Network.Node(name)
		fmt.Printf("    %-9s lncli --network simnet --rpcserver %s --tlscertpath %s --macaroonpath %s\n",
			name, node.Address(), node.TLSCert(), node.Macaroon())
	}
	receiver := running.Network.Node(devnet.Receiver)
	fmt.Printf(`
  Receiver    %s (lightning address, over plain HTTP)
              https://%s (LND REST; certificate %s, macaroon %s)
`, running.Network.LightningAddress(), receiver.REST(), receiver.TLSCert(), receiver.InvoiceMacaroon())
	fmt.Printf(`
  API key     %[1]s

Pay for a post without the page: ask for it, and pay the bolt11 in the answer from the payer's node.

  curl -s %[2]s/graphql -H 'Authorization: Bearer %[1]s' -H 'Content-Type: application/json' \
    -d '{"query":"mutation { createPost(title: \"Hello, Lightning\") { id state invoice { bolt11 } } }"}'

  %[3]s pay%[4]s BOLT11

  curl -s %[2]s/graphql -H 'Content-Type: application/json' -d '{"query":"{ items { nodes { title state } } }"}'

Ctrl-C stops all of it.
`, key, running.URL(), selfPath(), dirFlag(dir))
}

// program is how the service's program is called from dir.
func program(dir, bin string) string {
	full := filepath.Join(bin, "holdfast")
	from, err := filepath.Abs(dir)
	to, err2 := filepath.Abs(full)
	if near, err3 := filepath.Rel(from, to); errors.Join(err, err2, err3) == nil && filepath.IsLocal(near) {
		return near
	}
	return full
}

func selfPath() string {
	if len(os.Args) > 0 {
		return os.Args[0]
	}
	return "holdfast-dev"
}

func dirFlag(dir string) string {
	if dir == ".holdfast" {
		return ""
	}
	return " --dir " + dir
}
