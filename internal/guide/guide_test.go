// Package guide checks that docs/add-an-action.md works.
package guide

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "docs/add-an-action.md"

// block is one fenced block of the page: code that goes somewhere, or commands.
type block struct{ language, where, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w+)([^\\n]*)\\n(.*?)^```$")

func blocks(t *testing.T, markdown string) (all []block) {
	t.Helper()
	for _, m := range fence.FindAllStringSubmatch(markdown, -1) {
		all = append(all, block{m[1], strings.TrimSpace(m[2]), m[3]})
	}
	if len(all) == 0 {
		t.Fatalf("%s has no blocks", page)
	}
	return all
}

// option is one of a block's options for where it goes: file=…, after="…".
func (b block) option(name string) string {
	m := regexp.MustCompile(name + `=(?:"([^"]*)"|(\S+))`).FindStringSubmatch(b.where)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// put applies a block of code: it makes a new file, or inserts lines after the one that contains a text, or at the end.
func (b block) put(t *testing.T, root string) {
	t.Helper()
	name, after := filepath.Join(root, b.option("file")), b.option("after")
	old, err := os.ReadFile(name)
	switch {
	case after == "" && b.option("at") == "":
		if err == nil {
			t.Fatalf("%s exists", name)
		}
		old = []byte(b.text)
	case err != nil:
		t.Fatal(err)
	case after == "":
		old = append(old, "\n"+b.text...)
	default:
		head, rest, found := strings.Cut(string(old), after)
		line, tail, _ := strings.Cut(rest, "\n")
		if !found || strings.Contains(tail, after) {
			t.Fatalf("%s is not once in %s", after, name)
		}
		old = []byte(head + after + line + "\n" + b.text + tail)
	}
	if err := os.WriteFile(name, old, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A reader who follows the page to the letter, on a copy of the repository, has an action that is paid in every way.
// Everything that the page tells them to run passes.
func TestTheGuideAddsAnAction(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	markdown, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	run := func(dir, command string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", command)
		cmd.Dir = dir
		// As in the Makefile: without the race detector nothing is compiled anew that a build has compiled.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		if strings.Contains(string(out), "no tests to run") {
			t.Fatalf("%s runs no test\n%s", command, out)
		}
	}
	run(root, "git ls-files -z --cached --others --exclude-standard | tar -cf - --null --ignore-failed-read -T - | tar -xf - -C "+fresh)
	commands := 0
	for _, b := range blocks(t, string(markdown)) {
		if b.option("file") != "" {
			b.put(t, fresh)
			continue
		}
		for line := range strings.Lines(b.text) {
			run(fresh, line)
			commands++
		}
	}
	run(fresh, `test -z "$(gofmt -l */)"`) // as make lint has it
	if commands != 6 {
		t.Errorf("%d commands", commands)
	}
}
