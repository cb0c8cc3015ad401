package architecture

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"testing"
)

// secretName matches the names of values that a comparison must not reveal. == stops at the first different byte, so it
// takes longer the more of a guess is right.
var secretName = regexp.MustCompile(`(?i)(secret|macaroon|password|apikey|token|preimage)$`)

// comparers are functions that stop as early as == does.
var comparers = []string{"bytes.Equal", "bytes.Compare", "strings.EqualFold", "strings.Compare", "slices.Equal", "reflect.DeepEqual", "cmp.Compare"}

// TestSecretsAreComparedInConstantTime: if a secret must be compared at all, crypto/subtle does it. Keys are looked up
// by their hash instead (graph/keys.go), and what a node returns is hashed first.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	constant := 0
	for _, f := range goFiles(t) {
		if f.test || f.generated || within(f.dir, "lightning/simnode") { // the simulated nodes are tests
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			var compared []ast.Expr
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					compared = []ast.Expr{n.X, n.Y}
				}
			case *ast.SwitchStmt:
				compared = []ast.Expr{n.Tag}
			case *ast.CallExpr:
				pkg, name := packageName(n.Fun)
				if pkg == "subtle" || pkg == "hmac" && name == "Equal" {
					constant++
				}
				if slices.Contains(comparers, pkg+"."+name) {
					compared = n.Args
				}
			}
			if slices.ContainsFunc(compared, isSecret) && !slices.ContainsFunc(compared, isConstant) {
				t.Errorf("%s compares a secret byte by byte: crypto/subtle", f.path)
			}
			return true
		})
	}
	if constant == 0 {
		t.Error("no comparison in constant time was found: does this test still look at the right place?")
	}
}

// isSecret reports whether an expression is a value named like a secret, whatever it is converted to.
func isSecret(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return secretName.MatchString(e.Name)
	case *ast.SelectorExpr:
		return secretName.MatchString(e.Sel.Name)
	case *ast.StarExpr:
		return isSecret(e.X)
	case *ast.ParenExpr:
		return isSecret(e.X)
	case *ast.SliceExpr:
		return isSecret(e.X)
	case *ast.CallExpr: // a conversion, or a call that returns a secret
		return len(e.Args) == 1 && isConversion(e.Fun) && isSecret(e.Args[0])
	}
	return false
}

func isConversion(f ast.Expr) bool {
	switch f := f.(type) {
	case *ast.ArrayType:
		return true
	case *ast.Ident:
		return f.Name == "string"
	}
	return false
}

// isConstant reports whether an expression is nil, a literal or a composite literal. Such comparisons are allowed:
// whether there is a secret at all is no secret.
func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit, *ast.CompositeLit:
		return true
	case *ast.Ident:
		return e.Name == "nil"
	}
	return false
}
