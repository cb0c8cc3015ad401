package paidaction

// GroupsAtOnce is how many groups run at once: while they do, whoever comes waits for one of them to end.
const GroupsAtOnce = groupsAtOnce

// Waiting is how many attempts wait to be paid together with others.
func (e *Engine) Waiting() (n int) {
	for _, g := range e.gathered {
		n += g.Waiting()
	}
	return n
}

// Reading is how many wait for others to have read their actions, to be read together.
func (e *Engine) Reading() int { return e.reads.Waiting() }

// Following is how many jobs wait for the transaction of what follows other payments, to share the next one.
func (e *Engine) Following() int { return e.follows.Waiting() }

// Paid is what counts as paid for something that costs this much.
func (v NodeInvoice) Paid(cost Msat) Msat { return v.paid(cost) }

// InStride reports whether actions that take this step at the same time share a transaction.
func (s Step) InStride() bool { return s.inStride() }
