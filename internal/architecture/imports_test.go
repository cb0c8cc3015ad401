package architecture

import (
	"slices"
	"strings"
	"testing"
)

// layers are the top-level directories, from the inside out. Each may import those of earlier lines, and none of its
// own or later lines.
var layers = [][]string{
	{"migrations"},
	{"ledger", "lock"},
	{"paidaction"},
	{"community"},
	{"wallet", "webhook"},
	// lnurl is the other edge: the protocol of wallets that pay to people's addresses. web has the pages for users,
	// operator those for operators.
	{"lightning", "worker", "graph", "lnurl", "web", "operator", "reconcile"},
	{"relay", "archive"},
	{"cmd"},
}

// heart is the packages that know no edge.
var heart = []string{"ledger", "paidaction", "community"}

// reserved are libraries that only one part of the tree may import. Tests must obey too, except those named.
var reserved = []struct {
	library string
	to      []string
	why     string
}{
	{"github.com/lightningnetwork", []string{"lightning"}, "LND's types stop there"},
	{"github.com/btcsuite", []string{"lightning", "wallet/internal/nostr", "wallet/internal/lnurl", "internal/keyauth"},
		"LND's types stop there; but Nostr and wallets that sign in use the same curve, and an LNURL is bech32"},
	{"github.com/go-jose", []string{"internal/sitejwt"}, "a site's tokens are checked in one place"},
	{"google.golang.org/grpc", []string{"lightning"}, "nodes are spoken to there"},
	{"go.opentelemetry.io", []string{"lightning", "worker", "graph", "cmd/holdfast"}, "the heart is traced from outside"},
	{"gopkg.in/macaroon.v2", []string{"lightning"}, "nodes are spoken to there"},
	{"github.com/riverqueue", []string{"worker", "migrations/migrations_test.go"}, "jobs are known elsewhere as paidaction.Job"},
	{"riverqueue.com/riverui", []string{"worker"}, "River stops there, its page included"},
	{"github.com/redis/go-redis", []string{"lock", "internal/redisserver"}, "Redis is one of the lock's strategies, and nothing else"},
	{"github.com/bsm/redislock", []string{"lock/bench"}, "it is what the lock is measured against"},
	{"github.com/99designs/gqlgen", []string{"graph"}, "GraphQL is one edge of several"},
	{"github.com/vektah/gqlparser", []string{"graph", "internal/architecture"}, "GraphQL is one edge of several"},
}

func TestDependenciesPointInwards(t *testing.T) {
	t.Parallel()
	depth := func(dir string) int {
		return slices.IndexFunc(layers, func(l []string) bool { return withinAny(dir, l...) })
	}
	for _, f := range goFiles(t) {
		tree, _, _ := strings.Cut(f.dir, "/")
		if tree == "internal" {
			continue
		}
		if depth(f.dir) < 0 {
			t.Errorf("%s lies in a directory without a place among the layers: give it one", f.path)
			continue
		}
		if f.test {
			continue // tests may use whatever shows best what they test
		}
		for _, imported := range f.imports(t) {
			dir, ok := own(imported)
			if !ok || within(dir, tree) || within(dir, "internal") {
				continue
			}
			if depth(dir) >= depth(f.dir) {
				t.Errorf("%s imports %s, which lies outside of %s or beside it", f.path, dir, tree)
			}
		}
	}
}

// TestHeartKnowsNoEdge follows imports through all packages of the module: no edge may reach the heart through them.
func TestHeartKnowsNoEdge(t *testing.T) {
	t.Parallel()
	imports := map[string][]string{}
	for _, f := range goFiles(t) {
		if !f.test {
			imports[f.dir] = append(imports[f.dir], f.imports(t)...)
		}
	}
	edges := []string{"net/http"}
	for _, r := range reserved {
		edges = append(edges, r.library)
	}
	for _, start := range heart {
		if imports[start] == nil {
			t.Errorf("there is no package %s", start)
		}
		seen := map[string]bool{start: true}
		for todo := []string{start}; len(todo) > 0; todo = todo[1:] {
			for _, imported := range imports[todo[0]] {
				dir, ok := own(imported)
				switch {
				case !ok && withinAny(imported, edges...):
					t.Errorf("%s reaches %s, through %s", start, imported, todo[0])
				case ok && within(dir, "internal") && dir != "internal/db" && dir != "internal/gather" && dir != "internal/places":
					t.Errorf("%s reaches %s, through %s: of what is internal it may know the queries, who waits together and who waits alone", start, dir, todo[0])
				case ok && !seen[dir]:
					seen[dir] = true
					todo = append(todo, dir)
				}
			}
		}
	}
}

func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, imported := range f.imports(t) {
			for _, r := range reserved {
				if within(imported, r.library) && !withinAny(f.path, r.to...) {
					t.Errorf("%s imports %s, which belongs to %s: %s", f.path, imported, strings.Join(r.to, " and "), r.why)
				}
			}
		}
	}
}
