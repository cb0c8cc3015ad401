package simnode

import (
	"context"
	"slices"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Method names a method of paidaction.SendingNode or paidaction.NodeEvents.
type Method string

// The methods under which calls are recorded and faults are set.
const (
	MethodOpen          Method = "OpenInvoice"
	MethodLookup        Method = "LookupInvoice"
	MethodSettle        Method = "SettleInvoice"
	MethodCancel        Method = "CancelInvoice"
	MethodEachSettled   Method = "EachSettled"
	MethodChain         Method = "Chain"
	MethodWatchInvoices Method = "WatchInvoices"
	MethodWatchInvoice  Method = "WatchInvoice"
	MethodWatchBlocks   Method = "WatchBlocks"
	MethodPay           Method = "Pay"
	MethodTrack         Method = "TrackPayment"
	MethodDecode        Method = "DecodeInvoice"
	MethodEstimate      Method = "EstimateRoute"
	MethodSendable      Method = "Sendable"
	MethodChannels      Method = "Channels"
	MethodPublicKey     Method = "PublicKey"
	MethodTime          Method = "Time"
	MethodEachPayment   Method = "EachPayment"
)

// Call is one recorded call. Hash is zero if the method has none.
type Call struct {
	Method  Method
	Hash    paidaction.Hash
	Reached bool // false if a fault kept the call from the node, so that it certainly did nothing
}

// Calls are all calls so far, in order, whether or not they reached the node.
func (n *Node) Calls() []Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.calls)
}

// Count is how many calls of a method for a hash reached the node.
func (n *Node) Count(m Method, h paidaction.Hash) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, c := range n.calls {
		if c.Method == m && c.Hash == h && c.Reached {
			count++
		}
	}
	return count
}

// ForgetCalls empties the record.
func (n *Node) ForgetCalls() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = nil
}

// call records a call, applies the faults, and does the work with n.mu held.
func (n *Node) call(ctx context.Context, m Method, h paidaction.Hash, work func() error) error {
	before, after := n.hooks(m)
	if before != nil {
		before(h)
	}
	err := n.thaw(ctx)
	if err == nil {
		err = n.callLocked(ctx, m, h, work)
	}
	if after != nil {
		after(h)
	}
	return err
}

func (n *Node) callLocked(ctx context.Context, m Method, h paidaction.Hash, work func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := n.faults.before(m); err != nil {
		n.calls = append(n.calls, Call{Method: m, Hash: h})
		return err
	}
	n.calls = append(n.calls, Call{Method: m, Hash: h, Reached: true})
	err := work()
	if n.faults.take(n.faults.lost, m) {
		// Whatever the node answered, nobody heard it.
		return ErrAnswerLost
	}
	return err
}
