package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Scratch is a temporary directory that belongs to this process.
type Scratch struct {
	Dir   string
	claim *Claim
}

// NewScratch makes a temporary directory whose name starts with prefix. It first removes those with the same prefix
// whose owner is gone: a process that was killed cannot do so itself, and a database leaves tens of megabytes.
//
// Others may enter the directory, because servers in it may run as another user, but not list it.
func NewScratch(prefix string) (*Scratch, error) { return NewScratchIn(os.TempDir(), prefix) }

// NewScratchIn is NewScratch for a directory in parent.
func NewScratchIn(parent, prefix string) (*Scratch, error) {
	sweep(parent, prefix)
	for {
		dir, err := os.MkdirTemp(parent, prefix+"-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w", err)
		}
		claim, err := tryClaim(dir)
		// Between the two calls another process may have removed the directory as abandoned.
		if errors.Is(err, ErrClaimed) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(dir, 0o711); err != nil {
			claim.Release()
			if errors.Is(err, fs.ErrNotExist) { // removed before it was claimed, whose file was open by then
				continue
			}
			return nil, fmt.Errorf("open the temporary directory to servers of other users: %w", err)
		}
		return &Scratch{Dir: dir, claim: claim}, nil
	}
}

func sweep(parent, prefix string) {
	abandoned, err := filepath.Glob(filepath.Join(parent, prefix+"-*"))
	if err != nil {
		return
	}
	for _, dir := range abandoned {
		// Only directories made by this package have the file. Never take somebody else's directory for ours.
		if _, err := os.Stat(filepath.Join(dir, claimFile)); err != nil {
			continue
		}
		if claim, err := tryClaim(dir); err == nil {
			_ = os.RemoveAll(dir)
			claim.Release()
		}
	}
}

// Remove deletes the directory with everything in it.
func (s *Scratch) Remove() error {
	err := os.RemoveAll(s.Dir)
	s.claim.Release()
	return err
}
