// Package simulate runs the service through random schedules of faults. People do all that people do; three processes
// share one PostgreSQL, two simulated nodes, and receivers. Processes die at any commit or node call, connections
// break, answers are lost or late. One piece of work runs at a time, and the seed alone decides which, so a seed
// repeats itself exactly. In the end a model, written without the code under test, says what must be true. Begin with
// try (seed.go), which takes one seed from its beginning to the verdict.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Options say which seeds are tried.
type Options struct {
	Seeds    int
	Start    uint64 // the first one
	Parallel int    // side by side
	Stop     bool   // at the first seed that fails, and leave it unshrunk
	Out      io.Writer
	Show     bool // print every story, not only those of the seeds that fail
}

// Summary is the last line that the simulation prints.
type Summary struct {
	Seeds        int      `json:"seeds"`
	Actions      int      `json:"actions"`
	Faults       int      `json:"faults"`
	Violations   int      `json:"violations"`
	FailingSeeds []uint64 `json:"failing_seeds"`
	First        []string `json:"first_violations,omitempty"` // one of each failing seed
	Steps        int      `json:"steps"`                      // steps of the machine that were taken
	Pairs        int      `json:"pairs"`                      // sought pairs of a step and a fault that coincided
	MissingPairs int      `json:"missing_pairs"`              // sought pairs that never did
	NeverTaken   []string `json:"never_taken,omitempty"`      // steps that so many seeds should have taken, and none has
}

// Passed reports whether no seed failed, and every step was taken that so many seeds take.
func (s *Summary) Passed() bool { return s.Violations == 0 && len(s.NeverTaken) == 0 }

// manySeeds take every step of the machine: a thousand have always. If they do not, something that people
// do is refused, or never done.
const manySeeds = 1500

// Run tries seeds, shrinks and tells those that fail, and prints what was covered.
func Run(ctx context.Context, o Options) (*Summary, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // there is enough memory, and each seed leaves its garbage
	lab, err := OpenLab(ctx)
	if err != nil {
		return nil, err
	}
	summary, err := lab.run(ctx, o)
	return summary, errors.Join(err, lab.Close())
}

func (l *Lab) run(ctx context.Context, o Options) (*Summary, error) {
	summary, covered := &Summary{FailingSeeds: []uint64{}}, coverage{}
	var mu sync.Mutex
	next := o.Start
	group, ctx := errgroup.WithContext(ctx)
	for range max(o.Parallel, 1) {
		group.Go(func() error {
			var d *database
			defer func() {
				if d != nil {
					d.close(context.WithoutCancel(ctx))
				}
			}()
			for ctx.Err() == nil {
				mu.Lock()
				seed := next
				next++
				over := seed >= o.Start+uint64(o.Seeds) || o.Stop && len(summary.FailingSeeds) > 0
				mu.Unlock()
				if over {
					return nil
				}
				r, err := l.fresh(ctx, &d, seed, less{})
				if err != nil {
					return err
				}
				var told string
				if len(r.Violations) > 0 && o.Stop {
					told = fmt.Sprintf("Seed %d fails: %s\n", r.Seed, strings.Join(r.Violations, "\n"))
				} else if len(r.Violations) > 0 {
					shrunk, err := l.shrink(ctx, &d, r)
					if err != nil {
						return err
					}
					told = shrunk.story()
				}
				mu.Lock()
				summary.add(r)
				covered.add(r.coverage)
				if o.Show {
					fmt.Fprintf(o.Out, "Seed %d\n%s", seed, r.Story)
				}
				fmt.Fprint(o.Out, told)
				if summary.Seeds%100 == 0 {
					fmt.Fprintf(o.Out, "%d seeds, %d violations\n", summary.Seeds, summary.Violations)
				}
				mu.Unlock()
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(summary.FailingSeeds)
	summary.cover(covered, o.Out)
	return summary, nil
}

// fresh tries a seed on an empty database. A database on which a violation was found is not used again, because its
// count of deadlocks stays.
func (l *Lab) fresh(ctx context.Context, d **database, seed uint64, without less) (Result, error) {
	var err error
	if *d == nil {
		*d, err = l.open(ctx)
	} else {
		err = (*d).renew(ctx)
	}
	if err != nil {
		return Result{}, err
	}
	r := try(ctx, *d, seed, without)
	if len(r.Violations) > 0 {
		(*d).close(ctx)
		*d = nil
	}
	return r, ctx.Err()
}

func (s *Summary) add(r Result) {
	s.Seeds++
	s.Actions += r.Actions
	s.Faults += r.Faults
	s.Violations += len(r.Violations)
	if len(r.Violations) > 0 {
		s.FailingSeeds = append(s.FailingSeeds, r.Seed)
		s.First = append(s.First, fmt.Sprintf("seed %d: %.300s", r.Seed, r.Violations[0]))
	}
}

func (s *Summary) cover(c coverage, out io.Writer) {
	never, met, missing := c.compare()
	s.Pairs, s.MissingPairs = met, len(missing)
	for p := range c {
		if p.Fault == "" {
			s.Steps++
		}
	}
	if s.Seeds >= manySeeds {
		s.NeverTaken = never
	}
	fmt.Fprintf(out, "Covered: %d steps, %d pairs of a step and a fault.\n", s.Steps, s.Pairs)
	for _, step := range never {
		fmt.Fprintf(out, "never taken: %s\n", step)
	}
	byStep := map[string][]string{}
	for _, p := range missing {
		byStep[p.Step] = append(byStep[p.Step], string(p.Fault))
	}
	for _, step := range slices.Sorted(maps.Keys(byStep)) {
		fmt.Fprintf(out, "never together: %s with %s\n", step, strings.Join(byStep[step], ", "))
	}
}
