package simulate

import (
	"fmt"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// coverage counts which faults came before, or in the middle of, which steps.
type coverage map[pair]int

type pair struct {
	Step  string
	Fault Fault
}

func stepName(flow paidaction.Flow, from paidaction.State, fact paidaction.Fact, to paidaction.State) string {
	if from == paidaction.Beginning {
		from = "[*]"
	}
	return fmt.Sprintf("%s %s → %s (%s)", flow, from, to, fact)
}

func (c coverage) step(s taken, faults ...[]Fault) {
	name := stepName(s.flow, s.from, s.fact, s.to)
	c[pair{name, ""}]++
	for _, some := range faults {
		for _, f := range some {
			c[pair{name, f}]++
		}
	}
}

func (c coverage) add(other coverage) {
	for p, n := range other {
		c[p] += n
	}
}

// missing are the steps of the machine that were never taken, and the pairs of a step and a fault that never came together.
func (c coverage) missing() (steps []string, pairs []pair) {
	for _, s := range paidaction.Machine {
		name := stepName(s.Flow, s.From, s.When, s.To)
		if c[pair{name, ""}] == 0 {
			steps = append(steps, name)
			continue
		}
		for _, f := range Faults {
			if c[pair{name, f}] == 0 && possiblePair(s, f) {
				pairs = append(pairs, pair{name, f})
			}
		}
	}
	slices.Sort(steps)
	return steps, pairs
}

// possiblePair says whether a fault can meet a step at all.
func possiblePair(s paidaction.Step, f Fault) bool {
	beginning := s.From == paidaction.Beginning
	incoming := s.Flow != paidaction.FlowOutgoing && s.Flow != paidaction.FlowBalance
	switch f {
	case paidAtExpiry, overpaid, paidInParts:
		return incoming && (s.When == paidaction.InvoiceIsPaid || s.When == paidaction.InvoiceIsHeld)
	case eventDropped, eventRepeated, eventDelayed:
		return incoming && !beginning
	case streamEnds:
		return s.From == paidaction.Forwarding
	case saysUnknown, saysExists, nodeAway, nodeBehind, clockJumps, blockBurst, jobTwice:
		return !beginning && s.When != paidaction.RetryRequested
	case askedTwice:
		return beginning
	case retriedTwice:
		return s.When == paidaction.RetryRequested
	case callFails, answerIsLost, arrivesLater, slow:
		return s.Flow != paidaction.FlowBalance && s.When != paidaction.BalanceWasDebited
	}
	return true
}
