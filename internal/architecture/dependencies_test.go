package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDependenciesAreExplained compares docs/dependencies.md with the imports and with the versions in go.mod.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	versions := modules(t, "go.mod")
	used := map[string]string{}
	for _, f := range goFiles(t) {
		for _, imported := range f.imports(t) {
			// The module of a package is the longest one that its path begins with.
			longest := ""
			for m := range versions {
				if within(imported, m) && len(m) > len(longest) {
					longest = m
				}
			}
			if longest != "" {
				used[longest] = versions[longest]
			}
		}
	}
	tools := modules(t, "tools/go.mod")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+)$`).FindAllStringSubmatch(read(t, "tools/go.mod"), -1) {
		for name, version := range tools {
			if within(m[1], name) {
				used[name] = version
			}
		}
	}

	explained := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+|\S+\.\S+) \| (v\S+) \| \S`).FindAllStringSubmatch(read(t, "docs/dependencies.md"), -1) {
		explained[row[1]] = row[2]
	}
	for name, version := range used {
		if explained[name] != version {
			t.Errorf("docs/dependencies.md says %q of %s, which is used at %s", explained[name], name, version)
		}
		delete(explained, name)
	}
	for name := range explained {
		t.Errorf("docs/dependencies.md explains %s, which nothing imports", name)
	}
}

// modules are the required modules with their versions.
func modules(t *testing.T, file string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(read(t, file), -1) {
		all[m[1]] = m[2]
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
