package demo

import (
	"errors"
	"io"
	"testing"
	"time"
)

// part is one part of a demo, as the demo tells it.
type part func(d *Demo, s *Summary) error

func flowEnded(got string) part {
	return func(d *Demo, s *Summary) error {
		d.tell(s, Flow{Name: "a zap", Expected: "PAID", Got: got})
		return nil
	}
}

func took(times ...time.Duration) part {
	return func(d *Demo, s *Summary) error {
		d.tellLatency(s, times)
		return nil
	}
}

func reconciled(report string, err error) part {
	return func(d *Demo, s *Summary) error { return d.tellReconciled(s, []byte(report), err) }
}

// A demo passes only if every flow ended as it should, the median from event to PAID is below 25 ms, and reconcile has
// looked at everything and found nothing. What went wrong once is not made good by what comes after it.
func TestWhichDemosPass(t *testing.T) {
	t.Parallel()
	const ms, sound = time.Millisecond, `{"ok":true,"invariants":[{"id":1,"checked":7,"broken":0}]}`
	exit := errors.New("exit status 1")
	for name, c := range map[string]struct {
		parts       []part
		differences int64
		passed      bool
	}{
		"all is well":                   {[]part{flowEnded("PAID"), took(9*ms, 24*ms, 90*ms), reconciled(sound, nil)}, 0, true},
		"the first flow missed":         {[]part{flowEnded("FAILED"), flowEnded("PAID"), took(9 * ms), reconciled(sound, nil)}, 0, false},
		"the last flow missed":          {[]part{flowEnded("PAID"), flowEnded("error: no answer"), reconciled(sound, nil)}, 0, false},
		"PAID came late":                {[]part{flowEnded("PAID"), took(90*ms, 9*ms, 25*ms), reconciled(sound, nil)}, 0, false},
		"reconcile found differences":   {[]part{flowEnded("PAID"), reconciled(`{"ok":false,"invariants":[{"id":1,"broken":2},{"id":4,"broken":1}]}`, exit)}, 3, false},
		"reconcile could not ask":       {[]part{flowEnded("PAID"), reconciled(`{"ok":false,"unknown":["a node is away"]}`, nil)}, 0, false},
		"reconcile ended with an error": {[]part{flowEnded("PAID"), reconciled(sound, exit)}, 0, false},
	} {
		d, s := &Demo{out: io.Discard}, &Summary{OK: true}
		for _, happens := range c.parts {
			if err := happens(d, s); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.Passed() != c.passed || s.Differences != c.differences {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A reconcile that said nothing has not found that all is well.
func TestWithoutAReportADemoHasNoVerdict(t *testing.T) {
	t.Parallel()
	err := reconciled("", errors.New("killed"))(&Demo{out: io.Discard}, &Summary{OK: true})
	if err == nil {
		t.Error("an empty report is taken")
	}
}
