package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

const introduction = `# The actions

This page is written by ` + "`go run ./internal/capability`" + ` (part of ` + "`make generate`" + `) from what the actions in
[community/community.go](../community/community.go) say of themselves. A test holds it against them, and against the table of the
specification.

- **credits**, **sats**: from the balance of credits, of sats.
- **optimistic**: done at once, seen by the payer alone until the invoice is paid. **pessimistic**: done once the payment is held.
- **anonable**: without signing in.
- **QR payable**: by an invoice that any wallet can pay.
- **P2P wrapped**: straight to the wallet of the one it is for; *outgoing*: it pays somebody outside.
- **side effects**: something follows the payment, such as telling people. It can neither delay nor fail it.

`

// column is one thing that an action can or cannot do.
type column struct {
	title string
	of    func(d paidaction.Definition) string // empty: it cannot
}

var columns = []column{
	{"credits", pays(paidaction.FeeCredit)},
	{"sats", pays(paidaction.RewardSats)},
	{"optimistic", pays(paidaction.Optimistic)},
	{"pessimistic", pays(paidaction.Pessimistic)},
	{"anonable", func(d paidaction.Definition) string { return mark(d.Spec().Anonable) }},
	{"QR payable", func(d paidaction.Definition) string {
		return mark(slices.ContainsFunc(d.Spec().Methods, func(m paidaction.Method) bool { return m.Flow() != paidaction.FlowBalance && m != paidaction.Outgoing }))
	}},
	{"P2P wrapped", func(d paidaction.Definition) string {
		if slices.Contains(d.Spec().Methods, paidaction.Outgoing) {
			return "outgoing"
		}
		return mark(slices.Contains(d.Spec().Methods, paidaction.P2P))
	}},
	{"side effects", func(d paidaction.Definition) string { return mark(d.SideEffects()) }},
}

func pays(m paidaction.Method) func(paidaction.Definition) string {
	return func(d paidaction.Definition) string { return mark(slices.Contains(d.Spec().Methods, m)) }
}

func mark(yes bool) string {
	if yes {
		return "x"
	}
	return ""
}

// page is the whole document. It depends only on the actions.
func page(actions []paidaction.Definition) string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("| action |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, d := range actions {
		fmt.Fprintf(&b, "| %s |", d.Spec().Kind)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.of(d))
		}
		b.WriteString("\n")
	}
	return b.String()
}
