package relay

// BlameOf is for tests.
var BlameOf = blameOf

// TooLittleLeft is for tests.
var TooLittleLeft = tooLittleLeft
