package pgserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/child"
)

// "make clean" removes the data also where they lie behind a link, and nothing else that a link may lead to. While they
// are in use it removes nothing.
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
		claim, err := child.ClaimDir(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		clean := func() (string, error) {
			clean := exec.CommandContext(t.Context(), "make", "-f", makefile, "clean")
			clean.Dir = clone
			said, err := clean.CombinedOutput()
			return string(said), err
		}
		if said, err := clean(); err == nil || !strings.Contains(said, "postgres: in use by another process: stop it first") {
			t.Errorf("make clean while they are in use: %v\n%s", err, said)
		}
		if _, err := os.Stat(filepath.Join(clone, ".holdfast", "postgres", "claim.lock")); err != nil {
			t.Errorf("what is in use was removed: %v", err)
		}
		claim.Release()
		if said, err := clean(); err != nil {
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
