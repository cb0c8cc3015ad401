package architecture

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// failureRow is one known failure: its number, what went wrong elsewhere, what holds here, and the tests.
	failureRow = regexp.MustCompile(`(?m)^\| (\d+[a-j]?) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	namedTest  = regexp.MustCompile("^`([a-z0-9/]+): (Test[A-Za-z0-9]+)`$")
	testName   = regexp.MustCompile(`^Test[A-Z0-9]`)
)

// knownFailures are the numbers in spec 05, in order.
func knownFailures() (numbers []string) {
	for i := 1; i <= 40; i++ {
		numbers = append(numbers, strconv.Itoa(i))
		if i == 16 {
			for letter := 'a'; letter <= 'j'; letter++ {
				numbers = append(numbers, "16"+string(letter))
			}
		}
	}
	return numbers
}

// testFunctions are the tests of each package, including its external test package.
func testFunctions(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, f := range goFiles(t) {
		if !f.test {
			continue
		}
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !testName.MatchString(fn.Name.Name) || !takesTest(fn.Type) {
				continue
			}
			if all[f.dir] == nil {
				all[f.dir] = map[string]bool{}
			}
			all[f.dir][fn.Name.Name] = true
		}
	}
	return all
}

// takesTest reports whether a function's only parameter is a *testing.T.
func takesTest(f *ast.FuncType) bool {
	if f.Params.NumFields() != 1 || f.Results != nil {
		return false
	}
	star, ok := f.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	pkg, name := packageName(star.X)
	return pkg == "testing" && name == "T"
}

// TestEveryKnownFailureHasATest compares docs/known-failures.md with spec 05 and with the tests: each number once and
// in order, each with a file and with tests that exist.
func TestEveryKnownFailureHasATest(t *testing.T) {
	t.Parallel()
	const page = "docs/known-failures.md"
	tests, text := testFunctions(t), read(t, page)
	var numbers []string
	for _, row := range failureRow.FindAllStringSubmatch(text, -1) {
		number, holds, named := row[1], row[3], row[4]
		numbers = append(numbers, number)
		links := link.FindAllStringSubmatch(holds, -1)
		if len(links) == 0 {
			t.Errorf("row %s names no file", number)
		}
		for _, l := range links {
			if file := path.Join(path.Dir(page), l[1]); !exists(file) {
				t.Errorf("row %s links to %s, which does not exist", number, l[1])
			}
		}
		seen := map[string]bool{}
		for one := range strings.SplitSeq(strings.TrimSpace(named), "<br>") {
			found := namedTest.FindStringSubmatch(one)
			switch {
			case found == nil:
				t.Errorf("row %s: %q is not written as `package: TestName`", number, one)
			case seen[one]:
				t.Errorf("row %s names %s twice", number, one)
			case !tests[found[1]][found[2]]:
				t.Errorf("row %s: package %s has no test %s", number, found[1], found[2])
			}
			seen[one] = true
		}
	}
	if want := knownFailures(); !slices.Equal(numbers, want) {
		t.Errorf("%s has the rows\n%v, want\n%v", page, numbers, want)
	}
	if rows := strings.Count(text, "\n| "); rows != len(numbers)+1 {
		t.Errorf("%s has %d lines of a table, of which %d are known failures and one is the head", page, rows, len(numbers))
	}
}
