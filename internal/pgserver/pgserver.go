// Package pgserver runs a PostgreSQL server for development and tests, from the programs installed on the machine.
//
// The server listens only on a free port of 127.0.0.1, and asks for a random password (SCRAM). Trusting every loopback
// connection would be simpler. But a superuser of PostgreSQL can run programs, so on a machine with several users this
// would give all of them the account of the one who starts the server.
package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
	"github.com/a-seed-a7aed72f/holdfast/internal/freeport"
)

const superuser = "holdfast"

// Options says which server to start. Only Dir is required.
type Options struct {
	// Dir is where the data, the log and the password live. It is made if missing; what an earlier start left there is
	// used again. If the server's user cannot reach it, the data go elsewhere, Dir becomes a symbolic link, and Log is
	// told.
	Dir string

	// Follows makes the data a copy of this running server's, which follows it until it is promoted. It keeps up by
	// itself, but nobody waits for it.
	Follows *Server

	// Volatile gives up durability for speed: a crash of the machine may ruin the data. The end of the server alone,
	// however violent, does not.
	Volatile bool

	// Socket makes DSN lead to a Unix socket in Dir, whose path must be short. A statement then costs a fifth less than
	// over TCP.
	Socket bool

	SharedBuffers  string            // as PostgreSQL writes it; default 128MB
	MaxConnections int               // default 100
	Settings       map[string]string // any other setting; these win

	// Log receives what a person should know, one line each. nil discards it.
	Log func(format string, args ...any)
}

// Server is a running server. Its methods are not for concurrent use, except DSN and Died.
type Server struct {
	options  Options
	bin, dir string
	user     *child.User
	claim    *child.Claim
	password string
	port     int
	postgres *child.Server
}

// Start starts a server, and returns once it accepts connections. It fails with [*NotFoundError] if PostgreSQL is not
// installed, and with [child.ErrClaimed] if another server uses the directory.
func Start(ctx context.Context, options Options) (*Server, error) {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	// PostgreSQL refuses to run as root, because whoever broke into it would be root.
	user, err := child.Unprivileged("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	dir, moved, err := place(options.Dir, user)
	if err != nil {
		return nil, fmt.Errorf("prepare PostgreSQL's directory: %w", err)
	}
	if moved {
		options.Log("PostgreSQL's own user cannot reach %s: the data are in %s", options.Dir, dir)
	}

	// A server whose parent was killed takes a moment to shut down.
	patience, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	claim, err := child.ClaimDir(patience, dir)
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, bin: bin, dir: dir, user: user, claim: claim}
	s.password, err = initialise(ctx, bin, dir, user, options)
	if err == nil {
		err = s.startOnFreePort(ctx)
	}
	if err != nil {
		claim.Release()
		return nil, err
	}
	return s, nil
}

// startOnFreePort tries again if the server ends at once, most likely because its port was taken in between.
func (s *Server) startOnFreePort(ctx context.Context) error {
	var failed error
	for range 3 {
		ports, err := freeport.Pick(1)
		if err != nil {
			return err
		}
		s.port = ports[0]
		s.postgres = child.NewServer(s.command())
		failed = s.Resume(ctx)
		if exit := (*child.ExitError)(nil); !errors.As(failed, &exit) {
			return failed
		}
	}
	return failed
}

// Resume starts the server again after Kill, or after it died, on the same port, and returns once it accepts
// connections.
func (s *Server) Resume(ctx context.Context) error {
	if err := s.postgres.Start(); err != nil {
		return err
	}
	if err := s.postgres.AwaitReady(ctx, startPatience, s.answers); err != nil {
		s.postgres.Stop(stopGrace)
		return err
	}
	return nil
}

func (s *Server) command() child.Command {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(s.port),
		"unix_socket_directories": "", // one way in is enough, and a socket's path may be too long
		"max_connections":         strconv.Itoa(cmp.Or(s.options.MaxConnections, 100)),
		"shared_buffers":          cmp.Or(s.options.SharedBuffers, "128MB"),
		// Deadlocks are errors and always logged. This also logs every wait that lasts long enough to be checked for
		// one.
		"log_lock_waits": "on",
	}
	if s.options.Volatile {
		settings["fsync"] = "off"
		settings["synchronous_commit"] = "off"
		settings["full_page_writes"] = "off"
	}
	if s.options.Socket {
		settings["unix_socket_directories"] = s.dir
	}
	maps.Copy(settings, s.options.Settings)
	args := []string{"-D", filepath.Join(s.dir, "data")}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return child.Command{
		Name: "PostgreSQL", Path: filepath.Join(s.bin, "postgres"), Args: args,
		Env: environment(), Dir: s.dir, Log: s.LogFile(),
		User: s.user, Holds: s.claim,
		// PostgreSQL's meanings: SIGTERM waits for clients to leave, SIGINT disconnects them, SIGQUIT ends at once.
		// SIGKILL would leave its shared memory and its children behind.
		Interrupt: syscall.SIGINT, Orphaned: syscall.SIGQUIT,
	}
}

const (
	startPatience = time.Minute // recovery after a crash replays the log
	stopGrace     = 30 * time.Second
)

// answers is nil if the server accepts connections, which only a connection proves.
func (s *Server) answers(ctx context.Context) error {
	connection, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	return connection.Close(ctx)
}

// DSN is the URL of a database of this server, as its superuser. It stays the same across restarts.
func (s *Server) DSN(database string) string {
	dsn := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     "127.0.0.1:" + strconv.Itoa(s.port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	if s.options.Socket {
		dsn.Host = ""
		dsn.RawQuery += "&port=" + strconv.Itoa(s.port) + "&host=" + url.QueryEscape(s.dir)
	}
	return dsn.String()
}

// LogFile is the server's log, which includes deadlocks.
func (s *Server) LogFile() string { return filepath.Join(s.dir, "postgres.log") }

// PID is the process id of the postmaster, the parent of all the server's other processes.
func (s *Server) PID() int { return s.postgres.PID() }

// Program is the path of one of PostgreSQL's own programs, such as psql, in this server's version.
func (s *Server) Program(name string) string { return filepath.Join(s.bin, name) }

// Died receives the reason if the server ends without being asked to by this package.
func (s *Server) Died() <-chan error { return s.postgres.Died() }

// EnsureDatabase creates the database if it is missing.
func (s *Server) EnsureDatabase(ctx context.Context, name string) error {
	connection, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer connection.Close(context.WithoutCancel(ctx))
	var exists bool
	err = connection.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = connection.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return err
}

// Restart disconnects every client, stops the server cleanly, and starts it again.
func (s *Server) Restart(ctx context.Context) error {
	s.postgres.Stop(stopGrace)
	return s.Resume(ctx)
}

// Kill ends the server as the death of one of its processes would, with transactions in flight. Resume recovers from
// it.
func (s *Server) Kill() { s.postgres.Signal(syscall.SIGQUIT, stopGrace) }

// Crash ends the server and all its processes with SIGKILL, whatever they are doing, as a power failure would. Resume
// recovers from it.
func (s *Server) Crash() { s.postgres.KillTree() }

// Running reports whether the server was started and has not ended since.
func (s *Server) Running() bool { return s.postgres.Running() }

// Stop disconnects every client, stops the server cleanly, and frees the directory. Nothing runs any more when it
// returns.
func (s *Server) Stop() {
	s.postgres.Stop(stopGrace)
	s.claim.Release()
}

// Remove stops the server without further writing, and deletes its data, wherever they are.
func (s *Server) Remove() error {
	s.Kill()
	s.claim.Release()
	return errors.Join(os.RemoveAll(s.dir), os.RemoveAll(s.options.Dir))
}
