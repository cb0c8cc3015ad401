package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// User is an account of the system.
type User struct {
	Name     string
	UID, GID uint32
}

// Unprivileged is the user for programs that refuse to run as root: the first of the names that exists. If this process
// is not root, it is nil, and the program runs as the same user.
func Unprivileged(names ...string) (*User, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		found, err := user.Lookup(name)
		var unknown user.UnknownUserError
		if errors.As(err, &unknown) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up user %s: %w", name, err)
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &User{Name: name, UID: uint32(uid), GID: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("running as root, and none of the users %v exists to run as instead", names)
}

// Reaches reports whether the user can work in the directory. It asks the kernel by entering it as that user, because
// reading the permission bits would miss access lists and mount options.
func (u *User) Reaches(dir string) (bool, error) {
	if u == nil {
		return true, nil
	}
	cmd := exec.Command("true")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.UID, Gid: u.GID}}
	err := cmd.Run()
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	return err == nil, err
}

// Own gives a file or directory to the user. For a nil user it does nothing.
func (u *User) Own(path string) error {
	if u == nil {
		return nil
	}
	return os.Chown(path, int(u.UID), int(u.GID))
}
