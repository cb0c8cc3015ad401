package relay

// BlameOf is for tests.
var BlameOf = blameOf
