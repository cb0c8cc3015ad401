package simulate

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// laboratory is shared by all tests of the package.
var laboratory struct {
	once sync.Once
	lab  *Lab
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if lab := laboratory.lab; lab != nil {
		if err := lab.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func openLab(t *testing.T) *Lab {
	t.Helper()
	laboratory.once.Do(func() { laboratory.lab, laboratory.err = OpenLab(t.Context()) })
	if laboratory.err != nil {
		t.Fatal(laboratory.err)
	}
	return laboratory.lab
}

func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s, err := openLab(t).run(t.Context(), Options{Seeds: 14, Start: 1, Parallel: 2, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	if s.Violations > 0 || s.Seeds != 14 || s.Actions < 14*20 || s.Faults < 100 || s.Steps < 20 {
		t.Errorf("%s\n%+v", &out, s)
	}
}

// A step of the machine that many seeds never take is told, or the simulation would go on doing nothing unnoticed.
func TestAStepThatManySeedsNeverTakeIsTold(t *testing.T) {
	t.Parallel()
	all := coverage{}
	var last string
	for _, s := range paidaction.Machine {
		if !byOperator(s) {
			last = stepName(s.Flow, s.From, s.When, s.To)
			all[pair{last, ""}] = 1
		}
	}
	some := maps.Clone(all)
	delete(some, pair{last, ""})
	for _, c := range []struct {
		seeds int
		taken coverage
		told  []string
	}{{manySeeds, all, nil}, {manySeeds, some, []string{last}}, {manySeeds - 1, some, nil}} {
		s := Summary{Seeds: c.seeds}
		if s.cover(c.taken, io.Discard); !slices.Equal(s.NeverTaken, c.told) {
			t.Errorf("after %d seeds it tells %q, want %q", c.seeds, s.NeverTaken, c.told)
		}
	}
}

// Seeds pass only if none of them fails, and every step is taken that so many take. A step and a fault that never
// coincided are told, and fail nothing.
func TestWhichSeedsPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seed   Result
		found  Summary
		passed bool
	}{
		{Result{Seed: 7}, Summary{}, true},
		{Result{Seed: 7}, Summary{MissingPairs: 3}, true},
		{Result{Seed: 7, Violations: []string{"two posts for one payment"}}, Summary{}, false},
		{Result{Seed: 7}, Summary{NeverTaken: []string{"OUTGOING: FORWARDING -> FAILED"}}, false},
	} {
		s := c.found
		if s.add(c.seed); s.Passed() != c.passed {
			t.Errorf("%+v passed: %t", s, s.Passed())
		}
	}
}

// A seed repeats itself exactly, on a new database and on one where others were tried. In seed 58 processes are stopped
// and the database is restored; in seed 62 many stand still at the clock.
func TestASeedRepeatsItself(t *testing.T) {
	t.Parallel()
	lab := openLab(t)
	var used *database
	for _, seed := range []uint64{11, 58, 62} {
		first := story(t, lab, &used, seed)
		if stops := strings.Count(first, string(atClock)); seed == 62 && stops < 5 {
			t.Errorf("in seed %d fibers stop at the clock %d times", seed, stops)
		}
		if second := story(t, lab, &used, seed); second != first {
			t.Errorf("seed %d went otherwise the second time: %s", seed, difference(first, second))
		}
		var fresh *database
		again := story(t, lab, &fresh, seed)
		if again != first {
			t.Errorf("seed %d went otherwise on a new database: %s", seed, difference(first, again))
		}
		fresh.close(t.Context())
	}
	used.close(t.Context())
}

// What shrinking leaves of a failing seed still fails, and its story says how: by the model, which is asked where nothing was forgotten. All of it is needed: without any one of the acts or of the
// faults the seed no longer fails.
func TestAFailingSeedIsFoundAndShrunk(t *testing.T) {
	t.Parallel()
	lab := withoutUniqueKey(t, openLab(t))
	var d *database
	defer func() {
		if d != nil {
			d.close(t.Context())
		}
	}()
	for seed := uint64(1); seed < 40; seed++ {
		r, err := lab.fresh(t.Context(), &d, seed, less{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Violations) == 0 || r.forgot {
			continue
		}
		const found = "asked with one key"
		if !strings.Contains(r.Violations[0], found) || !strings.Contains(r.Story, "VIOLATION model") {
			t.Errorf("seed %d: %v", seed, r.Violations)
		}
		shrunk, err := lab.shrink(t.Context(), &d, r)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %d acts and %d faults of %d and %d, %d tries", seed, len(shrunk.best.acts), len(shrunk.best.met), len(r.acts), len(r.met), shrunk.tried)
		if told := shrunk.story(); !strings.Contains(told, "VIOLATION model") || !strings.Contains(shrunk.best.Violations[0], found) || len(told) >= len(r.Story) {
			t.Errorf("seed %d, shrunk: %v\n%s", seed, shrunk.best.Violations, told)
		}
		needed := func(what string, leaveOut func(less)) {
			if r, _, err := shrunk.spare(t.Context(), leaveOut); err != nil || shrunk.fails(r) {
				t.Errorf("seed %d fails without %s, too: %v, %v", seed, what, r.Violations, err)
			}
		}
		for _, a := range shrunk.best.acts {
			needed(fmt.Sprintf("act %d", a), func(l less) { l.acts[a] = true })
		}
		for _, f := range shrunk.best.met {
			needed(f, func(l less) { l.faults[f] = true })
		}
		return
	}
	t.Error("40 seeds do not find that the unique index over idempotency keys is missing")
}

// withoutUniqueKey is the laboratory with a seeded bug in each of its databases.
func withoutUniqueKey(t *testing.T, lab *Lab) *Lab {
	t.Helper()
	const name = "keyless"
	ctx := t.Context()
	run := func(database string, statements ...string) {
		conn, err := pgx.Connect(ctx, lab.server.DSN(database))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		for _, sql := range statements {
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	run("postgres", "CREATE DATABASE "+name+" TEMPLATE "+lab.template)
	// An index of the same name, which reconcile takes for the real one, but in which no two rows are equal.
	run(name, "DROP INDEX paid_action_key", "CREATE UNIQUE INDEX paid_action_key ON paid_action (idempotency_key, id)")
	return &Lab{server: lab.server, scratch: lab.scratch, template: name}
}

// Every seeded bug is a patch of the present source, and compiles.
func TestSeededBugsCompile(t *testing.T) {
	t.Parallel()
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	names := Bugs()
	if len(names) < 20 {
		t.Errorf("%d seeded bugs", len(names))
	}
	for _, name := range names {
		if err := Compile(t.Context(), top, name); err != nil {
			t.Error(err)
		}
	}
}

func story(t *testing.T, lab *Lab, d **database, seed uint64) string {
	t.Helper()
	r, err := lab.fresh(t.Context(), d, seed, less{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Violations) > 0 {
		t.Errorf("seed %d: %v", seed, r.Violations)
	}
	return r.Story
}

func difference(a, b string) string {
	first, second := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(first), len(second)) {
		if first[i] != second[i] {
			return fmt.Sprintf("line %d:\n%s\n%s", i+1, strings.Join(first[max(i-9, 0):min(i+9, len(first))], "\n"), strings.Join(second[max(i-9, 0):min(i+9, len(second))], "\n"))
		}
	}
	return "one is longer"
}

// Every action of the application is simulated, with each of its methods.
func TestEveryActionIsSimulated(t *testing.T) {
	t.Parallel()
	for _, a := range community.Actions(settings()) {
		spec := a.Spec()
		i := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == spec.Kind })
		if i < 0 {
			t.Errorf("%s is not simulated: add it to one of the lists of kinds, such as moneyKinds", spec.Kind)
			continue
		}
		for _, m := range spec.Methods {
			if m != paidaction.ZeroCost && !slices.Contains(kinds[i].methods, m) {
				t.Errorf("%s by %s is not simulated", spec.Kind, m)
			}
		}
		if kinds[i].anonymous != spec.Anonable {
			t.Errorf("%s: its kind says anonymous: %t, and its Spec Anonable: %t", spec.Kind, kinds[i].anonymous, spec.Anonable)
		}
	}
}
