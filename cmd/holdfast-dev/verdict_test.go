package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/chaos"
	"github.com/a-seed-a7aed72f/holdfast/internal/demo"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate"
)

// Scripts go by the exit code: it is 0 only if the last line says that nothing went wrong. The line is printed either
// way.
func TestTheExitCodeIsTheVerdictOfTheLastLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found verdict
		code  int
	}{
		"a demo that passed":           {&demo.Summary{OK: true}, 0},
		"a demo that did not":          {&demo.Summary{}, 1},
		"chaos that found nothing":     {&chaos.Summary{}, 0},
		"chaos that left one stuck":    {&chaos.Summary{Stuck: 1}, 1},
		"seeds that found nothing":     {&simulate.Summary{}, 0},
		"seeds with a violation":       {&simulate.Summary{Violations: 1}, 1},
		"seeds that never took a step": {&simulate.Summary{NeverTaken: []string{"a step"}}, 1},
	} {
		var out strings.Builder
		if code := ended(conclude(&out, c.found)); code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, code, c.code)
		}
		if line := out.String(); !strings.HasPrefix(line, "{") || strings.Index(line, "\n") != len(line)-1 {
			t.Errorf("%s: the last line is %q", name, line)
		}
	}
}

// What could not even be tried has not passed, and a command's own code is passed on.
func TestTheExitCodeOfAnError(t *testing.T) {
	t.Parallel()
	for code, err := range map[int]error{0: nil, 1: errors.New("no stack"), 7: fmt.Errorf("a command: %w", exitCode(7))} {
		if got := ended(err); got != code {
			t.Errorf("%v: exit code %d, want %d", err, got, code)
		}
	}
}
