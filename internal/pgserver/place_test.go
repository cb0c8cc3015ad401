package pgserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// "make clean" removes the data also where they lie behind a link, and nothing else that a link may lead to.
func TestMakeCleanRemovesDataThatLieElsewhere(t *testing.T) {
	makefile, err := filepath.Abs("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	data, err := elsewhere()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	for target, kept := range map[string]bool{data: false, t.TempDir(): true} {
		clone := t.TempDir()
		if err := os.Mkdir(filepath.Join(clone, ".holdfast"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(clone, ".holdfast", "postgres")); err != nil {
			t.Fatal(err)
		}
		clean := exec.CommandContext(t.Context(), "make", "-f", makefile, "clean")
		clean.Dir = clone
		if said, err := clean.CombinedOutput(); err != nil {
			t.Fatalf("make clean: %v\n%s", err, said)
		}
		if _, err := os.Stat(target); (err == nil) != kept {
			t.Errorf("what the link leads to, %s, is still there: %t", target, err == nil)
		}
		if _, err := os.Lstat(filepath.Join(clone, ".holdfast")); !os.IsNotExist(err) {
			t.Errorf(".holdfast is still there: %v", err)
		}
	}
}
