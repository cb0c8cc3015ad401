package simulate

import (
	"fmt"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// coverage counts which faults came before or during which steps.
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

// compare compares the coverage with the machine. It returns the steps that were never taken, and of the sought pairs
// how many coincided and which never did.
func (c coverage) compare() (never []string, met int, missing []pair) {
	for _, s := range paidaction.Machine {
		if byOperator(s) {
			continue
		}
		name := stepName(s.Flow, s.From, s.When, s.To)
		if c[pair{name, ""}] == 0 {
			never = append(never, name)
			continue
		}
		for _, f := range Faults {
			switch {
			case !sought(s, f):
			case c[pair{name, f}] > 0:
				met++
			default:
				missing = append(missing, pair{name, f})
			}
		}
	}
	slices.Sort(never)
	return never, met, missing
}

// sought reports whether seeds aim at a pair: whether the fault can be brought about between the step before and this
// one. Other pairs coincide by chance: a payer who pays too much may find the action cancelled all the same, and one
// who retries twice at once begins another attempt.
func sought(s paidaction.Step, f Fault) bool {
	beginning, retried := s.From == paidaction.Beginning, s.When == paidaction.RetryRequested
	unpaid := s.From == paidaction.Pending || s.From == paidaction.PendingHeld
	outgoing := s.Flow == paidaction.FlowOutgoing
	switch f {
	case processStops, clockIsWrong, nodesClock, databaseForgets, nodeForgets, callerLeaves, receiverAdds, paidByForce: // by chance alone
		return false
	case paidAtExpiry, overpaid, paidInParts: // these steps follow from the payer's payment
		return (unpaid || s.From == paidaction.Canceling) && (s.When == paidaction.InvoiceIsPaid || s.When == paidaction.InvoiceIsHeld)
	case eventDropped, eventRepeated, eventDelayed: // an invoice exists, and changes before the step
		changes := unpaid || s.From == paidaction.Held || s.From == paidaction.Canceling || s.From == paidaction.Forwarded || s.When == paidaction.InvoiceIsGone
		return changes && !outgoing && s.When != paidaction.NeverIssued
	case streamEnds: // the outgoing payment's stream
		return s.From == paidaction.Forwarding
	case arrivesLater: // the calls to issue, pay, settle or cancel
		if s.From == paidaction.Held && s.When == paidaction.TooFewBlocks {
			return false // after a settle is permitted there is no cancel; before it, no call that could arrive late
		}
		return !beginning && !retried && s.From != paidaction.FailedForward && s.When != paidaction.BalanceWasDebited
	case saysExists: // the calls to issue or to pay
		return unpaid || s.From == paidaction.Forwarding
	case callFails, answerIsLost, slow, saysUnknown:
		if retried && f == saysUnknown && s.Flow != paidaction.FlowWrapped {
			return false // a retry looks up nothing; the job that prepares a further attempt may have done so
		}
		return s.Flow != paidaction.FlowBalance && (s.When != paidaction.BalanceWasDebited || s.From == paidaction.Forwarded)
	case nodeAway, nodeBehind, clockJumps, blockBurst, jobTwice: // while the action is open
		return !beginning && !retried
	case askedTwice:
		return beginning
	case retriedTwice:
		return retried
	}
	return true
}

// byOperator reports whether a step is taken by a command: the operator of the simulation has none but that
// for what has arrived from the chain.
func byOperator(s paidaction.Step) bool {
	return s.When == paidaction.WrittenOff || s.When == paidaction.GivenUp
}
