package reconcile

// InPages makes the run look at the clock after every so many actions.
func (c Config) InPages(actions int) Config {
	c.page = actions
	return c
}
