package community

import "github.com/a-seed-a7aed72f/holdfast/paidaction"

// Codes of this package, besides those of paidaction. They too keep their meaning for ever.
const (
	CodeAlreadyVoted   paidaction.Code = "ALREADY_VOTED"    // this person's vote is in the poll, or waits to be paid
	CodePollClosed     paidaction.Code = "POLL_CLOSED"      // voting is over
	CodeBioExists      paidaction.Code = "BIO_EXISTS"       // each person has one bio, which can be edited
	CodeNotPaid        paidaction.Code = "NOT_PAID"         // the item itself has to be paid first
	CodeEditWindowOver paidaction.Code = "EDIT_WINDOW_OVER" // the text and the forwards stay as they are
	CodeArchived       paidaction.Code = "ARCHIVED"         // the territory is stopped, until somebody takes it over
	CodeTooManyUploads paidaction.Code = "TOO_MANY_UPLOADS" // too many files are in no paid item yet
)
