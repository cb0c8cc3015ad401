package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// NotFoundError means that PostgreSQL was not found on this machine.
type NotFoundError struct {
	// Command installs PostgreSQL on this system; empty if its package manager is not known.
	Command string
}

func (e *NotFoundError) Error() string {
	if e.Command == "" {
		return "no PostgreSQL found (programs initdb and postgres): install it with your system's package manager or put its bin directory on PATH"
	}
	return "no PostgreSQL found (programs initdb and postgres): install it with: " + e.Command
}

const aptCommand = "apt-get install -y postgresql"

func notFound(lookPath func(string) (string, error)) *NotFoundError {
	for _, manager := range []struct{ program, command string }{
		{"apt-get", aptCommand},
		{"dnf", "dnf install -y postgresql-server"},
		{"pacman", "pacman -S --noconfirm postgresql"},
		{"apk", "apk add postgresql"},
		{"zypper", "zypper install -y postgresql-server"},
		{"brew", "brew install postgresql@17"},
		{"pkg", "pkg install -y postgresql17-server"},
	} {
		if _, err := lookPath(manager.program); err == nil {
			return &NotFoundError{Command: manager.command}
		}
	}
	return &NotFoundError{}
}

// EnsureInstalled makes sure that PostgreSQL is on this machine. On Debian as root (a container, a CI machine) it
// installs the package if need be, and says so on out. Everywhere else it returns the [*NotFoundError]: a development
// command that asks for root's password deserves no trust.
func EnsureInstalled(ctx context.Context, out io.Writer) error {
	_, err := findBinaries()
	var missing *NotFoundError
	if !errors.As(err, &missing) {
		return err
	}
	if os.Geteuid() != 0 || missing.Command != aptCommand {
		return missing
	}
	for _, command := range []string{"apt-get update", aptCommand} {
		fmt.Fprintf(out, "PostgreSQL is missing; running as root: %s\n", command)
		words := strings.Fields(command)
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	_, err = findBinaries()
	return err
}
