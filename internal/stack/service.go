package stack

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/internal/apiclient"
	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

const (
	// readyPatience is how long the service may take to start, once database and node run.
	readyPatience = 60 * time.Second

	// serviceGrace is how long requests and jobs that are under way may take to end.
	serviceGrace = 20 * time.Second
)

func (s *Stack) command(args ...string) child.Command {
	return child.Command{
		Name: "holdfast " + args[0], Path: filepath.Join(s.options.Bin, "holdfast"), Args: args,
		Env: s.Environment(), Dir: s.options.Dir, Log: s.ServiceLog(),
	}
}

// ServiceLog is the service's log file.
func (s *Stack) ServiceLog() string { return filepath.Join(s.options.Dir, "service.log") }

// Process prepares one process of the service among several: with the service's environment and additions to it, each
// NAME=value, and its own log. The caller starts it, and ends it before Stop.
func (s *Stack) Process(name, log string, environment ...string) *child.Server {
	command := s.command("serve")
	command.Name, command.Log = name, filepath.Join(s.options.Dir, log)
	command.Env = append(command.Env, environment...)
	return child.NewServer(command)
}

// migrate brings the database to the service's version.
func (s *Stack) migrate(ctx context.Context) error {
	migration, err := child.Start(s.command("migrate", "up"))
	if err != nil {
		return err
	}
	select {
	case <-migration.Exited():
		return migration.Err()
	case <-ctx.Done():
		migration.Stop(serviceGrace)
		return context.Cause(ctx)
	}
}

// ServiceStart starts the service, also after ServiceStop or ServiceKill, and returns once it is ready for requests.
func (s *Stack) ServiceStart(ctx context.Context) error {
	s.options.Log("Holdfast: starting")
	if err := s.service.Start(); err != nil {
		return err
	}
	return s.service.AwaitReady(ctx, readyPatience, func(ctx context.Context) error {
		return apiclient.Reach(ctx, http.DefaultClient, s.URL()+"/readyz")
	})
}

// ServiceStop lets the service finish what is under way, and ends it.
func (s *Stack) ServiceStop() { s.service.Stop(serviceGrace) }

// ServiceKill ends the service with SIGKILL, as a power failure would.
func (s *Stack) ServiceKill() { s.service.Kill() }

// ServiceCommand prepares another command of the service's program, such as reconcile, in the service's environment.
func (s *Stack) ServiceCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.options.Bin, "holdfast"), args...)
	cmd.Env, cmd.Dir = s.Environment(), s.options.Dir
	cmd.Stderr = os.Stderr
	return cmd
}
