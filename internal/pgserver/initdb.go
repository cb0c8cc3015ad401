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
func initialise(ctx context.Context, bin, dir string, user *child.User, options Options) (password string, err error) {
	data, passwordFile := filepath.Join(dir, "data"), filepath.Join(dir, "password")
	if _, err := os.Stat(data); err == nil {
		password, err := os.ReadFile(passwordFile)
		return strings.TrimSpace(string(password)), err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	password = rand.Text()
	if options.Follows != nil {
		password = options.Follows.password
	}
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
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), fresh(unfinished, passwordFile, options.Volatile)...)
	if options.Follows != nil {
		cmd = exec.CommandContext(ctx, filepath.Join(bin, "pg_basebackup"), "--pgdata", unfinished, "--dbname", options.Follows.DSN("postgres"),
			"--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync")
	}
	cmd.Dir, cmd.Env = dir, environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches it only through ctx
	if user != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user.UID, Gid: user.GID}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return password, os.Rename(unfinished, data)
}

// fresh are the arguments of initdb for an empty cluster.
func fresh(data, passwordFile string, volatile bool) []string {
	args := []string{
		"--pgdata", data, "--username", superuser, "--pwfile", passwordFile,
		// Local connections are trusted: the socket is in a directory that only the server's user and root can enter,
		// and hashing a password costs more than the work of many connections.
		"--auth-host", "scram-sha-256", "--auth-local", "trust",
		// The same sort order and letters on every machine, whatever its locale.
		"--encoding", "UTF8", "--no-locale",
	}
	if volatile {
		args = append(args, "--no-sync")
	}
	return args
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
