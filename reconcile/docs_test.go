package reconcile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// Operators who book by hand find the numbers of the system's accounts, and a statement that books a loss and breaks
// nothing else.
func TestThePageSaysHowALossIsBooked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/reconcile.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range ledger.System() {
		if row := fmt.Sprintf("\n| %d | %s", int64(a), a); !strings.Contains(string(text), row) {
			t.Errorf("the page is to have:%s", row)
		}
	}
	_, statements, _ := strings.Cut(string(text), "here 500 sats of no action:\n\n```sql\n")
	statements, _, there := strings.Cut(statements, "```")
	if !there {
		t.Fatal("the page has no statements for a loss")
	}
	w := lived(t)
	before := run(t, w).LostMsat
	exec(w, statements)
	if report := run(t, w); !report.OK || report.LostMsat != before+500_000 {
		t.Errorf("lost before %d: %+v", before, report)
	}
}

// shortened is how docs/reconcile.md writes what many breaks have in common, in the place of what the command prints.
var shortened = [][2]string{
	{"Show it.", "Show it with `holdfast actions show {action}`."},
	{"**Bug:**", "This is a bug. Stop every process with the role worker, keep a copy of the database, and"},
	{"**Changed rows:**", "Somebody changed rows past the service, or a restore lacks some. Compare with the last backup;"},
}

// docs/reconcile.md has a section for each invariant, with a row for each kind of break, word for word but for what it
// says is shortened, and no others.
func TestThePageListsEveryKindOfBreak(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/reconcile.md")
	if err != nil {
		t.Fatal(err)
	}
	brief := []string{
		" (docs/reconcile.md, booking by hand)", " ([by hand](#booking-by-hand))",
		" (docs/reconcile.md, changing rows by hand)", " ([by hand](#changing-rows-by-hand))",
		" It is told until `--since` has passed.", "", // which the page says of all these together
	}
	for _, s := range shortened {
		if row := fmt.Sprintf("\n| %s | %s |\n", s[0], s[1]); !strings.Contains(string(text), row) {
			t.Errorf("the page is to have:%s", row)
		}
		brief = append(brief, s[1], s[0])
	}
	mend := strings.NewReplacer(brief...)
	var want strings.Builder
	for i, name := range reconcile.Names {
		fmt.Fprintf(&want, "### %d. %s%s\n\n| kind | looked at by | means | what to do |\n|---|---|---|---|\n", i+1, strings.ToUpper(name[:1]), name[1:])
		for _, k := range reconcile.Kinds() {
			if k.Invariant == i+1 {
				fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", k.Name, k.Checked, k.Means, mend.Replace(k.Mend))
			}
		}
		want.WriteString("\n")
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("docs/reconcile.md is to have:\n%s", want.String())
	}
}
