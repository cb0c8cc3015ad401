package paidaction

// Waiting is how many attempts wait to be paid together with others.
func (e *Engine) Waiting() (n int) {
	for _, g := range e.gathered {
		n += g.Waiting()
	}
	return n
}
