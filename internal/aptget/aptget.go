// Package aptget finds the programs that tests and measurements run, and installs their packages where nobody else is
// affected.
package aptget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Program is a program and the Debian package that it comes with, or several packages separated by spaces.
type Program struct{ Name, Package string }

// NotFoundError means that a program was not found.
type NotFoundError struct {
	Program string
	// Command installs it on Debian.
	Command string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the program %s is not installed: on Debian %s, elsewhere with the system's package manager", e.Program, e.Command)
}

func (p Program) command() string { return "apt-get install -y --no-install-recommends " + p.Package }

// Path is where the program is; otherwise the error is a [*NotFoundError]. Debian keeps servers outside the PATH of
// users.
func (p Program) Path() (string, error) {
	for _, name := range []string{p.Name, "/usr/sbin/" + p.Name, "/usr/local/sbin/" + p.Name} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", &NotFoundError{Program: p.Name, Command: p.command()}
}

// Ensure makes sure that the programs are on this machine. On Debian as root (a container, a CI machine) it installs
// what is missing, and tells out. Everywhere else it returns the [*NotFoundError]: a development command that asks for
// root's password deserves no trust.
func Ensure(ctx context.Context, out io.Writer, programs ...Program) error {
	updated := false
	for _, p := range programs {
		_, err := p.Path()
		var missing *NotFoundError
		if !errors.As(err, &missing) {
			continue
		}
		if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
			return missing
		}
		commands := []string{"apt-get update", missing.Command}
		if updated {
			commands = commands[1:]
		}
		for _, command := range commands {
			fmt.Fprintf(out, "%s is missing; running as root: %s\n", p.Name, command)
			if err := run(ctx, out, command); err != nil {
				return err
			}
		}
		updated = true
		if _, err := p.Path(); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, out io.Writer, command string) error {
	words := strings.Fields(command)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	// Debian starts a server when it is installed, except in this runlevel.
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}
