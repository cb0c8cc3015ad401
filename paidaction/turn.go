package paidaction

import "context"

// Turns order the requests of one payer that end in an invoice: the invoices come in the order of the requests, over all
// processes. Different payers do not wait for each other.
//
// It is order that they give, and nothing else. What must not happen twice, or not at the same time, the database refuses; so a
// turn that is lost, because its request takes too long, stops nothing.
type Turns interface {
	// Queue takes the payer's next place, at once and without I/O: a request that did something else first could be overtaken
	// meanwhile (spec 05.32).
	Queue(payer int64) Turn
}

// Turn is a place among the requests of a payer, then the turn itself.
type Turn interface {
	// Wait returns when every request that came before has its invoice, or left; at once if that was so before. open says
	// whether to go on without order where nobody can tell whose turn it is; else the refusal is TRY_AGAIN, as it is for a wait
	// that is too long.
	Wait(ctx context.Context, open bool) error
	// Leave gives up the place, or the turn. A Wait after it begins at the end.
	Leave()
}

// queue takes the place of a request. Anonymous payers wait for nobody: they are not one person, and one of them would hold up
// all (spec 05.12).
func (e *Engine) queue(payer *int64) Turn {
	if e.Turns == nil || payer == nil {
		return unordered{}
	}
	return e.Turns.Queue(*payer)
}

// unordered is the turn of a request that waits for nobody.
type unordered struct{}

func (unordered) Wait(context.Context, bool) error { return nil }
func (unordered) Leave()                           {}
