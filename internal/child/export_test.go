package child

// Abandon leaves the directory behind as a process does that is killed.
func (s *Scratch) Abandon() { s.claim.Release() }
