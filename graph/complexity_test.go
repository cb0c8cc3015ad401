package graph

import (
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
)

// Whatever is asked for in a list counts as many times as the list is long, or may be if nobody says how long: so lists within lists, or
// many lists, are refused before anything is read. It fails for a new list of the schema that counts once.
func TestEveryListIsCountedByItsLength(t *testing.T) {
	t.Parallel()
	r := &resolver{}
	if err := r.Limits.defaults(); err != nil {
		t.Fatal(err)
	}
	s := schema.NewExecutableSchema(schema.Config{Resolvers: r, Complexity: r.complexity()})
	const below = 3 // fields of each element
	pages := 0
	for _, of := range s.Schema().Types {
		if of.Kind != ast.Object || of.BuiltIn || strings.HasSuffix(of.Name, "Page") {
			continue // what is in a page was counted with the page
		}
		for _, f := range of.Fields {
			want := map[int]int{} // by the length that is asked for
			switch elem := f.Type.Elem; {
			case strings.HasSuffix(f.Type.Name(), "Page"):
				pages++
				want[1], want[40], want[0] = 1+below, 1+40*below, 1+below
				if of.Name+"."+f.Name == "Item.thread" {
					want[501] = 1 + 500*below // refused later; it must not overflow
				} else {
					want[101] = 1 + 100*below
				}
			case elem != nil && s.Schema().Types[elem.Name()].Kind == ast.Object && !slices.Contains([]string{"Item.uploads"}, of.Name+"."+f.Name):
				want[0] = 1 + 10*below
			}
			for length, cost := range want {
				args := map[string]any{"first": length, "limit": length}
				if got, counted := s.Complexity(t.Context(), of.Name, f.Name, below, args); got != cost || !counted {
					t.Errorf("%s.%s, of %d: %d (%t), want %d", of.Name, f.Name, length, got, counted, cost)
				}
			}
		}
	}
	if pages < 12 {
		t.Errorf("only %d pages were found", pages)
	}
}
