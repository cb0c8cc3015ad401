package devnet

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A connection keeps its macaroon. One that was read between LND's creating the file and writing it would never be
// accepted.
func TestDialRefusesAMacaroonThatIsStillEmpty(t *testing.T) {
	t.Parallel()
	macaroon := filepath.Join(t.TempDir(), "admin.macaroon")
	if err := os.WriteFile(macaroon, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dial("127.0.0.1:1", "", macaroon); !errors.Is(err, errNotWritten) {
		t.Errorf("got %v", err)
	}
}
