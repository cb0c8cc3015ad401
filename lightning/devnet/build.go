package devnet

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Tags are the parts of LND that are compiled in. lowscrypt only makes wallet passwords cheap to check. Without it a
// new wallet costs each node about eight seconds of work, and a restart two; and the password of these wallets is no
// secret.
const Tags = "autopilotrpc chainrpc invoicesrpc neutrinorpc peersrpc routerrpc signrpc walletrpc watchtowerrpc kvdb_postgres kvdb_sqlite lowscrypt"

// Programs is a directory with btcd and lnd, and with further programs of this module: the one that HOLDFAST_BIN names,
// in which make has built them all, else .holdfast/bin of this module, into which they are built if need be. The first
// build takes minutes; one with nothing to do about two seconds. Programs must be called from within the module, as
// tests are. The compiler's output goes to out.
func Programs(ctx context.Context, out io.Writer, further ...string) (string, error) {
	if bin := os.Getenv("HOLDFAST_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	bin := filepath.Join(filepath.Dir(string(mod)), ".holdfast", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-tags", Tags, "-o", bin + string(filepath.Separator),
		"github.com/lightningnetwork/lnd/cmd/lnd", "github.com/btcsuite/btcd"}, further...)...)
	// Without cgo no C compiler is needed on a fresh machine.
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = out, out
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build the programs: %w", err)
	}
	return bin, nil
}
