// Package architecture checks the repository against its own rules: who may import whom, what SQL must not contain,
// which promises the documents make. It consists of tests only.
package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	top    = "../.." // the top of the repository
	module = "github.com/a-seed-a7aed72f/holdfast"
)

// goFile is a Go file of this module.
type goFile struct {
	path      string // from the top, with slashes
	dir       string
	source    string
	syntax    *ast.File
	test      bool
	generated bool
}

// files are all Go files of this module, read once.
var files = sync.OnceValues(func() ([]goFile, error) {
	var all []goFile
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); name != top && (strings.HasPrefix(base, ".") || base == "testdata" || base == "tools") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		if err != nil {
			return err
		}
		from, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		from = filepath.ToSlash(from)
		all = append(all, goFile{path: from, dir: path.Dir(from), source: string(source), syntax: syntax,
			test: strings.HasSuffix(from, "_test.go"), generated: ast.IsGenerated(syntax)})
		return nil
	})
	return all, err
})

func goFiles(t *testing.T) []goFile {
	t.Helper()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go file was found")
	}
	return all
}

func (f goFile) imports(t *testing.T) []string {
	t.Helper()
	paths := make([]string, len(f.syntax.Imports))
	for i, spec := range f.syntax.Imports {
		var err error
		if paths[i], err = strconv.Unquote(spec.Path.Value); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// own is the directory of an imported package, if it belongs to this module.
func own(imported string) (dir string, ok bool) { return strings.CutPrefix(imported, module+"/") }

// within reports whether a path is the tree or lies in it.
func within(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }

func withinAny(path string, trees ...string) bool {
	for _, tree := range trees {
		if within(path, tree) {
			return true
		}
	}
	return false
}

// packageName is what a call of a function of an imported package looks like: time.Now is ("time", "Now").
func packageName(n ast.Node) (pkg, name string) {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	ident, ok := selector.X.(*ast.Ident)
	if !ok || ident.Obj != nil { // a local variable, not a package
		return "", ""
	}
	return ident.Name, selector.Sel.Name
}
