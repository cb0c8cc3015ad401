package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// initialise makes the database cluster in dir/data if there is none, and returns the superuser's password. It makes
// the cluster elsewhere and then renames it, so a start that was killed half-way leaves nothing that looks complete.
func initialise(ctx context.Context, bin, dir string, user *child.User, volatile bool) (password string, err error) {
	data, passwordFile := filepath.Join(dir, "data"), filepath.Join(dir, "password")
	if _, err := os.Stat(data); err == nil {
		password, err := os.ReadFile(passwordFile)
		return strings.TrimSpace(string(password)), err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	password = rand.Text()
	if err := os.WriteFile(passwordFile, []byte(password+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := user.Own(passwordFile); err != nil {
		return "", err
	}
	unfinished := data + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	args := []string{
		"--pgdata", unfinished, "--username", superuser, "--pwfile", passwordFile,
		// Local connections are trusted: the socket is in a directory that only the server's user and root can enter,
		// and hashing a password costs more than the work of many connections.
		"--auth-host", "scram-sha-256", "--auth-local", "trust",
		// The same sort order and letters on every machine, whatever its locale.
		"--encoding", "UTF8", "--no-locale",
	}
	if volatile {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	cmd.Dir, cmd.Env = dir, environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches it only through ctx
	if user != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user.UID, Gid: user.GID}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return password, os.Rename(unfinished, data)
}

// environment is ours without the variables that would mislead PostgreSQL's programs.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") && !strings.HasPrefix(variable, "LC_") {
			env = append(env, variable)
		}
	}
	return env
}
