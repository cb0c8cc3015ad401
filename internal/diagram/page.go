package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const introduction = `# The state machine

An arrow is a transition, and its label is the fact that leads to it. In the first diagram the labels are the flows that
have the transition. [paidaction/state.go](../paidaction/state.go) says what the states mean,
[paidaction/machine.go](../paidaction/machine.go) what the facts mean.

This page is drawn from [paidaction/machine.go](../paidaction/machine.go) by ` + "`go run ./internal/diagram`" + ` (part of
` + "`make generate`" + `), and a test fails when the two differ. PostgreSQL refuses every transition that is not here
([migration 4](../migrations/0004_paid_action.up.sql)).

`

// titles describe each flow in a few words.
var titles = map[paidaction.Flow]string{
	paidaction.FlowBalance:     "from a balance, or for nothing",
	paidaction.FlowOptimistic:  "performed now, paid later",
	paidaction.FlowPessimistic: "held first, then performed, then settled",
	paidaction.FlowWrapped:     "held while the receiver is paid with the same hash",
	paidaction.FlowOutgoing:    "a withdrawal",
}

// page is the whole document. It depends only on the machine.
func page(machine []paidaction.Step) string {
	var b strings.Builder
	b.WriteString(introduction)

	b.WriteString("## All flows\n\n")
	draw(&b, machine, func(s paidaction.Step) string { return strings.ToLower(string(s.Flow)) })
	for _, flow := range paidaction.Flows {
		fmt.Fprintf(&b, "## %s: %s\n\n", flow, titles[flow])
		draw(&b, ofFlow(machine, flow), func(s paidaction.Step) string { return string(s.When) })
	}

	b.WriteString("## Every step\n\n")
	b.WriteString("The effect is part of the transaction that moves the state. The call to the node is made after the commit, and may be\n" +
		"repeated. Recovery is what moves the action on if the process died before or after the step. The watchdog is a job that\n" +
		"is stored when the action begins, in case no invoice is ever made.\n\n")
	b.WriteString("| flow | from | fact | to | effect | call | recovery |\n|---|---|---|---|---|---|---|\n")
	for _, s := range machine {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			s.Flow, name(s.From), s.When, s.To, orDash(string(s.Effect)), orDash(string(s.Then)), s.Recovery)
	}
	return b.String()
}

func ofFlow(machine []paidaction.Step, flow paidaction.Flow) []paidaction.Step {
	return slices.DeleteFunc(slices.Clone(machine), func(s paidaction.Step) bool { return s.Flow != flow })
}

// draw writes a diagram of these steps: one arrow for each pair of states, labelled with all the steps between them.
func draw(b *strings.Builder, steps []paidaction.Step, label func(paidaction.Step) string) {
	type arrow struct{ from, to paidaction.State }
	var arrows []arrow
	labels := map[arrow][]string{}
	for _, s := range steps {
		a := arrow{s.From, s.To}
		if labels[a] == nil {
			arrows = append(arrows, a)
		}
		if l := label(s); !slices.Contains(labels[a], l) {
			labels[a] = append(labels[a], l)
		}
	}

	b.WriteString("```mermaid\nstateDiagram-v2\n")
	var reached []paidaction.State
	for _, a := range arrows {
		fmt.Fprintf(b, "    %s --> %s : %s\n", name(a.from), a.to, strings.Join(labels[a], ", "))
		reached = append(reached, a.to)
	}
	for _, s := range paidaction.States {
		if s.Terminal() && slices.Contains(reached, s) {
			fmt.Fprintf(b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n\n")
}

// name is how a state is written; the beginning has no name of its own.
func name(s paidaction.State) string {
	if s == paidaction.Beginning {
		return "[*]"
	}
	return string(s)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
