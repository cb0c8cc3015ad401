package architecture

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const maxLines = 700

func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if n := strings.Count(f.source, "\n"); n >= maxLines && !f.generated {
			t.Errorf("%s has %d lines: is it one concept?", f.path, n)
		}
	}
}

// The page of the heart that says which file does what says it of each file, and of no other.
func TestHeartHasAMap(t *testing.T) {
	t.Parallel()
	var there, named []string
	for _, f := range goFiles(t) {
		switch {
		case f.dir != "paidaction" || f.test:
		case path.Base(f.path) == "doc.go":
			named = regexp.MustCompile(`\w+\.go\b`).FindAllString(f.source, -1)
		default:
			there = append(there, path.Base(f.path))
		}
	}
	for _, name := range there {
		if !slices.Contains(named, name) {
			t.Errorf("paidaction/doc.go does not say what %s does", name)
		}
	}
	for _, name := range named {
		if !slices.Contains(there, name) {
			t.Errorf("paidaction/doc.go names %s, which is not there", name)
		}
	}
}

func TestTestsNeitherSkipNorSleep(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if !f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if pkg, name := packageName(n); pkg == "time" && name == "Sleep" {
				t.Errorf("%s sleeps: wait for a signal instead", f.path)
			}
			if call, ok := n.(*ast.CallExpr); ok {
				method, ok := call.Fun.(*ast.SelectorExpr)
				if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, method.Sel.Name) {
					t.Errorf("%s skips: a test that lacks its part fails", f.path)
				}
			}
			return true
		})
	}
}

// TestHeartIsGivenTimeAndChance: clock and randomness are handed in, so that a test or a simulation controls both. The
// real ones appear only as the defaults of those fields.
func TestHeartIsGivenTimeAndChance(t *testing.T) {
	t.Parallel()
	asDefault := map[string]string{"time.Now": "Now", "rand.Reader": "Random"}
	found := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test || !withinAny(f.dir, heart...) {
			continue
		}
		allowed := map[ast.Expr]bool{}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if set, ok := n.(*ast.AssignStmt); ok && len(set.Lhs) == 1 {
				field, isField := set.Lhs[0].(*ast.SelectorExpr)
				pkg, name := packageName(set.Rhs[0])
				if isField && asDefault[pkg+"."+name] == field.Sel.Name {
					allowed[set.Rhs[0]] = true
					found[pkg+"."+name] = true
				}
			}
			switch pkg, name := packageName(n); {
			case pkg == "rand", pkg == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "Tick"}, name):
				if !allowed[n.(ast.Expr)] {
					t.Errorf("%s uses %s.%s: time and chance are handed in", f.path, pkg, name)
				}
			}
			return true
		})
	}
	if len(found) != len(asDefault) {
		t.Errorf("of the defaults %v only %v were found: does this test still look at the right place?", asDefault, found)
	}
}

// TestSQLLivesInFiles: nobody has checked a query of our tables that sqlc has not compiled against the schema.
func TestSQLLivesInFiles(t *testing.T) {
	t.Parallel()
	var tables []string
	for _, text := range statements(t) {
		for _, found := range regexp.MustCompile(`CREATE TABLE (\w+)`).FindAllStringSubmatch(text, -1) {
			tables = append(tables, found[1])
		}
	}
	query := regexp.MustCompile(`\b(FROM|JOIN|INTO|UPDATE)\s+(` + strings.Join(tables, "|") + `)\b`)
	for _, f := range goFiles(t) {
		if f.test || f.generated || f.dir == "internal/enginetest" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && query.MatchString(text) {
				t.Errorf("%s holds SQL: %s", f.path, text)
			}
			return true
		})
	}
}

// TestOneActionIsOneFile checks the promise that an action is one file and one line of the registry.
func TestOneActionIsOneFile(t *testing.T) {
	t.Parallel()
	where := map[string]string{} // file by action
	registered := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.dir != "community" || f.test {
			continue
		}
		here := ""
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name != "Spec" || n.Recv == nil {
					break
				}
				action := n.Recv.List[0].Type.(*ast.Ident).Name
				if here != "" {
					t.Errorf("%s holds two actions, %s and %s", f.path, here, action)
				}
				here, where[action] = action, f.path
			case *ast.CallExpr:
				if pkg, name := packageName(n.Fun); pkg == "paidaction" && name == "Define" {
					registered[n.Args[0].(*ast.CompositeLit).Type.(*ast.Ident).Name] = true
				}
			}
			return true
		})
	}
	if len(where) == 0 {
		t.Error("no action was found")
	}
	for action, file := range where {
		if !registered[action] {
			t.Errorf("%s in %s is not registered", action, file)
		}
	}
}
