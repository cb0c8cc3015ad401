package simulate

import (
	"context"
	"fmt"
	"strings"
)

// tries is how many times a failing seed is tried with less.
const tries = 60

// shrink leaves out acts and faults of a seed as long as it still fails in the same way, and tells what is left.
func (l *Lab) shrink(ctx context.Context, d **database, failed Result) (string, error) {
	s := &shrinking{lab: l, database: d, best: failed, kind: kindOf(failed), without: less{faults: map[string]bool{}, acts: map[int]bool{}}}
	if err := s.halve(ctx); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nSeed %d fails; %d acts and %d faults are enough for it (%d tries):\n", failed.Seed, len(s.best.acts), len(s.best.met), s.tried)
	b.WriteString(s.best.Story)
	for _, v := range failed.Violations {
		fmt.Fprintf(&b, "Whole seed: %s\n", v)
	}
	fmt.Fprintf(&b, "Again: make simulate SEEDS=1 SEED_START=%d\n\n", failed.Seed)
	return b.String(), nil
}

// kindOf is the kind of a seed's first violation.
func kindOf(r Result) string {
	kind, _, _ := strings.Cut(r.Violations[0], ":")
	return kind
}

type shrinking struct {
	lab      *Lab
	database **database
	best     Result
	kind     string
	without  less
	tried    int
}

// halve leaves out halves, then quarters, and so on down to single acts and faults.
func (s *shrinking) halve(ctx context.Context) error {
	for parts := 2; s.tried < tries; parts *= 2 {
		acts, met := s.best.acts, s.best.met
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
		if parts > 2*max(len(acts), len(met)) {
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
	more := less{faults: map[string]bool{}, acts: map[int]bool{}}
	for f := range s.without.faults {
		more.faults[f] = true
	}
	for a := range s.without.acts {
		more.acts[a] = true
	}
	leaveOut(more)
	r, err := s.lab.fresh(ctx, s.database, s.best.Seed, more)
	if err != nil {
		return err
	}
	if len(r.Violations) > 0 && kindOf(r) == s.kind {
		s.best, s.without = r, more
	}
	return nil
}
