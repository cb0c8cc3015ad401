package redis

import (
	"errors"
	"testing"
)

// What no script of ours answers is no lease.
func TestAForeignAnswerIsNoLease(t *testing.T) {
	t.Parallel()
	for _, answer := range []any{nil, "OK", []any{}, []any{"id", "process", "1", "1000"}} {
		if got, err := handoff("k", answer); !errors.Is(err, errAnswer) {
			t.Errorf("%v is taken for %+v", answer, got)
		}
	}
}
