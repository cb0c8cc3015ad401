package simulate

import (
	"context"
	"fmt"
	"maps"
	"strings"
)

// tries is how many times a failing seed is tried with less.
const tries = 60

// shrink leaves out acts and faults of a seed as long as it still fails in the same way.
func (l *Lab) shrink(ctx context.Context, d **database, failed Result) (*shrinking, error) {
	s := newShrinking(failed, func(ctx context.Context, without less) (Result, error) { return l.fresh(ctx, d, failed.Seed, without) })
	return s, s.halve(ctx)
}

func newShrinking(failed Result, again func(context.Context, less) (Result, error)) *shrinking {
	return &shrinking{again: again, whole: failed, best: failed, kind: kindOf(failed), without: less{faults: map[string]bool{}, acts: map[int]bool{}}}
}

// story tells what is left of the seed.
func (s *shrinking) story() string {
	failed := s.whole
	var b strings.Builder
	fmt.Fprintf(&b, "\nSeed %d fails; %d acts and %d faults are enough for it (%d tries):\n", failed.Seed, len(s.best.acts), len(s.best.met), s.tried)
	b.WriteString(s.best.Story)
	for _, v := range failed.Violations {
		fmt.Fprintf(&b, "Whole seed: %s\n", v)
	}
	fmt.Fprintf(&b, "Again: make simulate SEEDS=1 SEED_START=%d\n\n", failed.Seed)
	return b.String()
}

// kindOf is the kind of a seed's first violation.
func kindOf(r Result) string {
	kind, _, _ := strings.Cut(r.Violations[0], ":")
	return kind
}

type shrinking struct {
	again   func(context.Context, less) (Result, error) // tries the seed
	whole   Result
	best    Result
	kind    string
	without less
	tried   int
	spared  int // how many of the tries failed as well
}

// halve leaves out halves, then quarters, and so on down to single acts and faults. Of these it leaves out one after the
// other until none can be spared any more: what was needed at first may not be once something else is gone.
func (s *shrinking) halve(ctx context.Context) error {
	for parts := 2; s.tried < tries; parts *= 2 {
		acts, met, spared := s.best.acts, s.best.met, s.spared
		if err := chunks(acts, parts, func(some []int) error {
			return s.attempt(ctx, func(l less) {
				for _, a := range some {
					l.acts[a] = true
				}
			})
		}); err != nil {
			return err
		}
		if err := chunks(met, parts, func(some []string) error {
			return s.attempt(ctx, func(l less) {
				for _, f := range some {
					l.faults[f] = true
				}
			})
		}); err != nil {
			return err
		}
		if parts > max(len(acts), len(met)) && s.spared == spared {
			return nil
		}
	}
	return nil
}

func chunks[T any](all []T, parts int, do func([]T) error) error {
	size := max(len(all)/parts, 1)
	for from := 0; from < len(all); from += size {
		if err := do(all[from:min(from+size, len(all))]); err != nil {
			return err
		}
	}
	return nil
}

// attempt leaves something more out, and keeps it out if the seed still fails.
func (s *shrinking) attempt(ctx context.Context, leaveOut func(less)) error {
	if s.tried >= tries {
		return nil
	}
	s.tried++
	r, more, err := s.spare(ctx, leaveOut)
	if err != nil {
		return err
	}
	if s.fails(r) {
		s.best, s.without = r, more
		s.spared++
	}
	return nil
}

// spare tries the seed with something more left out.
func (s *shrinking) spare(ctx context.Context, leaveOut func(less)) (Result, less, error) {
	more := less{faults: maps.Clone(s.without.faults), acts: maps.Clone(s.without.acts)}
	leaveOut(more)
	r, err := s.again(ctx, more)
	return r, more, err
}

// fails reports whether a result is of the kind that is looked for.
func (s *shrinking) fails(r Result) bool { return len(r.Violations) > 0 && kindOf(r) == s.kind }
