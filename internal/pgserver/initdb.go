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

// initialise makes the database cluster in dir/data unless there is one, and returns the superuser's password. The cluster is
// made beside its place and renamed, so a start that was killed half-way leaves nothing that looks complete.
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
		// The socket lies in a directory that only the server's user and root can enter; hashing a password for every connection
		// costs more than what many of them are there for.
		"--auth-host", "scram-sha-256", "--auth-local", "trust",
		// The same order and the same letters on every machine, whatever it is set up for.
		"--encoding", "UTF8", "--no-locale",
	}
	if volatile {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	cmd.Dir, cmd.Env = dir, environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches it through ctx
	if user != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user.UID, Gid: user.GID}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return password, os.Rename(unfinished, data)
}

// environment is ours without what would steer PostgreSQL's programs elsewhere.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") && !strings.HasPrefix(variable, "LC_") {
			env = append(env, variable)
		}
	}
	return env
}
