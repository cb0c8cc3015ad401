package main

import (
	"os"
	"slices"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func actions() []paidaction.Definition { return community.Actions(community.DefaultSettings()) }

func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != page(actions()) {
		t.Errorf("%s is not what the actions say: make generate", file)
	}
}

// compared are the columns of the specification's table, in its order. It has none for sats.
var compared = []string{"credits", "optimistic", "pessimistic", "anonable", "QR payable", "P2P wrapped", "side effects"}

// specified is the table of spec 02 §2.3, written down a second time.
var specified = []struct {
	kind string
	can  [7]string
}{
	{"ZAP", [7]string{"x", "x", "x", "x", "x", "x", "x"}},
	{"ITEM_CREATE", [7]string{"x", "x", "x", "x", "x", "", "x"}}, // posts and comments, of every kind
	{"DOWN_ZAP", [7]string{"x", "x", "", "", "x", "", "x"}},
	{"POLL_VOTE", [7]string{"x", "x", "", "", "x", "", ""}},
	{"TERRITORY_CREATE", [7]string{"x", "", "x", "", "x", "", ""}},
	{"TERRITORY_UPDATE", [7]string{"x", "", "x", "", "x", "", ""}},
	{"TERRITORY_BILLING", [7]string{"x", "", "x", "", "x", "", ""}},
	{"TERRITORY_UNARCHIVE", [7]string{"x", "", "x", "", "x", "", ""}},
	{"DONATE", [7]string{"x", "", "x", "x", "x", "", ""}},
	{"ITEM_UPDATE", [7]string{"x", "", "x", "x", "x", "", "x"}},
	{"BUY_CREDITS", [7]string{"", "", "x", "", "x", "", ""}}, // from the balance of sats
	{"BOOST", [7]string{"x", "x", "x", "", "x", "", ""}},
	{"RECEIVE", [7]string{"", "", "x", "x", "x", "x", "x"}},
	{"WITHDRAW", [7]string{"", "", "", "", "", "outgoing", "x"}},
	{"INVITE_GIFT", [7]string{"x", "", "", "", "", "", ""}},
}

// beyond says where an action can more than the specification asks for, and why.
var beyond = map[[2]string]string{
	{"INVITE_GIFT", "side effects"}: "the inviter, who is not there, is told what was given",
}

func TestActionsAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	byKind := map[string]paidaction.Definition{}
	for _, d := range actions() {
		byKind[d.Spec().Kind] = d
	}
	for _, row := range specified {
		d, ok := byKind[row.kind]
		if !ok {
			t.Errorf("there is no %s", row.kind)
			continue
		}
		delete(byKind, row.kind)
		for i, title := range compared {
			want := row.can[i]
			if beyond[[2]string{row.kind, title}] != "" {
				if want != "" {
					t.Errorf("%s, %s: the specification asks for it", row.kind, title)
				}
				want = "x"
			}
			if got := cell(d, title); got != want {
				t.Errorf("%s, %s: %q, want %q", row.kind, title, got, want)
			}
		}
	}
	for kind := range byKind {
		t.Errorf("%s is not in the table of the specification: add a row to specified in internal/capability/page_test.go", kind)
	}
	if d := actions()[slices.IndexFunc(actions(), func(d paidaction.Definition) bool { return d.Spec().Kind == "BUY_CREDITS" })]; cell(d, "sats") != "x" {
		t.Error("credits cannot be bought with sats")
	}
}

func cell(d paidaction.Definition, title string) string {
	return columns[slices.IndexFunc(columns, func(c column) bool { return c.title == title })].of(d)
}
