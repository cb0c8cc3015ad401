package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// elsewhere makes a directory for data whose wanted directory the server's user cannot reach. It survives a reboot,
// unlike /tmp, and has a random name: where all may write, somebody else could take a predictable one first. "make
// clean" knows how the name begins.
func elsewhere() (string, error) { return os.MkdirTemp("/var/tmp", "holdfast-postgres-") }

// place makes the directory that the server works in, owned by the server's user, and returns where it is: at the
// wanted path, or behind a symbolic link there that leads to a place that the user can reach. By the link a later
// start, and "make clean", find the data.
func place(wanted string, user *child.User) (dir string, moved bool, err error) {
	wanted, err = filepath.Abs(wanted)
	if err != nil {
		return "", false, err
	}
	target, err := filepath.EvalSymlinks(wanted)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Remove(wanted) // a link whose target was removed
		// Others, including the server's user, may pass through.
		if err := os.MkdirAll(filepath.Dir(wanted), 0o711); err != nil {
			return "", false, err
		}
		if err := os.Mkdir(wanted, 0o700); err != nil {
			return "", false, err
		}
		target = wanted
	case err != nil:
		return "", false, err
	}
	if err := user.Own(target); err != nil {
		return "", false, err
	}
	reaches, err := user.Reaches(target)
	if err != nil {
		return "", false, fmt.Errorf("find out whether user %s reaches %s: %w", user.Name, target, err)
	}
	if reaches {
		return target, isLink(wanted), nil
	}

	target, err = elsewhere()
	if err != nil {
		return "", false, err
	}
	if err := user.Own(target); err != nil {
		return "", false, err
	}
	if err := os.Remove(wanted); err != nil { // always an empty directory: nothing could be written there
		return "", false, err
	}
	return target, true, os.Symlink(target, wanted)
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}
