package chaos

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A payment that is in no channel for a moment is in flight: a run that took it for forgotten would judge while money
// still moves.
func TestOnlyWhatStaysInNoChannelIsForgotten(t *testing.T) {
	t.Parallel()
	o, begun := oblivion{}, time.Unix(1_700_000_000, 0)
	for _, look := range []struct {
		after         time.Duration
		nowhere, long string
	}{
		{0, "committed lost", ""},
		{time.Second, "lost", ""},
		{forgottenAfter - time.Second, "committed lost", ""}, // begins anew
		{forgottenAfter, "committed lost", "lost"},
		{2*forgottenAfter - 2*time.Second, "committed lost", "lost"},
		{2*forgottenAfter - time.Second, "committed", "committed"},
		{2 * forgottenAfter, "", ""},
	} {
		nowhere := map[string]bool{}
		for _, hash := range strings.Fields(look.nowhere) {
			nowhere[hash] = true
		}
		got := slices.Sorted(maps.Keys(o.lasting(begun.Add(look.after), nowhere)))
		if strings.Join(got, " ") != look.long {
			t.Errorf("after %v, with %q in no channel: %v are forgotten, not %q", look.after, look.nowhere, got, look.long)
		}
	}
}
