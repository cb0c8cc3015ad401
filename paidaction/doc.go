// Package paidaction is the heart of Holdfast: an engine that lets any action of an application cost money, so that data
// and money always agree. The action happens exactly once if it was paid, and the money returns if it did not happen.
//
// An application implements Action, once per kind of thing that costs money, and hands the implementations to New. The engine imports no
// edge: what it needs of Lightning and of a job queue it names in small interfaces of its own.
//
// Whoever has to repair something begins with the machine (machine.go): one table that says from which state which fact leads where, what its
// transaction does and which node call is owed after it. Nothing moves an action in any other way. The rest is in the order in which an action
// meets it:
//
//   - Asked for: pay.go walks the payment methods, plan.go finds out what a method needs of the outside, begin.go makes the row. A
//     payer can also ask for another attempt (retry.go), or give one up (cancel.go). turn.go is the order among the requests of one payer.
//   - Waiting for its payer: invoice.go opens the invoice.
//   - Moving on: advance.go takes a step (Drive, Advance), after observe.go has asked the node for the fact. Events and jobs come in through
//     Drive; sweep.go finds what they have missed, and standby.go is the job of those that took a step together.
//   - In the step's transaction: transaction.go runs it, effect.go does what the step says, tx.go hands out the money.
//   - Money that leaves: forward.go for the wrapped flow, outgoing.go for withdrawals, inside.go for a withdrawal that pays an invoice of
//     our own. writeoff.go ends what a node that has lost its data will never tell.
//   - Afterwards: following.go does what follows payments, failed.go what follows failures.
//   - Several at once: gathering.go brings together those that wait at the same time, together.go pays them from balances, stride.go has them take
//     one step. Each does in one transaction what is done elsewhere for one action, and falls back to that.
package paidaction
