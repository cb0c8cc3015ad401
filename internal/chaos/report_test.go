package chaos

import "testing"

// A run passes only if nothing differs, nothing is stuck, and nothing served again too late. What LND alone has
// forgotten is told, and is not the service's.
func TestWhichRunsPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		found  Summary
		passed bool
	}{
		{Summary{Kills: 20, Actions: 500, Failed: 30, Repeated: 40}, true},
		{Summary{Forgotten: 1}, true},
		{Summary{Differences: 1}, false},
		{Summary{Stuck: 1}, false},
		{Summary{Late: 1}, false},
	} {
		if c.found.Passed() != c.passed {
			t.Errorf("%+v passed: %t", c.found, !c.passed)
		}
	}
}
