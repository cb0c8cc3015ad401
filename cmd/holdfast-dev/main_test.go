package main

import (
	"io"
	"testing"

	"github.com/alecthomas/kong"
)

// Wrong arguments end this program as they end holdfast: scripts tell them from a command that failed.
func TestWrongArgumentsEndAsThoseOfHoldfast(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"nonsense"}, {"bench", "--nonsense"}, {"with-postgres"}, {}} {
		code := -1
		parse(&commands{}, args, kong.Writers(io.Discard, io.Discard), kong.Exit(func(c int) { code = c }))
		if code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
