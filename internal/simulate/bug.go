package simulate

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A seeded bug is a patch of the source that breaks one rule of the service. It is part only of the copy that is built
// in order to be found out: go build -overlay replaces the real file by the patched one, and nothing in the tree is
// touched.

//go:embed bugs/*.patch
var patches embed.FS

// Bugs are the names of the seeded bugs.
func Bugs() []string {
	files, err := patches.ReadDir("bugs")
	if err != nil {
		panic(err)
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(f.Name(), ".patch")
	}
	slices.Sort(names)
	return names
}

// Build builds a program of the module in the directory top with a seeded bug in it.
func Build(ctx context.Context, top, name, program, to string) error {
	return build(ctx, top, name, func([]string) []string { return []string{"-o", to, program} })
}

// Compile compiles the packages that a seeded bug patches, of the module in the directory top.
func Compile(ctx context.Context, top, name string) error {
	return build(ctx, top, name, func(files []string) (packages []string) {
		for _, file := range files {
			packages = append(packages, "./"+path.Dir(file))
		}
		return packages
	})
}

// build runs go build with a seeded bug. of returns the arguments, given the patched files.
func build(ctx context.Context, top, name string, of func(files []string) []string) error {
	patch, err := patches.ReadFile("bugs/" + name + ".patch")
	if err != nil {
		return fmt.Errorf("there is no seeded bug %q; there are %s", name, strings.Join(Bugs(), ", "))
	}
	dir, err := os.MkdirTemp("", "holdfast-bug-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	replaced, err := apply(patch, func(file string) ([]byte, error) { return os.ReadFile(filepath.Join(top, file)) })
	if err != nil {
		return fmt.Errorf("bug %s: %w", name, err)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for file, text := range replaced {
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return err
		}
		overlay["Replace"][filepath.Join(top, file)] = copied
	}
	said, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), said, 0o600); err != nil {
		return err
	}
	args := append([]string{"build", "-overlay", filepath.Join(dir, "overlay.json")}, of(slices.Sorted(maps.Keys(replaced)))...)
	run := exec.CommandContext(ctx, "go", args...)
	run.Dir = top
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("build with bug %s: %w\n%s", name, err, out)
	}
	return nil
}

// apply returns the patched files of a unified diff. It ignores line numbers: what a hunk removes, with its context,
// must occur in the file exactly once.
func apply(patch []byte, read func(file string) ([]byte, error)) (map[string][]byte, error) {
	replaced := map[string][]byte{}
	var file string
	var before, after bytes.Buffer
	flush := func() error {
		defer before.Reset()
		defer after.Reset()
		if before.Len() == 0 {
			return nil
		}
		text, ok := replaced[file]
		if !ok {
			var err error
			if text, err = read(file); err != nil {
				return err
			}
		}
		if n := bytes.Count(text, before.Bytes()); n != 1 {
			return fmt.Errorf("%s has %d places like this:\n%s", file, n, &before)
		}
		replaced[file] = bytes.Replace(text, before.Bytes(), after.Bytes(), 1)
		return nil
	}
	for line := range strings.Lines(string(patch)) {
		switch {
		case strings.HasPrefix(line, "+++ b/"), strings.HasPrefix(line, "@@"):
			if err := flush(); err != nil {
				return nil, err
			}
			if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
				file = strings.TrimSpace(name)
			}
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "#"), file == "":
		case strings.HasPrefix(line, "-"):
			before.WriteString(line[1:])
		case strings.HasPrefix(line, "+"):
			after.WriteString(line[1:])
		default:
			before.WriteString(strings.TrimPrefix(line, " "))
			after.WriteString(strings.TrimPrefix(line, " "))
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	if len(replaced) == 0 {
		return nil, fmt.Errorf("the patch changes nothing")
	}
	return replaced, nil
}
