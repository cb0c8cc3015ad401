package paidaction

import "context"

// Turns order those requests of one payer that end in an invoice: the invoices come in the order of the requests,
// across all processes. Different payers do not wait for each other.
//
// They give order and nothing else. The database refuses what must not happen twice, or not at the same time. So it
// does no harm if a turn is lost because its request takes too long.
type Turns interface {
	// Queue takes the payer's next place, at once and without I/O: a request that did something else first could be
	// overtaken meanwhile (spec 05.32).
	Queue(payer int64) Turn
}

// Turn is a place in the queue of a payer's requests, and then the turn itself.
type Turn interface {
	// Wait returns once every earlier request has its invoice or has left. open says whether to go on without order if
	// nobody can tell whose turn it is; otherwise that is refused with TRY_AGAIN, as is too long a wait.
	Wait(ctx context.Context, open bool) error
	// Leave gives up the place or the turn. A Wait after it starts at the end of the queue.
	Leave()
}

// queue takes the place of a request. Anonymous payers do not queue: they are not one person, and one of them would
// hold up all others (spec 05.12).
func (e *Engine) queue(payer *int64) Turn {
	if e.Turns == nil || payer == nil {
		return unordered{}
	}
	return e.Turns.Queue(*payer)
}

// queueOf is queue, but no request of somebody else takes a place among those of its payer.
func (e *Engine) queueOf(r Request) Turn {
	if r.OnBehalf {
		return unordered{}
	}
	return e.queue(r.Caller.User)
}

// unordered is the turn of a request that waits for nobody.
type unordered struct{}

func (unordered) Wait(context.Context, bool) error { return nil }
func (unordered) Leave()                           {}
