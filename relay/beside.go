package relay

// Questions that do not depend on each other are asked concurrently: a payment waits for the slowest answer, not for
// the sum.

// together runs all functions, and returns the first error in the order of the arguments, whichever came first.
func (r *Relay) together(all ...func() error) error {
	errs, waits := make([]error, len(all)), make([]func(), len(all))
	for i, do := range all {
		waits[i] = r.Beside(func() { errs[i] = do() })
	}
	var first error
	for i, wait := range waits {
		if wait(); first == nil {
			first = errs[i]
		}
	}
	return first
}
