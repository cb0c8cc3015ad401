package reconcile

// InPages has the time looked at after every so many actions.
func (c Config) InPages(actions int) Config {
	c.page = actions
	return c
}
