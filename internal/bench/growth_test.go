package bench

import (
	"strings"
	"testing"
	"time"
)

// The generated history is one that the service could have made: reconcile finds nothing in it, nor in what follows.
func TestGrowthIsCounted(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Holdfast, o.Load, o.Takes = program(t), command(t, "load"), 500*time.Millisecond
	growth, err := Grow(t.Context(), o, []int64{300})
	if err != nil {
		t.Fatal(err)
	}
	g := growth.Sizes[0]
	if g.Actions != 300 || g.Zaps == 0 || g.Pages < 10 || g.WALBytes < 500 || g.ServiceMB < 5 || growth.Worst != 0 {
		t.Errorf("%+v", growth)
	}
	for _, table := range strings.Fields("paid_action action_history zap zap_total vote_event posting notification river_job") {
		if g.Bytes[table] <= 0 || g.Bytes[table+" indexes"] <= 0 {
			t.Errorf("%s: %f and %f bytes for each action", table, g.Bytes[table], g.Bytes[table+" indexes"])
		}
	}
}
