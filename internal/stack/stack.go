// Package stack runs all of Holdfast on one machine: PostgreSQL, a real Lightning network and the service itself. Each
// is a separate process that can be stopped, killed and started again while the others go on.
package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/lightning/devnet"
)

// Options says which stack to start. Dir and Bin are required.
type Options struct {
	Dir  string // holds all data; what an earlier stack left there is used again
	Bin  string // holds the programs holdfast, btcd and lnd
	Port int    // the service's port on 127.0.0.1; 0 picks a free one

	// BlockEvery mines a block at this interval; 0 leaves mining to Network.Mine.
	BlockEvery time.Duration

	// WithoutService leaves it to the caller to start the service: see Process.
	WithoutService bool

	// Environment is added to the service's, each NAME=value; it wins over what the stack sets.
	Environment []string

	// Log receives what a person should know, one line each. nil discards it.
	Log func(format string, args ...any)
}

// Stack is a running stack. Its methods are not for concurrent use, except the getters.
type Stack struct {
	Postgres *pgserver.Server
	Network  *devnet.Network

	options Options
	secret  string
	key     string // the operator's key
	service *child.Server
	wallet  *demoWallet
}

// database is the name of the service's database.
const database = "holdfast"

// Start starts everything, and returns once the service is ready for requests. After an error nothing is left running.
func Start(ctx context.Context, options Options) (_ *Stack, err error) {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	if options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, err
	}
	if options.Bin, err = filepath.Abs(options.Bin); err != nil {
		return nil, err
	}
	for _, program := range []string{"holdfast", "btcd", "lnd"} {
		if _, err := os.Stat(filepath.Join(options.Bin, program)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotBuilt, err)
		}
	}
	if options.Port == 0 {
		ports, err := freeport.Pick(1)
		if err != nil {
			return nil, err
		}
		options.Port = ports[0]
	}
	// PostgreSQL's user may have to pass through. Secret files in it have their own permissions.
	if err := os.MkdirAll(options.Dir, 0o711); err != nil {
		return nil, err
	}

	s := &Stack{options: options}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if s.key, err = keptSecret(filepath.Join(options.Dir, "operator-key")); err != nil {
		return nil, err
	}
	if s.secret, err = keptSecret(filepath.Join(options.Dir, "secret")); err != nil {
		return nil, err
	}
	starting, startingCtx := errgroup.WithContext(ctx)
	starting.Go(func() (err error) { s.Postgres, err = s.startPostgres(startingCtx); return err })
	starting.Go(func() (err error) {
		s.Network, err = devnet.Start(startingCtx, devnet.Options{
			Dir: filepath.Join(options.Dir, "network"), Bin: options.Bin, BlockEvery: options.BlockEvery, Log: options.Log,
		})
		return err
	})
	if err := starting.Wait(); err != nil {
		return nil, err
	}
	if s.wallet, err = startDemoWallet(s.Network.Node(devnet.Payer)); err != nil {
		return nil, err
	}
	if err := s.writeSettings(); err != nil {
		return nil, err
	}
	s.service = child.NewServer(s.command("serve"))
	if err := s.migrate(ctx); err != nil {
		return nil, err
	}
	if options.WithoutService {
		return s, nil
	}
	if err := s.ServiceStart(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Stack) startPostgres(ctx context.Context) (*pgserver.Server, error) {
	s.options.Log("PostgreSQL: starting")
	postgres, err := pgserver.Start(ctx, pgserver.Options{Dir: filepath.Join(s.options.Dir, "postgres"), Log: s.options.Log})
	if err != nil {
		return nil, err
	}
	if err := postgres.EnsureDatabase(ctx, database); err != nil {
		postgres.Stop()
		return nil, fmt.Errorf("create the database: %w", err)
	}
	return postgres, nil
}

// URL is where the service answers; it stays the same across restarts.
func (s *Stack) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.options.Port) }

// OperatorKey is the password of the operator's pages.
func (s *Stack) OperatorKey() string { return s.key }

// DSN is the service's database.
func (s *Stack) DSN() string { return s.Postgres.DSN(database) }

// Environment is the environment that the service runs in. It is valid only for programs that run in the stack's
// directory: its paths are relative, because the list of nodes cannot contain a path with a space or a comma.
func (s *Stack) Environment() []string {
	return slices.Concat(os.Environ(), s.settings(), s.options.Environment)
}

// SettingsFile is the name of a file in the stack's directory with the service's settings, for those who call its
// commands there.
const SettingsFile = "settings.json"

// writeSettings writes SettingsFile. The secret is in it, so it is the owner's alone.
func (s *Stack) writeSettings() error {
	settings := map[string]string{}
	for _, setting := range slices.Concat(s.settings(), s.options.Environment) {
		if setting, ours := strings.CutPrefix(setting, "HOLDFAST_"); ours {
			name, value, _ := strings.Cut(setting, "=")
			settings[strings.ReplaceAll(strings.ToLower(name), "_", "-")] = value
		}
	}
	text, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.options.Dir, SettingsFile), append(text, '\n'), 0o600)
}

// settings are what the service is given here, as variables.
func (s *Stack) settings() []string {
	var nodes []string
	for _, node := range s.Network.Ours() {
		nodes = append(nodes, fmt.Sprintf("%s=%s;tls=%s;macaroon=%s",
			node.Name(), node.Address(), s.relative(node.TLSCert()), s.relative(node.Macaroon())))
	}
	return []string{
		"HOLDFAST_DATABASE_URL=" + s.DSN(),
		fmt.Sprintf("HOLDFAST_LISTEN=127.0.0.1:%d", s.options.Port),
		"HOLDFAST_NODES=" + strings.Join(nodes, ","),
		"HOLDFAST_NETWORK=simnet",
		"HOLDFAST_SECRET=" + s.secret,
		"HOLDFAST_OPERATOR_KEY=" + s.key,
		"HOLDFAST_DEVELOPMENT=1",
		"HOLDFAST_DEMO_WALLET=" + s.wallet.url,
		"HOLDFAST_PUBLIC_URL=" + s.URL(),
		// Somebody who measures its speed sends everything from one address, with one key.
		"HOLDFAST_RATE_KEY=0", "HOLDFAST_RATE_KEY_PAYING=0", "HOLDFAST_RATE_ADDRESS=0", "HOLDFAST_RATE_ADDRESS_PAYING=0",
	}
}

func (s *Stack) relative(path string) string {
	relative, err := filepath.Rel(s.options.Dir, path)
	if err != nil {
		return path
	}
	return relative
}

// Died waits until a part ends unasked, and returns the reason, or nil if the context ends first.
func (s *Stack) Died(ctx context.Context) error {
	select {
	case err := <-s.Postgres.Died():
		return err
	case err := <-s.Network.Died():
		return err
	case err := <-s.service.Died():
		return err
	case <-ctx.Done():
		return nil
	}
}

// Stop ends everything, each part before those that it depends on, so that it can finish. Nothing runs any more when it
// returns.
func (s *Stack) Stop() {
	if s.service != nil {
		s.ServiceStop()
	}
	if s.wallet != nil {
		s.wallet.stop()
	}
	if s.Network != nil {
		s.Network.Stop()
	}
	if s.Postgres != nil {
		s.Postgres.Stop()
	}
}

// ErrNotBuilt means that a program is missing.
var ErrNotBuilt = errors.New("not built yet (make build)")
