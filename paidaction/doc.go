// Package paidaction is the heart of Holdfast: an engine that lets any action of an application cost money, so that
// data and money always agree. An action happens exactly once if it was paid, and the money returns if it did not
// happen.
//
// An application implements Action (action.go) once per kind of thing that costs money, and passes the implementations
// to New (engine.go). The engine imports no edge: it declares in small interfaces what it needs of Lightning
// (lightning.go, relay.go) and of a job queue. It sends nothing itself: the words in which relay, lightning and
// reconcile speak of payments that leave stand beside these (payment.go).
//
// To repair something, begin with the machine (machine.go). It is one table: from which state which fact leads where,
// what the transaction of that step does, and which node call is owed after it. Nothing moves an action in any other
// way. The other files, in the order in which an action meets them:
//
//   - Asked for: pay.go tries the payment methods, plan.go finds out what a method needs from outside, begin.go makes
//     the row. A payer can also ask for another attempt (retry.go) or give one up (cancel.go). turn.go orders the
//     requests of one payer.
//   - Waiting for its payer: invoice.go opens the invoice.
//   - Moving on: observe.go asks the node for the fact, then advance.go takes a step (Drive, Advance). Events and jobs
//     come in through Drive. sweep.go finds what they have missed, and standby.go is the job of actions that took a
//     step together.
//   - In the step's transaction: transaction.go runs it, effect.go does what the step says, tx.go hands out the money.
//   - Money that leaves: forward.go for the wrapped flow, outgoing.go for withdrawals, inside.go for a withdrawal that
//     pays an invoice of our own. writeoff.go ends an action whose outcome only a node that has lost its data could
//     tell, giveup.go one as FAILED whose invoice, or payment, such a node would have to tell of; learn.go takes a
//     preimage from an operator that such a node will never tell, onchain.go what the chain has
//     shown of a payment that a node only counts on.
//   - Afterwards: following.go does what follows payments, failed.go what follows failures.
//   - What the others are written in: state.go has the states, flows and methods, msat.go the amounts, error.go the
//     refusals, proof.go what an anonymous payer has proved. definition.go hides the types of an action from the engine,
//     about.go marks whose work a context is, beside.go is how two calls go out at once.
//   - Looked at: view.go is an action as its payer sees it, reading.go reads together what is asked for at the same time,
//     price.go says what an action would cost.
//   - Several at once: gathering.go brings together actions that wait at the same time, together.go pays them from
//     balances, stride.go has them take one step. Each does in one transaction what other files do for one action, and
//     falls back to that.
package paidaction
