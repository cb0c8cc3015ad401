package main

import (
	"os"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != page(paidaction.Machine) {
		t.Errorf("%s is not what the machine says: make generate", file)
	}
}

func TestEveryStepIsOnThePage(t *testing.T) {
	t.Parallel()
	for _, flow := range paidaction.Flows {
		if titles[flow] == "" {
			t.Errorf("flow %s has no title", flow)
		}
		var b strings.Builder
		draw(&b, ofFlow(paidaction.Machine, flow), func(s paidaction.Step) string { return string(s.When) })
		for _, s := range ofFlow(paidaction.Machine, flow) {
			if !hasArrow(b.String(), s) {
				t.Errorf("%s: no arrow from %q to %s on %s", flow, s.From, s.To, s.When)
			}
		}
	}
}

func hasArrow(diagram string, s paidaction.Step) bool {
	for line := range strings.Lines(diagram) {
		arrow, facts, _ := strings.Cut(strings.TrimSpace(line), " : ")
		if arrow == name(s.From)+" --> "+string(s.To) {
			for fact := range strings.SplitSeq(facts, ", ") {
				if fact == string(s.When) {
					return true
				}
			}
		}
	}
	return false
}
