package simulate

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
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
	s, err := openLab(t).run(t.Context(), Options{Seeds: 20, Start: 1, Parallel: 2, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	if s.Violations > 0 || s.Seeds != 20 || s.Actions < 20*20 || s.Faults < 100 || s.Steps < 20 {
		t.Errorf("%s\n%+v", &out, s)
	}
}

// A seed repeats itself exactly, on a new database as on one that others were tried on.
func TestASeedRepeatsItself(t *testing.T) {
	t.Parallel()
	lab := openLab(t)
	var used *database
	for _, seed := range []uint64{11, 12, 101, 102} {
		first := story(t, lab, &used, seed)
		if first != story(t, lab, &used, seed) {
			t.Errorf("seed %d went otherwise the second time", seed)
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
			return fmt.Sprintf("line %d:\n%s\n%s", i+1, strings.Join(first[max(i-3, 0):min(i+3, len(first))], "\n"), strings.Join(second[max(i-3, 0):min(i+3, len(second))], "\n"))
		}
	}
	return "one is longer"
}
