package relay

// These are for tests.
var (
	BlameOf       = blameOf
	RefusalOf     = refusalOf
	TooLittleLeft = tooLittleLeft
	Unsent        = unsent
)
