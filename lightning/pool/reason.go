package pool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reason is why a node is not given a payment.
type Reason string

// The reasons, from the one that passes soonest to the one that never does. Their texts are labels of metrics.
const (
	Busy     Reason = "busy"             // all its slots are taken
	Cooling  Reason = "cooling"          // it rests after a payment or a failure
	Unfunded Reason = "unfunded"         // it can send something, but not this much
	Unasked  Reason = "unasked"          // it has not answered yet, or the database could not confirm its key
	Unsynced Reason = "unsynced"         // it is behind the chain
	Silent   Reason = "silent"           // it did not answer when it was last asked
	Low      Reason = "low_outbound"     // disabled: it can send less than MinOutbound
	Unknown  Reason = "outbound_unknown" // disabled: what it can send could not be learned several times
	Draining Reason = "draining"         // an operator has payments end there, and no new ones begin
	Disabled Reason = "disabled"         // by an operator, or since another node has answered under its name
	Stranger Reason = "other_key"        // disabled: another node answers under its name
	Receives Reason = "receives"         // it only issues invoices
	Avoided  Reason = "avoided"          // the caller does not want it
)

var reasons = []Reason{Busy, Cooling, Unfunded, Unasked, Unsynced, Silent, Low, Unknown, Draining, Disabled, Stranger, Receives, Avoided}

// alarms are the reasons that somebody should look into.
var alarms = []Reason{Low, Unknown, Disabled, Stranger}

// ErrNoNode says that no node could be leased. [NoNodeError] says why.
var ErrNoNode = errors.New("no node can send this payment now")

// ErrClosed says that the pool was closed.
var ErrClosed = errors.New("the pool of nodes is closed")

// NoNodeError is ErrNoNode with the reason of every node that was asked for. It is for operators, since it names nodes
// and what they said.
type NoNodeError struct{ Nodes []Refusal }

// Refusal says why one node did not take a payment.
type Refusal struct {
	Node   string
	Reason Reason
	Detail string
}

// Reason is that of the node that came closest to taking the payment; empty if there is no node at all.
func (e *NoNodeError) Reason() Reason {
	for _, r := range reasons {
		if slices.ContainsFunc(e.Nodes, func(n Refusal) bool { return n.Reason == r }) {
			return r
		}
	}
	return ""
}

func (e *NoNodeError) Error() string {
	said := make([]string, len(e.Nodes))
	for i, n := range e.Nodes {
		said[i] = n.Node + ": " + n.Detail
	}
	return fmt.Sprintf("%v: %s", ErrNoNode, strings.Join(said, "; "))
}

// Unwrap makes errors.Is find ErrNoNode.
func (e *NoNodeError) Unwrap() error { return ErrNoNode }

// refusal says why the node cannot take a payment; empty if it can as soon as a slot is free. Called with the pool's mu
// held, as is detail.
func (m *member) refusal(need Need, s *Settings, now time.Time) Reason {
	switch {
	case slices.Contains(need.Avoid, m.Name):
		return Avoided
	case !m.met:
		return Unasked
	case m.record.OtherKey != nil:
		return Stranger
	case m.record.DisabledReason != nil:
		return Disabled
	case m.record.Draining:
		return Draining
	case len(m.slots) == 0:
		return Receives
	case m.unknowns >= s.Unknowns:
		return Unknown
	case m.silent != nil:
		return Silent
	case !m.chain.Synced:
		return Unsynced
	case !m.measured:
		return Unasked
	case m.outbound < s.MinOutbound:
		return Low
	case s.Rests(m.cooling, now):
		return Cooling
	case m.outbound-m.promised < need.Amount:
		return Unfunded
	}
	return ""
}

// detail is the reason in words.
func (m *member) detail(r Reason) string {
	switch r {
	case Busy:
		return "all of its slots are taken"
	case Cooling:
		return fmt.Sprintf("it rests until %s: %s", m.cooling.UTC().Format(time.DateTime), m.coolingReason)
	case Unfunded:
		return fmt.Sprintf("it can send %d msat", m.outbound-m.promised)
	case Unasked:
		return "it has not yet reported who it is and what it can send"
	case Unsynced:
		return fmt.Sprintf("it is behind the chain, at height %d", m.chain.Height)
	case Silent:
		return fmt.Sprintf("it does not answer: %v", m.silent)
	case Low:
		return fmt.Sprintf("disabled: it can send only %d msat", m.outbound)
	case Unknown:
		return fmt.Sprintf("disabled: it failed %d times in a row to report what it can send: %v", m.unknowns, m.lastUnknown)
	case Draining:
		return "it is being drained" + m.away()
	case Disabled:
		return "disabled: " + *m.record.DisabledReason + m.away()
	case Stranger:
		return "disabled: another node answers under its name: " + *m.record.DisabledReason
	case Receives:
		return "it only issues invoices" + m.away()
	case Avoided:
		return "it is not wanted for this payment"
	}
	return ""
}

// away says, of a node that operators keep payments from, whether it is also silent: then the payments that it was
// given cannot be followed.
func (m *member) away() string {
	if m.silent == nil {
		return ""
	}
	return fmt.Sprintf("; it does not answer: %v", m.silent)
}
