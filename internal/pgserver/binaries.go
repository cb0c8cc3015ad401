package pgserver

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// places are where systems keep PostgreSQL's programs. Most are not on PATH, and most have the version in the name.
var places = []string{
	"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                   // PostgreSQL's own packages for Fedora, RHEL
	"/usr/lib/postgresql[0-9]*/bin",      // openSUSE
	"/usr/libexec/postgresql[0-9]*",      // Alpine
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/local/pgsql/bin", // built from source
	"/usr/bin",             // Fedora, Arch, FreeBSD; also where PATH is bare
	"/usr/local/bin",
}

// findBinaries returns the directory that holds both initdb and postgres: from PATH, else from pg_config, else the
// newest version among the known places. The error is a [*NotFoundError].
func findBinaries() (string, error) {
	var candidates []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			candidates = append(candidates, filepath.Dir(path))
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	candidates = append(candidates, installed(places)...)
	for _, dir := range candidates {
		if isProgram(filepath.Join(dir, "initdb")) && isProgram(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", notFound(exec.LookPath)
}

// installed expands the patterns, each with the newest version first.
func installed(patterns []string) []string {
	var found []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue // fails only for a bad pattern, and the patterns are above
		}
		slices.SortFunc(matches, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
		found = append(found, matches...)
	}
	return found
}

var versionNumber = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// version is the last number in the path, or 0. It is compared as a number because as text 9.6 would be newer than 15.
func version(path string) float64 {
	numbers := versionNumber.FindAllString(path, -1)
	if len(numbers) == 0 {
		return 0
	}
	number, err := strconv.ParseFloat(numbers[len(numbers)-1], 64)
	if err != nil {
		return 0
	}
	return number
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
