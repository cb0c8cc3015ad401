package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/a-seed-a7aed72f/holdfast/internal/demo"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate"
)

// Wrong arguments end this program as they end holdfast: scripts tell them from a command that failed, and people read what is wrong, not the whole help.
func TestWrongArgumentsEndAsThoseOfHoldfast(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"nonsense"}, {"bench", "--nonsense"}, {"with-postgres"}, {},
		{"demo", "--only=nonsense"}, {"chaos", "--duration=0s"}, {"simulate", "--seeds=0"}, {"simulate", "--break=nonsense"}, {"bench", "--only=nonsense"}, {"bench", "--rounds=0"}, {"bench", "--seconds=0"}} {
		code := -1
		var out, said bytes.Buffer
		parse(&commands{}, args, kong.Writers(&out, &said), kong.Exit(func(c int) { code = c }))
		if code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
		if out.Len() != 0 || !strings.HasPrefix(said.String(), "holdfast-dev: ") || !strings.HasSuffix(said.String(), "\nTry holdfast-dev --help.\n") {
			t.Errorf("%v: it prints\n%s%s", args, &out, &said)
		}
	}
}

// What would run nothing finds nothing, and would pass: it is refused, and what there is to run is named.
func TestWhatThereIsToRunIsNamed(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		args []string
		all  []string
	}{
		"flows":       {[]string{"demo", "--only=nonsense"}, demo.Names("")},
		"seeded bugs": {[]string{"simulate", "--break=nonsense"}, simulate.Bugs()},
	} {
		var said bytes.Buffer
		parse(&commands{}, c.args, kong.Writers(io.Discard, &said), kong.Exit(func(int) {}))
		for _, name := range c.all {
			if !strings.Contains(said.String(), name) {
				t.Errorf("of the %s, %q is not named:\n%s", what, name, &said)
			}
		}
	}
	for _, args := range [][]string{{"demo"}, {"demo", "--only=SIGKILL"}, {"demo", "--only=expired"}, {"simulate", "--break=all"}, {"simulate", "--break=" + simulate.Bugs()[0]}} {
		parse(&commands{}, args, kong.Writers(io.Discard, io.Discard), kong.Exit(func(code int) { t.Errorf("%v ends with %d", args, code) }))
	}
}
