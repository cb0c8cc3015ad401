package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Claim is the exclusive right to use a directory. It is an advisory lock on a file inside, which children inherit
// ([Command].Holds). The kernel frees it when this process and all of those children are gone, however they ended. So a
// start after a crash meets neither a server that is still shutting down nor a stale lock file.
type Claim struct{ file *os.File }

// ErrClaimed means that another process, or a child that outlived it, uses the directory.
var ErrClaimed = errors.New("in use by another process")

const claimFile = "claim.lock"

// ClaimDir claims an existing directory. While it is in use, ClaimDir tries again until the context ends, and then
// returns an error that wraps [ErrClaimed].
func ClaimDir(ctx context.Context, dir string) (*Claim, error) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		claim, err := tryClaim(dir)
		if !errors.Is(err, ErrClaimed) {
			return claim, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-again.C:
		}
	}
}

func tryClaim(dir string) (*Claim, error) {
	file, err := os.OpenFile(filepath.Join(dir, claimFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &Claim{file}, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("directory %s: %w", dir, ErrClaimed)
	}
	return nil, fmt.Errorf("claim %s: %w", dir, err)
}

// Release gives up the claim. A child that holds it keeps it until it ends. Releasing twice is harmless.
func (c *Claim) Release() {
	if c != nil {
		_ = c.file.Close()
	}
}
