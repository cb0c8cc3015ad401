package lightning_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/lightning"
)

// services are LND's, by the field of Client that speaks to them.
var services = map[string]string{"main": "/lnrpc.Lightning/", "invoices": "/invoicesrpc.Invoices/", "router": "/routerrpc.Router/",
	"chain": "/chainrpc.ChainNotifier/"}

// What a macaroon must permit is what the code calls: no less, or payments fail in the middle, and no more.
func TestPermissionsAreTheCalls(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var called []string
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			method, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if client, ok := method.X.(*ast.SelectorExpr); ok && services[client.Sel.Name] != "" {
				if who, ok := client.X.(*ast.Ident); ok && who.Name == "c" {
					called = append(called, services[client.Sel.Name]+method.Sel.Name)
				}
			}
			return true
		})
	}
	slices.Sort(called)
	if called, asked := slices.Compact(called), slices.Sorted(slices.Values(lightning.Permissions(true))); !slices.Equal(called, asked) {
		t.Errorf("called:\n%s\nasked for:\n%s", strings.Join(called, "\n"), strings.Join(asked, "\n"))
	}
	if issuing, all := lightning.Permissions(false), lightning.Permissions(true); !slices.Equal(all[:len(issuing)], issuing) {
		t.Error("those of a node that only issues are not the first ones")
	}
}

// The page for operators has the command that bakes such a macaroon: first what every node needs, then what one that sends does.
func TestThePageBakesWhatIsNeeded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	bake := regexp.MustCompile(`(?s)lncli bakemacaroon --save_to \S+ \\\n(.*?)\n` + "```").FindSubmatch(text)
	if bake == nil {
		t.Fatal("the page bakes no macaroon")
	}
	var told []string
	for _, m := range regexp.MustCompile(`uri:(\S+)`).FindAllSubmatch(bake[1], -1) {
		told = append(told, string(m[1]))
	}
	if !slices.Equal(told, lightning.Permissions(true)) {
		t.Errorf("the page has\n%s\nneeded are\n%s", strings.Join(told, "\n"), strings.Join(lightning.Permissions(true), "\n"))
	}
	if last := "from `" + lightning.Permissions(true)[len(lightning.Permissions(false))] + "` on"; !strings.Contains(string(text), last) {
		t.Errorf("the page does not say %q: what only nodes that send need", last)
	}
}
