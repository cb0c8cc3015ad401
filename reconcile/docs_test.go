package reconcile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// docs/reconcile.md has a section for each invariant, and in it a row for each kind of break, word for word, and no others.
func TestThePageListsEveryKindOfBreak(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/reconcile.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i, name := range reconcile.Names {
		fmt.Fprintf(&want, "### %d. %s%s\n\n| kind | looked at by | means | what to do |\n|---|---|---|---|\n", i+1, strings.ToUpper(name[:1]), name[1:])
		for _, k := range reconcile.Kinds() {
			if k.Invariant == i+1 {
				fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", k.Name, k.Checked, k.Means, k.Mend)
			}
		}
		want.WriteString("\n")
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("docs/reconcile.md is to have:\n%s", want.String())
	}
}
