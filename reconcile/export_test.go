package reconcile

// InPages makes the run look at the clock after every so many actions.
func (c Config) InPages(actions int) Config {
	c.page = actions
	return c
}

// Guards are the names of the parts of the schema that a run misses once they are gone.
func Guards() (names []string) {
	for _, p := range present {
		for _, g := range p.guards {
			names = append(names, g.name)
		}
	}
	return names
}
