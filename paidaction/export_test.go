package paidaction

// Waiting is how many attempts wait to be paid together with others.
func (e *Engine) Waiting() (n int) {
	for _, g := range e.gathered {
		n += g.Waiting()
	}
	return n
}

// Reading is how many wait for others to have read their actions, to be read together.
func (e *Engine) Reading() int { return e.reads.Waiting() }
